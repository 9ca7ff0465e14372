package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// Silence is what is remembered of many agents that fell silent at once while the scans themselves were in doubt.
// See docs/decisions.md, "steward doubts itself first".
type Silence struct {
	// Doubted is when a scan was last in doubt.
	Doubted time.Time `json:"doubted,omitzero"`
	// Since is when the silence was noticed; verdicts of silence wait until Until. Both are zero once that is over.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Agents are the agents that the one alert is about, as long as they stay dead; Told is when the last of them were
	// noticed.
	Agents []protocol.Subject `json:"agents,omitempty"`
	Told   time.Time          `json:"told,omitzero"`
}

// Many agents fall silent at once when they are at least manyAgents and more than manyShare percent of all that lived. Then
// verdicts wait for massWait. Allow no second postponement for another massWait; otherwise a permanently slow scan would
// postpone verdicts forever. An agent that was not scanned for lostSight is dropped from the alert: its project may have
// been removed.
const (
	manyAgents = 3
	manyShare  = 55
	massWait   = 90 * time.Second
	lostSight  = 24 * time.Hour
)

// weigh decides, before any agent is judged, whether verdicts of silence must wait.
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
	d.plan.Memory.Silence, d.silence = m, m
}

// manyFallSilent judges all agents as if nothing was in doubt: at this scan, and at the next one if nothing changes.
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

// lived reports whether an agent in that state could fall silent.
func lived(state protocol.AgentState) bool {
	switch state {
	case protocol.AgentStarting, protocol.AgentAlive, protocol.AgentLate, protocol.AgentHung:
		return true
	}
	return false
}

func bySilence(v heartbeat.Verdict) bool { return v.State == protocol.AgentDead && !v.Proof }

// oneOfMany reports whether the alert about many agents covers the agent's death: it fell silent with them, or when their
// verdicts stopped waiting.
func (k *agentJudge) oneOfMany() bool {
	m := &k.env.silence
	if slices.Contains(m.Agents, k.subject) {
		return true
	}
	k.joined = !m.Since.IsZero() && bySilence(k.verdict) && k.verdict.Changed && !k.env.now.Before(m.Until) &&
		k.env.now.Sub(m.Until) <= 2*k.env.cfg.LookEvery
	return k.joined
}

// silences alerts the user once of all agents that fell silent together, and drops those that came back or are no longer
// scanned. The alert outlasts the wait of the verdicts by far.
func (d *decision) silences() {
	m := &d.plan.Memory.Silence
	if d.now.Before(m.Since) || d.now.After(m.Until.Add(massWait)) { // or the clock was set back
		m.Since, m.Until = time.Time{}, time.Time{}
	}
	d.wakeAt(m.Until)
	m.Agents = slices.DeleteFunc(slices.Clone(m.Agents), func(s protocol.Subject) bool {
		if d.snapshotOf(s) == nil {
			return d.now.Sub(d.plan.Memory.Agents.Of(s).Looked).Abs() >= lostSight
		}
		return d.plan.Agents.Of(s).State != protocol.AgentDead
	})
	if len(m.Agents) == 0 {
		m.Agents, m.Told = nil, time.Time{}
		return
	}
	d.tell(condition{Alert: d.alertSilences(m)})
}

func (d *decision) alertSilences(m *Silence) rules.Alert {
	var names, tasks []string
	silent := true
	for _, subject := range m.Agents {
		names = append(names, subject.ID)
		if s := d.snapshotOf(subject); s != nil {
			open := OpenTasksOf(s, subject.ID)
			tasks, silent = append(tasks, idsOf(open)...), silent && (len(open) == 0 || allSilent(open))
		}
	}
	slices.Sort(names)
	a := rules.Alert{Kind: "agents_silent", Severity: protocol.High, Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "silence"},
		Blocking: len(tasks) > 0, Silent: silent && len(tasks) > 0, Options: CareOptions(), Occurrence: stamp(m.Told),
		Summary: fmt.Sprintf("%d agents fell silent at once", len(names)),
		Detail: fmt.Sprintf("%s: no heartbeat, no live process, no progress. steward itself had trouble to look just then, so it waited %s longer.",
			strings.Join(names, ", "), span(massWait)),
		Spoken: fmt.Sprintf("%s, %d agents fell silent at once.", d.cfg.Human, len(names))}
	if len(tasks) > 0 {
		a.Detail += fmt.Sprintf(" In flight: %s.", strings.Join(tasks, ", "))
	}
	return a
}
