// Package decide says what should change in the projects, and why: values in, values out. It knows no file, no clock and no
// goroutine.
package decide

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// Decide runs all policies: reap, expire, retry, admit, alert, in that order of precedence. It is pure: the
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
	looked     map[source]*protocol.Snapshot
	taken      map[protocol.Subject]bool
	present    map[string]bool // keys of the conditions that hold now
	cancelled  map[protocol.Subject]bool
	stopped    map[protocol.Subject]time.Time // work for which processes are ended by this decision
	waiting    []*taskLook                    // tasks that ask to be admitted
	leases     []*taskLook                    // holds that a renewal may be due for, unless they are released now
	claims     claims
	reissued   bool                                  // an overdue retry goes in this decision
	trees      map[protocol.Identity]*capacity.Usage // of the view, once somebody has asked
	reaps      writer[Reap]                          // of the place that is being judged
	own        owned
}

// owned says which parts of the plan are no longer shared with what they were made from.
type owned struct {
	agents, tasks, locks, reaps, agentVerdicts, taskVerdicts, lockVerdicts, projects bool

	memoryOf, verdictsOf map[source]bool // places of which tasks were admitted or refused
}

// source is one protocol in one project.
type source struct{ project, protocol string }

func placeOf(s protocol.Subject) source { return source{s.Project, s.Protocol} }

func newDecision(v View, m Memory, cfg Config) *decision {
	d := &decision{view: v, old: m, cfg: cfg,
		now: plain(v.Now), local: plainLocal(v.Now),
		looked:    make(map[source]*protocol.Snapshot, len(v.Snapshots)),
		taken:     map[protocol.Subject]bool{},
		present:   map[string]bool{},
		cancelled: map[protocol.Subject]bool{},
		stopped:   map[protocol.Subject]time.Time{},
		claims:    claims{ended: map[protocol.Subject]capacity.Ended{}, list: make([]capacity.Claim, 0, len(m.Gate.Claims)+1)},
	}
	d.view.Load.At = plain(v.Load.At)
	d.old.Gate = m.Gate.Follow(d.now)
	for _, share := range []*protocol.Share{&d.view.Load.CPU, &d.view.Load.Memory, &d.view.Load.Files, &d.view.Load.Disk, &d.view.Load.Stalled} {
		*share = rounded(*share)
	}
	d.findProcesses()
	for i := range v.Snapshots {
		s := &v.Snapshots[i]
		d.looked[source{s.Project, s.Protocol}] = s
	}
	d.plan.Memory = d.remember()
	if full := d.cfg.Capacity.Threshold; d.view.Load.Memory.Or(0) > full || d.view.Load.Files.Or(0) > full {
		d.plan.Memory.Full = d.now
	}
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

// findProcesses enters how the processes were found.
func (d *decision) findProcesses() {
	d.processes, d.claimed = make(map[protocol.Identity]heartbeat.ProcessState, len(d.view.Processes)), map[int]Process{}
	for _, p := range d.view.Processes {
		d.processes[p.Identity] = p.State
		if p.Claimed {
			d.claimed[p.Identity.PID] = p
		}
	}
}

// remember starts the next Memory from the last one. What belongs to a project that was not looked at stays for a while;
// the rest is replaced place by place, so that what left the files leaves the memory.
func (d *decision) remember() Memory {
	next := Memory{LastLook: d.now, Gate: d.old.Gate,
		// No later than they could be by this clock: it may have been set back.
		ResumeUntil: earliest(d.now.Add(d.cfg.Heartbeat.ResumeGrace), d.old.ResumeUntil), LastReissue: earliest(d.now, d.old.LastReissue),
		Agents: d.old.Agents, Tasks: d.old.Tasks, Locks: d.old.Locks, Reaps: d.old.Reaps, Projects: d.old.Projects}
	for name, p := range d.old.Projects {
		if p.ahead(d.now) {
			d.setProject(&next, name, p.follow(d.now))
		}
	}
	recent := func(t time.Time) bool { return d.now.Sub(t) < forgetAfter }
	forget(d, &next.Agents, &d.own.agents, func(a heartbeat.Memory) bool { return recent(a.Looked) })
	forget(d, &next.Tasks, &d.own.tasks, func(t TaskMemory) bool { return recent(t.Looked) })
	d.keepGone(&next)
	forget(d, &next.Locks, &d.own.locks, func(l heartbeat.LockMemory) bool { return recent(l.Looked) })
	forget(d, &next.Reaps, &d.own.reaps, func(r Reap) bool { return recent(r.Seen) })
	for i := range d.view.Snapshots {
		s := &d.view.Snapshots[i]
		p := next.Projects[s.Project]
		was := p
		if at := plain(s.At); p.Since.IsZero() || p.Since.After(at) { // the clock was set back since
			p.Since = at
		}
		if !s.Gone { // else nothing was seen
			p.Looked = earliest(plain(s.At), d.now)
		}
		if !p.Looked.Equal(was.Looked) || !p.Since.Equal(was.Since) {
			d.setProject(&next, s.Project, p)
		}
	}
	// One single look (--once) is always far from the one before it.
	if d.view.Resumed && !d.view.Once {
		next.ResumeUntil = d.now.Add(d.cfg.Heartbeat.ResumeGrace)
	}
	return next
}

// forget drops what is not to be kept of places that were not looked at.
func forget[V any](d *decision, b *Book[V], own *bool, keep func(V) bool) {
	for at, p := range b.parts {
		switch {
		case d.looked[at.source] != nil:
		case keep == nil:
			replace(b, own, at, nil)
		default:
			replace(b, own, at, p.only(keep))
		}
	}
}

// setProject remembers something else of a project. The old memory may be shared.
func (d *decision) setProject(m *Memory, name string, p ProjectMemory) {
	if !d.own.projects {
		m.Projects, d.own.projects = maps.Clone(m.Projects), true
		if m.Projects == nil {
			m.Projects = map[string]ProjectMemory{}
		}
	}
	m.Projects[name] = p
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

// remembered is what is remembered of one place.
type remembered struct {
	agents *part[heartbeat.Memory]
	tasks  *part[TaskMemory]
	locks  *part[heartbeat.LockMemory]
	reaps  *part[Reap]
}

// of gives what the memory holds of a place.
func (m *Memory) of(at source) remembered {
	return remembered{agents: m.Agents.parts[bookKey{at, protocol.KindAgent}], tasks: m.Tasks.parts[bookKey{at, protocol.KindTask}],
		locks: m.Locks.parts[bookKey{at, protocol.KindLock}], reaps: m.Reaps.parts[bookKey{at, protocol.KindAgent}]}
}

// project judges one snapshot: its agents first, because tasks depend on them.
func (d *decision) project(s *protocol.Snapshot) {
	at := source{s.Project, s.Protocol}
	known := d.old.of(at)
	agents := d.agents(s, at, known)
	d.locks(s, at, agents, known)
	if !s.Gone {
		d.tasks(s, at, agents, known)
	}
	d.questions(s)
	d.findings(s)
	d.events(s)
}

// tasks judges the tasks of a snapshot.
func (d *decision) tasks(s *protocol.Snapshot, at source, agents map[string]*agentLook, was remembered) {
	requests, since := &requests{s: s}, d.plan.Memory.Projects[s.Project].Since
	k, known, verdicts := new(taskLook), writer[TaskMemory]{old: was.tasks, same: equal[TaskMemory]}, make([]TaskVerdict, 0, len(s.Tasks))
	for i := range s.Tasks {
		t := &s.Tasks[i]
		m := known.before(t.ID)
		if m.settles(t, s.At) {
			verdicts = set(verdicts, known.write(t.ID, m), completed)
			continue
		}
		queued := len(d.waiting) + len(d.leases)
		d.look(k, s, t, agents, known.value(t.ID))
		k.requests, k.since = requests, since
		k.judge()
		d.claims.enter(k)
		d.remind(k)
		d.plan.Open = d.plan.Open || k.verdict.State.Open()
		verdicts = set(verdicts, known.write(k.t.ID, &k.mem), k.verdict)
		if len(d.waiting)+len(d.leases) > queued { // admit comes back to it
			k = new(taskLook)
		}
	}
	d.claims.settle()
	tasks := known.done()
	replace(&d.plan.Memory.Tasks, &d.own.tasks, bookKey{at, protocol.KindTask}, tasks)
	replace(&d.plan.Tasks, &d.own.taskVerdicts, bookKey{at, protocol.KindTask}, aligned(tasks, verdicts))
}

// set sets the value at a place that exists, or comes next.
func set[V any](list []V, i int, v V) []V {
	if i == len(list) {
		return append(list, v)
	}
	list[i] = v
	return list
}

// remind enters the last of what is remembered of a task.
func (d *decision) remind(k *taskLook) {
	k.mem.State, k.mem.Settled = k.verdict.State, k.settledBy()
	if at, now := d.stopped[k.subject]; now {
		k.mem.Stopped = at
	}
	k.mem.Waits = k.waitsSince()
}

// keep enters what became of a task after its place was judged.
func (d *decision) keep(k *taskLook) {
	d.remind(k)
	at := shelfOf(k.subject)
	amend(&d.plan.Memory.Tasks, &d.own.tasks, &d.own.memoryOf, at, k.t.ID, k.mem)
	amend(&d.plan.Tasks, &d.own.taskVerdicts, &d.own.verdictsOf, at, k.t.ID, k.verdict)
	d.plan.Open = d.plan.Open || k.verdict.State.Open()
}

// amend changes one value of a part that stands in a Book. Others may share the part, unless it was made here.
func amend[V comparable](b *Book[V], own *bool, made *map[source]bool, at bookKey, id string, v V) {
	p := b.parts[at]
	i := p.at[id]
	if p.values[i] == v {
		return
	}
	if !(*made)[at.source] {
		p = &part[V]{ids: p.ids, at: p.at, values: slices.Clone(p.values)}
		replace(b, own, at, p)
		if *made == nil {
			*made = map[source]bool{}
		}
		(*made)[at.source] = true
	}
	p.values[i] = v
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

// clock is the moment of the look behind a snapshot. A look from the future began before the clock was set back.
func (d *decision) clock(s *protocol.Snapshot) heartbeat.Clock {
	return heartbeat.Clock{Now: earliest(plain(s.At), d.now), LookEvery: d.cfg.LookEvery, ResumeUntil: d.plan.Memory.ResumeUntil}
}

// watched reports whether the project was looked at a moment ago: what is new there came in our sight.
func (d *decision) watched(s *protocol.Snapshot) bool {
	gap := d.now.Sub(d.old.LastLook)
	return !d.old.Projects[s.Project].Since.IsZero() && gap >= 0 && gap <= time.Minute
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
	slices.SortStableFunc(d.plan.Alerts, func(a, b rules.Alert) int {
		return cmp.Or(-cmp.Compare(a.Severity.Rank(), b.Severity.Rank()), cmp.Compare(a.Key, b.Key))
	})
	return d.plan
}

// rank orders the changes of one plan: reap, expire, retry, admit; the log comes last.
func rank(v protocol.Verb) int {
	return slices.Index([]protocol.Verb{protocol.VerbMark, protocol.VerbConclude, protocol.VerbReap, protocol.VerbUnlock, protocol.VerbRequeue, protocol.VerbFile,
		protocol.VerbCancel, protocol.VerbRetry, protocol.VerbBury, protocol.VerbHold, protocol.VerbRelease, protocol.VerbRenew,
		protocol.VerbRecord, protocol.VerbLog}, v)
}
