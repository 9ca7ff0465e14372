package heartbeat

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// Activity is what an agent's process tree has done so far. Only its changes count.
type Activity struct {
	// Known is false if the activity could not be measured. The agent is then never judged hung.
	Known bool
	// CPU is the processor time that the tree has used.
	CPU time.Duration
	// Tree identifies the set of processes.
	Tree string
	// Written counts the bytes that the tree has written.
	Written uint64
}

// A tree has moved if its processor time grew by at least 1/busyShare of the awake time since the record, so that an
// idle event loop does not count. The record is renewed after paceMost, so that work after a long rest shows at once.
// Below paceLeast (a few ticks of the kernel's clock) the share is meaningless.
const (
	busyShare = 100 // the divisor: 1 %
	paceLeast = 5 * time.Second
	paceMost  = time.Minute
	// blindMost is how long the activity may be unknown before the record is discarded.
	blindMost = time.Minute
)

// still returns how much of the time between two scans counts as time without movement. A gap that scans do not cover
// (a sleep, downtime of steward, a scan that comes far too late) counts as zero, and so does the grace after a resume.
func still(from, to time.Time, c Clock) time.Duration {
	gap := to.Sub(from)
	if gap > 2*c.LookEvery {
		return 0
	}
	if until := wall(c.ResumeUntil); until.After(from) {
		gap = to.Sub(until)
	}
	return max(0, gap)
}

// follow records the activity of the agent's processes since the last scan. moved reports that something else of the
// agent has moved. After a gap that scans do not cover, even an idle loop may count as work, because its standstill was
// not observed.
func (m *Memory) follow(f *Facts, g *scanContext, moved bool) {
	p := &m.Pace
	tasked := f.Task > 0
	taken := tasked && !p.Tasked // an agent that takes a task is moving
	p.Tasked = tasked
	p.Age += g.step
	switch {
	case m.Process != ProcessAlive:
		m.Still, m.Pace = 0, Pace{}
	case !f.Activity.Known:
		if p.Blind += g.step; p.Blind > blindMost {
			m.Still, m.Pace = 0, Pace{Tasked: tasked}
		}
	default:
		p.Blind = 0
		m.Still += g.quiet
		busy := p.moved(&f.Activity)
		moved = moved || busy || !p.Seen
		if busy || !p.Seen || p.Age >= paceMost {
			p.note(&f.Activity)
		}
	}
	if moved || taken {
		m.Still = 0
	}
}

// moved reports whether the tree has done anything since the record.
func (p *Pace) moved(a *Activity) bool {
	if !p.Seen {
		return false
	}
	return a.Tree != p.Tree || a.Written != p.Written || a.CPU-p.CPU >= max(p.Age, paceLeast)/busyShare
}

func (p *Pace) note(a *Activity) {
	p.Seen, p.CPU, p.Tree, p.Written, p.Age = true, a.CPU, a.Tree, a.Written, 0
}

// hung reports whether the agent is hung if nothing happens for another d of awake time: it is silent beyond the limit,
// its process lives, and nothing of it has moved for too long. See docs/decisions.md, "Hung means evidence, not silence".
func (e *evidence) hung(d time.Duration) bool {
	m := e.m
	switch {
	case m.Process != ProcessAlive || !m.Pace.Seen || e.a.Idle || e.limits.Hung <= 0:
		return false
	case !e.seen && m.Pace.Blind+d > blindMost: // the last observation is too old
		return false
	case e.beatsForItself() && m.Silent+d <= e.limits.Dead:
		return false
	case !e.beatsForItself() && e.task == 0: // it may be waiting for its user
		return false
	case m.State != protocol.AgentHung && e.now.Add(d).Before(e.resumeUntil):
		return false
	}
	return d >= e.stillFor()+past
}

// beatsForItself reports whether a beat would be a movement of the agent itself. A beat that steward writes shows only
// that the process lives, and an agent that never kept a heartbeat cannot miss one.
// See docs/decisions.md, "A heartbeat that steward keeps proves nothing about the agent".
func (e *evidence) beatsForItself() bool {
	return !e.a.Kept && !e.a.Beat.Kept && (e.m.Mark != "" || e.announced())
}

// stillMost is how long the agent may show no movement.
func (e *evidence) stillMost() time.Duration {
	if e.task > 0 {
		return e.task
	}
	return e.limits.Hung
}

// stillFor is the awake time left until the agent has shown no movement for too long; negative if it is over. While its
// processes cannot be observed, that moment never comes.
func (e *evidence) stillFor() time.Duration {
	left := e.stillMost() - e.m.Still
	switch {
	case left < 0:
		return left
	case !e.seen:
		return never
	}
	return left + max(0, e.resumeUntil.Sub(e.now))
}

// never is longer than any limit.
const never = 100 * 365 * 24 * time.Hour
