package supervisor

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// Decide is the whole brain: reap, expire, retry, admit, alert, in that order of precedence. It is pure: the
// same View, Memory and Config give the same Plan anywhere. Where two policies want to change one Subject,
// the earlier wins; one policy's effect reaches another only through the files, at the next look.
func Decide(v View, m Memory, cfg Config) Plan {
	d := newDecision(v, m, cfg)
	d.weigh()
	for i := range v.Snapshots {
		d.project(&v.Snapshots[i])
	}
	d.admit()
	d.faults()
	d.silences()
	d.settleIncidents()
	return d.finish()
}

// decision gathers what one call of Decide finds out.
type decision struct {
	view View
	// now is the moment in UTC, for all that is stored; local keeps the offset of the place.
	now, local time.Time
	old        Memory
	cfg        Config
	plan       Plan
	processes  map[protocol.Identity]heartbeat.ProcessState
	claimed    map[int]Process
	looked     map[place]*protocol.Snapshot
	taken      map[protocol.Subject]bool
	present    map[string]bool // keys of the conditions that hold now
	cancelled  map[protocol.Subject]bool
	stopped    map[protocol.Subject]time.Time // work for which processes are ended by this decision
	waiting    []*taskLook                    // tasks that ask to be let in
	leases     []*taskLook                    // holds that a renewal may be due for, unless they are let go now
	claims     claims
	reissued   bool                                  // an overdue retry goes in this decision
	trees      map[protocol.Identity]*capacity.Usage // of the view, once somebody has asked
}

// place is one protocol in one project.
type place struct{ project, protocol string }

func placeOf(s protocol.Subject) place { return place{s.Project, s.Protocol} }

func newDecision(v View, m Memory, cfg Config) *decision {
	d := &decision{view: v, old: m, cfg: cfg,
		now: plain(v.Now), local: plainLocal(v.Now),
		processes: make(map[protocol.Identity]heartbeat.ProcessState, len(v.Processes)),
		claimed:   map[int]Process{},
		looked:    make(map[place]*protocol.Snapshot, len(v.Snapshots)),
		taken:     map[protocol.Subject]bool{},
		present:   map[string]bool{},
		cancelled: map[protocol.Subject]bool{},
		stopped:   map[protocol.Subject]time.Time{},
		claims:    claims{presumed: map[protocol.Subject]capacity.Claim{}, ended: map[protocol.Subject]capacity.Ended{}},
	}
	d.view.Load.At = plain(v.Load.At)
	for _, share := range []*protocol.Share{&d.view.Load.CPU, &d.view.Load.Memory, &d.view.Load.Files, &d.view.Load.Disk, &d.view.Load.Stalled} {
		*share = rounded(*share)
	}
	for _, p := range v.Processes {
		d.processes[p.Identity] = p.State
		if p.Claimed {
			d.claimed[p.Identity.PID] = p
		}
	}
	tasks, agents := 0, 0
	for i := range v.Snapshots {
		s := &v.Snapshots[i]
		d.looked[place{s.Project, s.Protocol}] = s
		tasks, agents = tasks+len(s.Tasks), agents+len(s.Agents)
	}
	d.plan.Tasks = make(map[protocol.Subject]TaskVerdict, tasks)
	d.plan.Agents = make(map[protocol.Subject]heartbeat.Verdict, agents)
	d.plan.Memory = d.remember(tasks, agents)
	d.unseen()
	return d
}

// plain is the bare wall clock reading in UTC: what it leads to is the same when it was read back from a dump.
func plain(t time.Time) time.Time { return t.Round(0).UTC() }

// plainLocal keeps the offset of the place, but not its name and rules: a dump does not hold them.
func plainLocal(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Round(0).In(time.FixedZone("", offset))
}

// rounded is a share as a dump shows it, so that a limit is passed there and here alike.
func rounded(s protocol.Share) protocol.Share {
	v, known := s.Value()
	if !known {
		return s
	}
	return protocol.Used(math.Round(v*1e4) / 1e4)
}

// forgetAfter is how long tasks and agents of a project that nobody looks at are remembered.
const forgetAfter = 7 * 24 * time.Hour

// remember starts the next Memory. Maps are made anew, so that what left the files leaves the memory;
// what belongs to a project that was not looked at stays.
func (d *decision) remember(tasks, agents int) Memory {
	next := Memory{LastLook: d.now,
		// No later than they could be by this clock: it may have been set back.
		ResumeUntil: earliest(d.now.Add(d.cfg.Heartbeat.ResumeGrace), d.old.ResumeUntil), LastReissue: earliest(d.now, d.old.LastReissue),
		Agents:   make(map[protocol.Subject]heartbeat.Memory, agents),
		Tasks:    make(map[protocol.Subject]TaskMemory, tasks),
		Projects: make(map[string]ProjectMemory, len(d.old.Projects)+1),
		Gate:     d.old.Gate,
	}
	for name, p := range d.old.Projects {
		next.Projects[name] = p.follow(d.now)
	}
	for i := range d.view.Snapshots {
		s := &d.view.Snapshots[i]
		if p, ok := next.Projects[s.Project]; !ok || p.Since.IsZero() || p.Since.After(plain(s.At)) { // the clock was set back since
			p.Since = plain(s.At)
			next.Projects[s.Project] = p
		}
	}
	for subject, a := range d.old.Agents {
		if d.looked[placeOf(subject)] == nil && d.now.Sub(a.Looked) < forgetAfter {
			next.Agents[subject] = a
		}
	}
	for subject, t := range d.old.Tasks {
		if d.looked[placeOf(subject)] == nil && d.now.Sub(t.Looked) < forgetAfter {
			next.Tasks[subject] = t
		}
	}
	for subject, l := range d.old.Locks {
		if d.looked[placeOf(subject)] == nil && d.now.Sub(l.Looked) < forgetAfter {
			if next.Locks == nil {
				next.Locks = map[protocol.Subject]heartbeat.LockMemory{}
			}
			next.Locks[subject] = l
		}
	}
	for subject, r := range d.old.Reaps {
		if d.looked[placeOf(subject)] == nil && d.now.Sub(r.Seen) < forgetAfter {
			if next.Reaps == nil {
				next.Reaps = map[protocol.Subject]Reap{}
			}
			next.Reaps[subject] = r
		}
	}
	// One single look (--once) is always far from the one before it.
	if d.view.Resumed && !d.view.Once {
		next.ResumeUntil = d.now.Add(d.cfg.Heartbeat.ResumeGrace)
	}
	return next
}

// process finds out how the process is that speaks for an agent.
func (d *decision) process(a *protocol.Agent, m heartbeat.Memory) (heartbeat.ProcessState, protocol.Identity) {
	id := heartbeat.Watch(*a, m)
	if id.Proves() {
		return d.processes[id], id
	}
	p := d.claimed[id.PID]
	return p.State, p.Identity
}

// project judges one snapshot: its agents first, because tasks depend on them.
func (d *decision) project(s *protocol.Snapshot) {
	agents := d.agents(s)
	d.locks(s, agents)
	requests, since := &requests{s: s}, d.plan.Memory.Projects[s.Project].Since
	k := new(taskLook)
	for i := range s.Tasks {
		queued := len(d.waiting) + len(d.leases)
		d.look(k, s, &s.Tasks[i], agents)
		k.requests, k.since = requests, since
		k.judge()
		d.claims.enter(k)
		d.keep(k)
		if len(d.waiting)+len(d.leases) > queued { // somebody comes back to it; most tasks ended long ago, and nobody does
			k = new(taskLook)
		}
	}
	d.pleas(s)
	d.findings(s)
	d.events(s)
}

// keep enters what was found out about a task.
func (d *decision) keep(k *taskLook) {
	k.mem.State = k.verdict.State
	if at, now := d.stopped[k.subject]; now {
		k.mem.Stopped = at
	}
	k.mem.Waits = k.waitsSince()
	d.plan.Memory.Tasks[k.subject] = k.mem
	d.plan.Tasks[k.subject] = k.verdict
	d.plan.Open = d.plan.Open || k.verdict.State.Open()
}

// change adds a Change unless nothing may be changed there now, or an earlier policy has claimed the subject.
// A log line claims nothing: it may stand beside another change. It reports whether the change was added.
func (d *decision) change(s *protocol.Snapshot, c protocol.Change) bool {
	if s.Busy {
		return false
	}
	if !mayChange(s) {
		if c.Verb != protocol.VerbLog {
			d.plan.Waiting = append(d.plan.Waiting, c)
		}
		return false
	}
	if c.Verb != protocol.VerbLog {
		if d.taken[c.Subject] {
			return false
		}
		d.taken[c.Subject] = true
	}
	d.plan.Changes = append(d.plan.Changes, c)
	return true
}

// mayChange reports whether steward may change the files behind the snapshot.
func mayChange(s *protocol.Snapshot) bool { return s.Act && s.Yield == "" }

// clock is the moment of the look behind a snapshot.
func (d *decision) clock(s *protocol.Snapshot) heartbeat.Clock {
	return heartbeat.Clock{Now: plain(s.At), LookEvery: d.cfg.LookEvery, ResumeUntil: d.plan.Memory.ResumeUntil}
}

// wake asks for a decision at that moment at the latest. What is due already is part of this plan; to ask for it
// again would spin.
func (d *decision) wake(at time.Time) {
	if at.After(d.now) && (d.plan.Wake.IsZero() || at.Before(d.plan.Wake)) {
		d.plan.Wake = at
	}
}

// lookAgain asks for a look at a project at that moment at the latest. A moment that has come since the snapshot was
// taken counts as well: only another look can tell what it brought.
func (d *decision) lookAgain(project string, at time.Time) {
	if at.IsZero() {
		return
	}
	d.wake(at)
	if known, ok := d.plan.Looks[project]; ok && !at.Before(known) {
		return
	}
	if d.plan.Looks == nil {
		d.plan.Looks = map[string]time.Time{}
	}
	d.plan.Looks[project] = at
}

// resuming reports whether the machine came back from sleep a moment ago.
func (d *decision) resuming() bool { return d.now.Before(d.plan.Memory.ResumeUntil) }

// slept is how long the machine slept before this decision. That time counts against no task.
func (d *decision) slept() time.Duration {
	if !d.view.Resumed || d.view.Once || d.old.LastLook.IsZero() {
		return 0
	}
	return max(0, d.now.Sub(d.old.LastLook))
}

// finish puts the plan into its one order.
func (d *decision) finish() Plan {
	slices.SortStableFunc(d.plan.Changes, func(a, b protocol.Change) int {
		return cmp.Or(cmp.Compare(a.Subject.Project, b.Subject.Project), cmp.Compare(rank(a.Verb), rank(b.Verb)))
	})
	slices.SortStableFunc(d.plan.Alerts, func(a, b escalate.Alert) int {
		return cmp.Or(-cmp.Compare(a.Severity.Rank(), b.Severity.Rank()), cmp.Compare(a.Key, b.Key))
	})
	return d.plan
}

// rank orders the changes of one plan: reap, expire, retry, admit; the log comes last.
func rank(v protocol.Verb) int {
	return slices.Index([]protocol.Verb{protocol.VerbMark, protocol.VerbConclude, protocol.VerbReap, protocol.VerbUnlock, protocol.VerbRequeue, protocol.VerbFile,
		protocol.VerbCancel, protocol.VerbRetry, protocol.VerbBury, protocol.VerbHold, protocol.VerbRelease, protocol.VerbRenew,
		protocol.VerbLog}, v)
}
