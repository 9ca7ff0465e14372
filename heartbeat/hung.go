package heartbeat

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// Activity is what the tree of processes that speaks for an agent has done so far. Only its changes count.
type Activity struct {
	// Known is false where nobody can say; then an agent is never hung.
	Known bool
	// CPU is the processor time that the tree has spent.
	CPU time.Duration
	// Tree tells one set of processes from another.
	Tree string
	// Written counts the bytes that the tree has written.
	Written uint64
}

// Pace is what was seen of an Activity, to be compared with the next.
type Pace struct {
	Seen    bool          `json:"seen,omitempty"`
	CPU     time.Duration `json:"cpu,omitempty"`
	Tree    string        `json:"tree,omitempty"`
	Written uint64        `json:"written,omitempty"`
	// Age is the awake time since that was noted.
	Age time.Duration `json:"age,omitempty"`
	// Blind is the awake time for which nobody could say what the tree does.
	Blind time.Duration `json:"blind,omitempty"`
	// Tasked: it had a task in flight.
	Tasked bool `json:"tasked,omitempty"`
}

// The processor time of a tree has moved when it grew by at least busyShare of the awake time since it was noted, so
// that an idle event loop does not count. The note is renewed after paceMost, so that work after a long rest shows at
// once; for less than paceLeast, which is a few ticks of the kernel's clock, the share says nothing.
const (
	busyShare = 100 // one part in so many
	paceLeast = 5 * time.Second
	paceMost  = time.Minute
	// blindMost is how long the tree may be out of sight until all that was seen of it is forgotten.
	blindMost = time.Minute
)

// still is how much of the time between two looks counts as time in which nothing moved. A gap that looks do not cover
// (a sleep, our own absence, a look far too late) counts nothing, nor does the grace after a resume.
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

// follow takes over what its processes did since the last look. moved: something else of it has moved. After a gap that
// looks do not cover even an idle loop may pass for work: then nobody was there to see that it stood still.
func (m *Memory) follow(f *Facts, g *glance, moved bool) {
	p := &m.Pace
	tasked := f.Task > 0
	taken := tasked && !p.Tasked // by somebody who moves
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

// moved reports whether the tree has done anything since the note.
func (p *Pace) moved(a *Activity) bool {
	if !p.Seen {
		return false
	}
	return a.Tree != p.Tree || a.Written != p.Written || a.CPU-p.CPU >= max(p.Age, paceLeast)/busyShare
}

func (p *Pace) note(a *Activity) {
	p.Seen, p.CPU, p.Tree, p.Written, p.Age = true, a.CPU, a.Tree, a.Written, 0
}

// hung reports whether the agent hangs if nothing happens for d more of awake time: it is silent beyond the limit, its
// process lives, and nothing of it has moved for too long.
func (e *evidence) hung(d time.Duration) bool {
	m := e.m
	switch {
	case m.Process != ProcessAlive || !m.Pace.Seen || e.a.Idle || e.limits.Hung <= 0:
		return false
	case !e.seen && m.Pace.Blind+d > blindMost: // too long ago to say
		return false
	case e.beatsForItself() && m.Silent+d <= e.limits.Dead:
		return false
	case !e.beatsForItself() && e.task == 0: // it may well wait for its human
		return false
	case m.State != protocol.AgentHung && e.now.Add(d).Before(e.resumeUntil):
		return false
	}
	return d >= e.stillFor()+past
}

// beatsForItself reports whether a beat would be a movement of its own. One that steward writes says only that the
// process lives, and who never kept a heartbeat has none to miss.
func (e *evidence) beatsForItself() bool {
	return !e.a.Kept && !e.a.Beat.Kept && (e.m.Mark != "" || e.announced())
}

// stillMost is how long nothing of it may move.
func (e *evidence) stillMost() time.Duration {
	if e.task > 0 {
		return e.task
	}
	return e.limits.Hung
}

// stillFor is the awake time left until nothing has moved for too long; negative: it is over. While nobody can see its
// processes, it never comes.
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

// never is further away than any limit.
const never = 100 * 365 * 24 * time.Hour

// whyHung says what stands still.
func (e *evidence) whyHung() string {
	text := e.silence()
	if !e.beatsForItself() && e.m.Mark != "" {
		text = "steward keeps its heartbeat"
	}
	text += "; its process " + e.pid() + " lives, but its processor time, its processes and its files have stood still for " + span(e.m.Still)
	if e.task > 0 {
		text += ", longer than the " + span(e.task) + " of its task in flight"
	}
	return text
}
