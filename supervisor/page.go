package supervisor

import (
	"time"
	"unsafe"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// page is what the judgement of one place rested on and what it came to, so that the next decision need not judge the
// place again as long as all of that is the same.
//
// That it leads to the same plan rests on one thing: what is judged again on the same grounds comes out the same. The
// grounds are the snapshot, what is remembered of the place, how its processes were found, and the clock, as far as no
// moment has passed that was asked about. What a place does to the rest of the plan it does again from the page (see
// again). Where it does something that depends on the very moment, or on other places, the page is loud, and is not used.
type page struct {
	// The grounds.
	snapshot  protocol.Snapshot
	at, until time.Time // of the decision; until when nothing changes by the clock alone, zero: for ever
	known     remembered
	since     time.Time // as in ProjectMemory, like paused
	paused    string
	asked     []Process // processes that were asked for, and how they were found
	carriers  []carried
	usage     bool // what processes take was asked for
	loud      bool

	// What came of it.
	found           remembered
	agents          *part[heartbeat.Verdict]
	tasks           *part[TaskVerdict]
	locks           *part[heartbeat.LockVerdict]
	wake, look      time.Time
	open            bool
	steps           []step
	waiting, leases []*taskLook // as they were before anybody was admitted
	claims          claims
	cancelled       []protocol.Subject
}

// remembered is what is remembered of one place.
type remembered struct {
	agents *part[heartbeat.Memory]
	tasks  *part[TaskMemory]
	locks  *part[heartbeat.LockMemory]
	reaps  *part[Reap]
}

// step is something that a place did to the plan; one of the three.
type step struct {
	alert  *escalate.Alert
	stands *stood
	waits  *protocol.Change
}

// stood is a condition that was found to stand, and since when.
type stood struct {
	key         string
	subject     protocol.Subject
	from, since time.Time
}

// of gives what the memory holds of a place.
func (m *Memory) of(at place) remembered {
	return remembered{agents: m.Agents.parts[shelf{at, protocol.KindAgent}], tasks: m.Tasks.parts[shelf{at, protocol.KindTask}],
		locks: m.Locks.parts[shelf{at, protocol.KindLock}], reaps: m.Reaps.parts[shelf{at, protocol.KindAgent}]}
}

// holds notes that what is found out about this place may be another from then on.
func (d *decision) holds(until time.Time) {
	if p := d.page; p != nil && until.After(d.now) && (p.until.IsZero() || until.Before(p.until)) {
		p.until = until
	}
}

// before reports whether that moment is yet to come.
func (d *decision) before(at time.Time) bool {
	d.holds(at)
	return d.now.Before(at)
}

// within reports whether no more than so much time has passed since then.
func (d *decision) within(since time.Time, most time.Duration) bool {
	d.holds(since.Add(most + 1))
	return d.now.Sub(since) <= most
}

// loud notes that this place must be judged at the next decision whatever has happened.
func (d *decision) loud() {
	if d.page != nil {
		d.page.loud = true
	}
}

// step notes what the place did to the plan. A change whose lease begins now is another one at the next decision.
func (d *decision) step(s step) {
	if d.page == nil {
		return
	}
	d.page.steps = append(d.page.steps, s)
	if s.waits != nil && !s.waits.ReleaseBy.IsZero() {
		d.loud()
	}
}

// state is how a process was found.
func (d *decision) state(id protocol.Identity) heartbeat.ProcessState {
	s := d.processes[id]
	if d.page != nil && id != (protocol.Identity{}) {
		d.page.asked = append(d.page.asked, Process{Identity: id, State: s})
	}
	return s
}

// carrier is who was found under a pid that only a file names.
func (d *decision) carrier(pid int) Process {
	if pid == 0 {
		return Process{}
	}
	p := d.claimed[pid]
	if d.page != nil {
		d.page.carriers = append(d.page.carriers, carried{pid, p})
	}
	return p
}

// carried is who was found under a pid.
type carried struct {
	pid   int
	found Process
}

// usable reports whether the place would be judged as it was. What is common to all places was compared before.
func (p *page) usable(d *decision, s *protocol.Snapshot, at place) bool {
	return !p.loud && !d.now.Before(p.at) && (p.until.IsZero() || d.now.Before(p.until)) && alike(&p.snapshot, s) &&
		d.old.of(at) == p.known && p.since.Equal(d.plan.Memory.Projects[s.Project].Since) && p.paused == d.view.Paused[s.Project] &&
		!(p.usage && d.otherUsage) && (!d.otherProcesses || p.sameProcesses(d)) && p.sameStanding(d)
}

func (p *page) sameProcesses(d *decision) bool {
	for _, a := range p.asked {
		if d.processes[a.Identity] != a.State {
			return false
		}
	}
	for _, c := range p.carriers {
		if d.claimed[c.pid] != c.found {
			return false
		}
	}
	return true
}

// sameStanding reports whether the conditions of this place are remembered to stand since when they did.
func (p *page) sameStanding(d *decision) bool {
	for _, s := range p.steps {
		if s.stands != nil && !d.old.Standing[s.stands.key].Since.Equal(s.stands.since) {
			return false
		}
	}
	return true
}

// alike reports whether two snapshots are one look under the same terms. Snapshots are never changed once made, so that
// the same lists hold the same.
func alike(a, b *protocol.Snapshot) bool {
	return a.At.Equal(b.At) && a.Act == b.Act && a.Busy == b.Busy && a.Yield == b.Yield && a.Again.Equal(b.Again) &&
		same(a.Tasks, b.Tasks) && same(a.Agents, b.Agents) && same(a.Locks, b.Locks) && same(a.Pleas, b.Pleas) &&
		same(a.Findings, b.Findings) && same(a.Faults, b.Faults) && same(a.Events, b.Events)
}

// same reports whether two slices are one and the same list.
func same[E any](a, b []E) bool {
	return len(a) == len(b) && (len(a) == 0 || unsafe.SliceData(a) == unsafe.SliceData(b))
}

// again does to the plan what the place did when it was judged.
func (p *page) again(d *decision) {
	for _, s := range p.steps {
		switch {
		case s.alert != nil:
			d.alert(*s.alert)
		case s.stands != nil:
			d.stands(escalate.Alert{Key: s.stands.key, Subject: s.stands.subject}, s.stands.from)
		default:
			d.plan.Waiting = append(d.plan.Waiting, *s.waits)
		}
	}
	for _, subject := range p.cancelled {
		d.cancelled[subject] = true
	}
}

// enter makes what was found out about a place part of the plan. Who waits for room is entered as a copy: the page is to
// keep him as he was.
func (d *decision) enter(s *protocol.Snapshot, at place, p *page) {
	m, agents, tasks := &d.plan.Memory, shelf{at, protocol.KindAgent}, shelf{at, protocol.KindTask}
	replace(&m.Agents, &d.own.agents, agents, p.found.agents)
	replace(&m.Tasks, &d.own.tasks, tasks, p.found.tasks)
	replace(&m.Locks, &d.own.locks, shelf{at, protocol.KindLock}, p.found.locks)
	replace(&m.Reaps, &d.own.reaps, agents, p.found.reaps)
	replace(&d.plan.Agents, &d.own.agentVerdicts, agents, p.agents)
	replace(&d.plan.Tasks, &d.own.taskVerdicts, tasks, p.tasks)
	replace(&d.plan.Locks, &d.own.lockVerdicts, shelf{at, protocol.KindLock}, p.locks)
	if !p.look.IsZero() {
		d.lookAgain(s.Project, p.look)
	}
	d.wake(p.wake)
	d.plan.Open = d.plan.Open || p.open
	d.waiting, d.leases = d.copies(d.waiting, p.waiting, s), d.copies(d.leases, p.leases, s)
}

func (d *decision) copies(list, from []*taskLook, s *protocol.Snapshot) []*taskLook {
	for _, k := range from {
		c := *k
		c.d, c.s = d, s
		list = append(list, &c)
	}
	return list
}
