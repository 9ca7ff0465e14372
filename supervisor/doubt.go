package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// ownTrouble is what has spoken against our own eyes lately: looks that came late, files that could not be read.
type ownTrouble struct {
	looked time.Time        // the last full look at any project
	late   time.Time        // when one came late, the last time
	unread time.Time        // when files could not be read, the last time
	failed map[unread]spell // the files that could not, and lookers that broke down
}

// unread is a file that cannot be used, or, without protocol and path, a project whose looker broke down.
type unread struct{ project, protocol, path string }

// spell is a trouble from its first time on, until it has not come back for failedMost.
type spell struct {
	since, last time.Time
	on          bool // at the last look
}

// The files of one look that begin to fail together are our own trouble rather than theirs, and so is a looker that breaks
// down; for failedMost: by then somebody has learnt of the faults themselves.
const (
	failTogether = 2
	failedMost   = 5 * time.Minute
)

// selfWatch takes note of how well the look went that the report is about. It is called before the report becomes the
// desk's state.
func (s *Supervisor) selfWatch(d *desk, r *report, now time.Time) {
	o := &s.own
	if r.full {
		gap := now.Sub(o.looked)
		woken := s.resumed || now.Before(s.memory.ResumeUntil) // that is a grace of its own
		if !o.looked.IsZero() && gap > 2*s.cfg.LookEvery && !woken {
			o.late = now
		}
		o.looked = now
	}
	o.compare(d, r, now)
	for _, f := range o.failed {
		if lasted := now.Sub(f.since); f.on && lasted >= 0 && lasted < failedMost {
			o.unread = now
		}
	}
}

// compare finds the files of a project that have begun to fail together, and those that can be read again.
func (o *ownTrouble) compare(d *desk, r *report, now time.Time) {
	project := d.project.Name
	before, after := faultsOf(project, d.snapshots), faultsOf(project, r.snapshots)
	var fresh []unread
	for key := range after {
		if _, known := o.failed[key]; !known && !before[key] {
			fresh = append(fresh, key)
		}
	}
	if len(fresh) < failTogether || d.lookedAt.IsZero() {
		fresh = nil
	}
	broken := unread{project: project}
	if _, known := o.failed[broken]; !known && r.problem != nil {
		fresh = append(fresh, broken)
	}
	if len(fresh) > 0 && o.failed == nil {
		o.failed = map[unread]spell{}
	}
	for _, key := range fresh {
		o.failed[key] = spell{since: now}
	}
	for key, f := range o.failed {
		if key.project != project {
			continue
		}
		if f.on = after[key] || key == broken && r.problem != nil; f.on {
			f.last = now
		}
		if o.failed[key] = f; !f.on && now.Sub(f.last).Abs() >= failedMost {
			delete(o.failed, key)
		}
	}
}

// forget drops what is remembered of a project that is gone.
func (o *ownTrouble) forget(project string) {
	maps.DeleteFunc(o.failed, func(key unread, _ spell) bool { return key.project == project })
}

// faultsOf gives the paths of a project that cannot be used, nil if there are none.
func faultsOf(project string, snapshots []protocol.Snapshot) map[unread]bool {
	var all map[unread]bool
	for i := range snapshots {
		for _, f := range snapshots[i].Faults {
			if all == nil {
				all = map[unread]bool{}
			}
			all[unread{project, snapshots[i].Protocol, f.Path}] = true
		}
	}
	return all
}

// doubt counts what has spoken against our own eyes for as long as agents may take to be heard of again: 0, 1 or 2.
func (s *Supervisor) doubt(now time.Time) int {
	n := 0
	for _, at := range [...]time.Time{s.own.late, s.own.unread} {
		if since := now.Sub(at); !at.IsZero() && since >= 0 && since < s.cfg.Heartbeat.ResumeGrace {
			n++
		}
	}
	return n
}

// Silence is what is remembered of many agents that fell silent at once while we had reason to doubt our own eyes.
type Silence struct {
	// Doubted is when there was reason, the last time.
	Doubted time.Time `json:"doubted,omitzero"`
	// Since is when it was noticed, and verdicts of silence wait until Until. Both are zero once that is over.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Agents are those of whom the one alert speaks, as long as they stay dead; Told is when the last of them were noticed.
	Agents []protocol.Subject `json:"agents,omitempty"`
	Told   time.Time          `json:"told,omitzero"`
}

// Many fall silent at once when they are at least manyAgents and more than manyShare in a hundred of all that lived.
// Then verdicts wait for massWait. For as long again nothing can hold them back once more, or it might never end where every
// look comes late. Who was not looked at for lostSight is told of no longer: the project may have been removed.
const (
	manyAgents = 3
	manyShare  = 55
	massWait   = 90 * time.Second
	lostSight  = 24 * time.Hour
)

// weigh decides, before anybody is judged, whether verdicts of silence must wait.
func (d *decision) weigh() {
	m := d.old.Silence
	if d.view.Doubt > 0 {
		m.Doubted = d.now
	}
	recent := !m.Doubted.IsZero() && d.now.Sub(m.Doubted).Abs() <= massWait
	if !recent {
		m.Doubted = time.Time{}
	}
	if m.Since.IsZero() && recent && d.manyFallSilent() {
		m.Since, m.Until = d.now, d.now.Add(massWait)
	}
	d.plan.Memory.Silence = m
}

// manyFallSilent judges everybody as if nothing was in doubt: at this look, and if nothing changes at the next.
func (d *decision) manyFallSilent() bool {
	all, now, soon := 0, 0, 0
	for i := range d.view.Snapshots {
		s := &d.view.Snapshots[i]
		at := d.clock(s)
		at.Doubt = d.view.Doubt
		next := at
		next.Now = at.Now.Add(d.cfg.LookEvery)
		for j := range s.Agents {
			a := &s.Agents[j]
			mem := d.old.Agents.Of(s.Subject(protocol.KindAgent, a.Name))
			if !lived(mem.State) {
				continue
			}
			all++
			facts, limits := d.facts(a, mem), d.cfg.Heartbeat.Of(s.Protocol, a)
			v, m := heartbeat.Judge(facts, mem, at, limits, d.cfg.Heartbeat)
			if bySilence(v) {
				now++
			}
			if v, _ = heartbeat.Judge(facts, m, next, limits, d.cfg.Heartbeat); bySilence(v) {
				soon++
			}
		}
	}
	return now > 0 && soon >= manyAgents && soon*100 > all*manyShare
}

// lived reports whether an agent in that state is one that could fall silent.
func lived(state protocol.AgentState) bool {
	switch state {
	case protocol.AgentStarting, protocol.AgentAlive, protocol.AgentLate, protocol.AgentHung:
		return true
	}
	return false
}

func bySilence(v heartbeat.Verdict) bool { return v.State == protocol.AgentDead && !v.Proof }

// oneOfMany reports whether the agent's death is told together with others': it fell silent with them, or when the
// verdict on them came to stand.
func (d *decision) oneOfMany(subject protocol.Subject, v heartbeat.Verdict) bool {
	m := &d.plan.Memory.Silence
	if slices.Contains(m.Agents, subject) {
		return true
	}
	if m.Since.IsZero() || !bySilence(v) || !v.Changed || d.now.Before(m.Until) || d.now.Sub(m.Until) > 2*d.cfg.LookEvery {
		return false
	}
	m.Agents, m.Told = append(slices.Clone(m.Agents), subject), m.Since // older Memories share the list
	return true
}

// silences tells the human, once, of all that fell silent together, and forgets who came back or is out of sight. That the
// verdicts waited is over long before the alert is.
func (d *decision) silences() {
	m := &d.plan.Memory.Silence
	if d.now.Before(m.Since) || d.now.After(m.Until.Add(massWait)) { // also when the clock was set back
		m.Since, m.Until = time.Time{}, time.Time{}
	}
	d.wake(m.Until)
	m.Agents = slices.DeleteFunc(slices.Clone(m.Agents), func(s protocol.Subject) bool {
		if d.looked[placeOf(s)] == nil {
			return d.now.Sub(d.plan.Memory.Agents.Of(s).Looked).Abs() >= lostSight
		}
		return d.plan.Agents.Of(s).State != protocol.AgentDead
	})
	if len(m.Agents) == 0 {
		m.Agents, m.Told = nil, time.Time{}
		return
	}
	d.alert(d.alertSilences(m))
}

func (d *decision) alertSilences(m *Silence) escalate.Alert {
	var names, tasks []string
	silent := true
	for _, subject := range m.Agents {
		names = append(names, subject.ID)
		if s := d.looked[placeOf(subject)]; s != nil {
			open := openTasksOf(s, subject.ID)
			tasks, silent = append(tasks, idsOf(open)...), silent && (len(open) == 0 || allSilent(open))
		}
	}
	slices.Sort(names)
	a := escalate.Alert{Kind: "agents_silent", Severity: protocol.High, Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "silence"},
		Blocking: len(tasks) > 0, Silent: silent && len(tasks) > 0, Options: ofCare(), Occurrence: stamp(m.Told),
		Summary: fmt.Sprintf("%d agents fell silent at once", len(names)),
		Detail: fmt.Sprintf("%s: no heartbeat, no live process, no progress. steward itself had trouble to look just then, so it waited %s longer.",
			strings.Join(names, ", "), span(massWait)),
		Spoken: fmt.Sprintf("%s, %d agents fell silent at once.", d.cfg.Human, len(names))}
	if len(tasks) > 0 {
		a.Detail += fmt.Sprintf(" In flight: %s.", strings.Join(tasks, ", "))
	}
	return a
}
