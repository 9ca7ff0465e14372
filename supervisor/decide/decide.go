// Package decide says what should change in the projects, and why. It takes values and returns values: it reads no file, no
// clock, and starts no goroutine.
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

// Decide runs all policies: reap, expire, retry, admit, alert, in that order of precedence. It is pure: the same View,
// Memory and Config give the same Plan anywhere. Where two policies want to change one Subject, the earlier wins. The effect
// of a change reaches another policy only through the files, at the next scan.
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

// decision is the plan that is being made, and what its phases pass on to each other.
type decision struct {
	env
	plan      Plan
	taken     map[protocol.Subject]bool      // subjects that a change is ordered for
	present   map[string]bool                // keys of the conditions that hold now
	cancelled map[protocol.Subject]bool      // tasks that are cancelled
	stopped   map[protocol.Subject]time.Time // tasks for which processes are ended by this decision
	waiting   []*taskJudge                   // tasks that ask to be admitted
	leases    []*taskJudge                   // holds that a renewal may be due for, unless they are released now
	claims    claims
	reissued  bool // an overdue retry is issued by this decision
	own       owned
}

// owned says which parts of the plan are no longer shared with what they were made from.
type owned struct {
	agents, tasks, locks, reaps, agentVerdicts, taskVerdicts, lockVerdicts, projects bool

	memoryOf, verdictsOf map[source]bool // sources of which tasks were admitted or refused
}

// source is one protocol in one project.
type source struct{ project, protocol string }

func sourceOf(s protocol.Subject) source { return source{s.Project, s.Protocol} }

func newDecision(v View, m Memory, cfg Config) *decision {
	d := &decision{env: newEnv(v, m, cfg), taken: map[protocol.Subject]bool{}, present: map[string]bool{},
		cancelled: map[protocol.Subject]bool{}, stopped: map[protocol.Subject]time.Time{},
		claims: claims{ended: map[protocol.Subject]capacity.Ended{}, list: make([]capacity.Claim, 0, len(m.Gate.Claims)+1)}}
	d.plan.Memory = d.remember()
	if full := d.cfg.Capacity.Threshold; d.view.Load.Memory.Or(0) > full || d.view.Load.Files.Or(0) > full {
		d.plan.Memory.Full = d.now
	}
	d.resumeUntil, d.full = d.plan.Memory.ResumeUntil, d.plan.Memory.Full
	d.since = make(map[string]time.Time, len(d.plan.Memory.Projects))
	for name, p := range d.plan.Memory.Projects {
		d.since[name] = p.Since
	}
	d.carryStanding()
	return d
}

// plain is the wall clock reading in UTC without the monotonic one, so that a time read back from a dump compares the same.
func plain(t time.Time) time.Time { return t.Round(0).UTC() }

// plainLocal keeps the offset of the time zone, but not its name and rules, which a dump does not hold.
func plainLocal(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Round(0).In(time.FixedZone("", offset))
}

// rounded is a share as a dump shows it, so that a limit is passed here and there alike.
func rounded(s protocol.Share) protocol.Share {
	v, known := s.Value()
	if !known {
		return s
	}
	return protocol.Used(math.Round(v*1e4) / 1e4)
}

// forgetAfter is how long the tasks and agents of a project that is not scanned are remembered.
const forgetAfter = 7 * 24 * time.Hour

// remember starts the next Memory from the last one. What belongs to a project that was not scanned stays for a while; the
// rest is replaced source by source, so that a task that left the files leaves the memory.
func (d *decision) remember() Memory {
	next := Memory{LastLook: d.now, Gate: d.old.Gate,
		// Not later than this clock allows: it may have been set back.
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
		if at := plain(s.At); p.Since.IsZero() || p.Since.After(at) { // the clock was set back since then
			p.Since = at
		}
		if !s.Gone { // a folder that is gone shows nothing
			p.Looked = earliest(plain(s.At), d.now)
		}
		if !p.Looked.Equal(was.Looked) || !p.Since.Equal(was.Since) {
			d.setProject(&next, s.Project, p)
		}
	}
	// A single scan (--once) is always far from the one before it.
	if d.view.Resumed && !d.view.Once {
		next.ResumeUntil = d.now.Add(d.cfg.Heartbeat.ResumeGrace)
	}
	return next
}

// forget drops values of sources that were not scanned, unless keep holds them.
func forget[V any](d *decision, b *Book[V], own *bool, keep func(V) bool) {
	for at, p := range b.parts {
		switch {
		case d.snapshots[at.source] != nil:
		case keep == nil:
			replace(b, own, at, nil)
		default:
			replace(b, own, at, p.only(keep))
		}
	}
}

// setProject replaces what is remembered of a project. The old memory may be shared.
func (d *decision) setProject(m *Memory, name string, p ProjectMemory) {
	if !d.own.projects {
		m.Projects, d.own.projects = maps.Clone(m.Projects), true
		if m.Projects == nil {
			m.Projects = map[string]ProjectMemory{}
		}
	}
	m.Projects[name] = p
}

// remembered is what is remembered of one source.
type remembered struct {
	agents *part[heartbeat.Memory]
	tasks  *part[TaskMemory]
	locks  *part[heartbeat.LockMemory]
	reaps  *part[Reap]
}

// of gives what the memory holds of a source.
func (m *Memory) of(at source) remembered {
	return remembered{agents: m.Agents.parts[bookKey{at, protocol.KindAgent}], tasks: m.Tasks.parts[bookKey{at, protocol.KindTask}],
		locks: m.Locks.parts[bookKey{at, protocol.KindLock}], reaps: m.Reaps.parts[bookKey{at, protocol.KindAgent}]}
}

// project judges one snapshot: its agents first, because tasks depend on them.
func (d *decision) project(s *protocol.Snapshot) {
	at := source{s.Project, s.Protocol}
	known := d.old.of(at)
	agents := d.agents(s, at, known)
	if !s.Gone { // else what is remembered of them stays, for the folder may come back
		d.locks(s, at, agents, known)
		d.tasks(s, at, agents, known)
	}
	for _, r := range []ruling{questions(&d.env, s), findings(&d.env, s), events(s)} {
		d.merge(s, &r)
	}
}

// tasks judges the tasks of a snapshot.
func (d *decision) tasks(s *protocol.Snapshot, at source, agents map[string]*agentCase, was remembered) {
	requests := &requests{s: s}
	k, known, verdicts := new(taskJudge), writer[TaskMemory]{old: was.tasks, same: equal[TaskMemory]}, make([]TaskVerdict, 0, len(s.Tasks))
	for i := range s.Tasks {
		t := &s.Tasks[i]
		m := known.before(t.ID)
		if m.settles(t, s.At) {
			verdicts = set(verdicts, known.write(t.ID, m), completed)
			continue
		}
		*k = newTaskJudge(taskCase{env: &d.env, s: s, t: t, agent: agents[t.Agent], agents: agents, subject: s.Subject(protocol.KindTask, t.ID),
			at: plain(s.At), was: known.value(t.ID), requests: requests, since: d.since[s.Project],
			retries: d.plan.Memory.Projects[s.Project].Retries, lastReissue: d.plan.Memory.LastReissue, reissued: d.reissued})
		k.judge()
		d.enter(k)
		d.remind(k)
		verdicts = set(verdicts, known.write(t.ID, &k.next), k.verdict)
		if k.asks || k.renews { // admit comes back to it
			k = new(taskJudge)
		}
	}
	d.claims.settle()
	tasks := known.done()
	replace(&d.plan.Memory.Tasks, &d.own.tasks, bookKey{at, protocol.KindTask}, tasks)
	replace(&d.plan.Tasks, &d.own.taskVerdicts, bookKey{at, protocol.KindTask}, aligned(tasks, verdicts))
}

// enter takes over what was ruled on a task.
func (d *decision) enter(k *taskJudge) {
	d.merge(k.s, &k.ruling)
	if k.asks {
		d.waiting = append(d.waiting, k)
	}
	if k.renews {
		d.leases = append(d.leases, k)
	}
	if k.t.Cancelled {
		d.cancelled[k.subject] = true
	}
	d.reissued = d.reissued || k.reissues
	if k.spends || k.tally != (Tally{}) {
		p := d.plan.Memory.Projects[k.s.Project]
		if k.spends {
			p.Retries = append(recent(p.Retries, d.now), d.now)
		}
		p.Tally = p.Tally.plus(k.tally)
		d.setProject(&d.plan.Memory, k.s.Project, p)
	}
	d.plan.Open = d.plan.Open || k.verdict.State.Open()
	d.claims.enter(k)
}

// set replaces the value at an index, or appends it.
func set[V any](list []V, i int, v V) []V {
	if i == len(list) {
		return append(list, v)
	}
	list[i] = v
	return list
}

// remind enters what the verdict adds to the memory of a task.
func (d *decision) remind(k *taskJudge) {
	k.next.State, k.next.Settled = k.verdict.State, k.settledBy()
	if at, now := d.stopped[k.subject]; now {
		k.next.Stopped = at
	}
	k.next.Waits = k.waitsSince()
}

// keep enters what became of a task after its source was judged.
func (d *decision) keep(k *taskJudge) {
	d.merge(k.s, &k.ruling)
	d.remind(k)
	at := shelfOf(k.subject)
	amend(&d.plan.Memory.Tasks, &d.own.tasks, &d.own.memoryOf, at, k.t.ID, k.next)
	amend(&d.plan.Tasks, &d.own.taskVerdicts, &d.own.verdictsOf, at, k.t.ID, k.verdict)
	d.plan.Open = d.plan.Open || k.verdict.State.Open()
}

// amend changes one value of a part that stands in a Book. The part is copied first unless this decision made it.
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

// finish sorts the plan.
func (d *decision) finish() Plan {
	slices.SortStableFunc(d.plan.Changes, func(a, b protocol.Change) int {
		return cmp.Or(cmp.Compare(a.Subject.Project, b.Subject.Project), cmp.Compare(rank(a.Verb), rank(b.Verb)))
	})
	slices.SortStableFunc(d.plan.Alerts, func(a, b rules.Alert) int {
		return cmp.Or(-cmp.Compare(a.Severity.Rank(), b.Severity.Rank()), cmp.Compare(a.Key, b.Key))
	})
	return d.plan
}

// rank orders the changes of one plan: reap, expire, retry, admit. Log lines come last.
func rank(v protocol.Verb) int {
	return slices.Index([]protocol.Verb{protocol.VerbMark, protocol.VerbConclude, protocol.VerbReap, protocol.VerbUnlock, protocol.VerbRequeue, protocol.VerbFile,
		protocol.VerbCancel, protocol.VerbRetry, protocol.VerbBury, protocol.VerbHold, protocol.VerbRelease, protocol.VerbRenew,
		protocol.VerbRecord, protocol.VerbLog}, v)
}
