package heartbeat

import (
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
)

// LockConfig says how long a lock may last. It carries no defaults.
type LockConfig struct {
	// TTL is the life of a lock that names no end (protocol 001, Lock Protocol: 30 min).
	TTL time.Duration `toml:"ttl"`
	// Watch is how long a lock must have been seen without a change until silence alone may release it.
	Watch time.Duration `toml:"watch"`
}

// Validate reports the first impossible value, by its key.
func (c LockConfig) Validate() error {
	switch {
	case c.TTL <= 0:
		return fmt.Errorf("locks.ttl: %v must be more than zero", c.TTL)
	case c.Watch <= 0:
		return fmt.Errorf("locks.watch: %v must be more than zero", c.Watch)
	}
	return nil
}

// LockMemory is what must be remembered of a lock between looks. Its zero value is a lock never seen.
type LockMemory struct {
	// Sum is the lock as last seen; First is since when it is so.
	Sum   string    `json:"sum,omitempty"`
	First time.Time `json:"first,omitzero"`
	// Watched is for how long it has been looked at without a gap.
	Watched time.Duration `json:"watched,omitempty"`
	Looked  time.Time     `json:"looked,omitzero"`
	// Holder and Acquired are the lock's own: a lock that is prolonged keeps them.
	Holder   string    `json:"holder,omitempty"`
	Acquired time.Time `json:"acquired,omitzero"`
	// Length is how long the lock was to last when it was first seen.
	Length time.Duration `json:"length,omitempty"`
	// Shift moves the end that the lock names to our clock. Off: its times are proved to be wrong.
	Shift time.Duration `json:"shift,omitempty"`
	Off   bool          `json:"off,omitempty"`
	// State is the last verdict.
	State protocol.LockState `json:"state,omitempty"`
}

// LockVerdict is what is held of a lock.
type LockVerdict struct {
	State  protocol.LockState
	Reason protocol.Reason
	Why    string
	// Acquired is when it was taken, by our clock; zero where the lock does not say.
	Acquired time.Time
	// Expires is the end that the lock names, or what its TTL makes of it; zero for a lock of the kernel.
	Expires time.Time
	// Changed: the State is another than at the last look. That a lock is taken is nothing to speak of.
	Changed bool
	// Clock says that the times of the lock are wrong; "" when they are right, or nobody can say.
	Clock string
	// Release: every condition for its release holds.
	Release bool
	// Deadline is when the State may change if nothing happens; zero means never.
	Deadline time.Time
}

// JudgeLock gives the verdict on one lock. holder is the verdict on the agent that holds it, nil when nobody of that
// name is known; process is how l.Process was found, which decides alone where the lock names one. Released is only what
// has outlived its holder: the holder is proved dead, or the end has passed and the holder shows no life; never within
// the grace after a resume.
func JudgeLock(l protocol.Lock, holder *Verdict, process ProcessState, m LockMemory, c Clock, cfg LockConfig) (LockVerdict, LockMemory) {
	was := m.State
	m = m.observe(l, c, cfg)
	v := judgeLock(l, holder, process, m, c, cfg)
	v.Changed = v.State != was && (was != "" || v.State != protocol.LockHeld)
	m.State = v.State
	if !l.Acquired.IsZero() {
		v.Acquired = wall(l.Acquired).Add(m.Shift)
	}
	if m.Off {
		v.Clock = m.clock(l)
	}
	return v, m
}

func judgeLock(l protocol.Lock, holder *Verdict, process ProcessState, m LockMemory, c Clock, cfg LockConfig) LockVerdict {
	if l.Kernel {
		return LockVerdict{State: protocol.LockHeld, Reason: protocol.ReasonSeen, Why: "the kernel holds it for a living process"}
	}
	v := LockVerdict{State: protocol.LockHeld, Reason: protocol.ReasonSeen, Expires: expiry(l, m, cfg)}
	now := m.Looked
	expired := !now.Before(v.Expires)
	switch {
	case l.Process.Proves() && process == ProcessGone:
		v.Reason, v.Why = protocol.ReasonGone, fmt.Sprintf("process %d, which held it for %s, is proved to be gone", l.Process.PID, l.Holder)
		v.stale(m, c, 0)
	case l.Process.Proves() && expired:
		v.State, v.Reason = protocol.LockOverdue, protocol.ReasonExpired
		v.Why = fmt.Sprintf("over its time for %s, and process %d, which holds it for %s, still runs", span(now.Sub(v.Expires)), l.Process.PID, l.Holder)
	case l.Process.Proves():
		v.Why = fmt.Sprintf("process %d holds it for %s", l.Process.PID, l.Holder)
		v.Deadline = v.Expires
	case holder != nil && holder.Proof:
		v.Reason, v.Why = protocol.ReasonGone, l.Holder+" is proved to be gone"
		v.stale(m, c, 0)
	case !expired:
		v.Why = "held by " + l.Holder + " until " + v.Expires.Format("15:04:05 UTC")
		v.Deadline = v.Expires
	case lives(holder):
		v.State, v.Reason = protocol.LockOverdue, protocol.ReasonExpired
		v.Why = fmt.Sprintf("over its time for %s, and its holder %s is %s", span(now.Sub(v.Expires)), l.Holder, holder.State)
	default:
		v.Reason = protocol.ReasonExpired
		v.Why = fmt.Sprintf("over its time for %s, and %s shows no sign of life", span(now.Sub(v.Expires)), l.Holder)
		v.stale(m, c, cfg.Watch)
	}
	return v
}

// stale releases the lock once it has been watched for long enough and the machine has not just woken.
func (v *LockVerdict) stale(m LockMemory, c Clock, watch time.Duration) {
	v.State = protocol.LockStale
	due := m.Looked.Add(watch - m.Watched)
	if resumed := wall(c.ResumeUntil); resumed.After(due) {
		due = resumed
	}
	if due.After(m.Looked) {
		v.State, v.Deadline = protocol.LockOverdue, due
		v.Why += "; released unless that changes"
		return
	}
	v.Release = true
}

// lives reports whether the holder shows life. One that is late still may; one that fell silent before we ever looked
// does not, nor does one of which nothing is expected: it holds on to what it has forgotten.
func lives(holder *Verdict) bool {
	if holder == nil {
		return false
	}
	switch holder.State {
	case protocol.AgentDead, protocol.AgentUnknown:
		return false
	}
	return true
}

// expiry is the end that the lock names, moved to our clock; without an end, that of its TTL, counted from when it was
// taken or first seen.
func expiry(l protocol.Lock, m LockMemory, cfg LockConfig) time.Time {
	switch {
	case !l.Expires.IsZero() && (l.Acquired.IsZero() || l.Expires.After(l.Acquired)):
		return wall(l.Expires).Add(m.Shift)
	case !l.Acquired.IsZero():
		if start := wall(l.Acquired).Add(m.Shift); start.Before(m.First) { // else a clock was set back since
			return start.Add(cfg.TTL)
		}
	}
	return m.First.Add(cfg.TTL)
}

// observe follows the lock. One that was renewed, or that is held by another, is a new one.
func (m LockMemory) observe(l protocol.Lock, c Clock, cfg LockConfig) LockMemory {
	now := wall(c.Now)
	if m.First.IsZero() || m.Sum != l.Ref.Sum {
		n := LockMemory{Sum: l.Ref.Sum, First: now, Looked: now, Holder: l.Holder, Acquired: wall(l.Acquired)}
		// A renewed lock of steward still ends when its command was to end: its times are by our clock.
		if prolonged := l.Fence == 0 && m.Holder == l.Holder && !m.Acquired.IsZero() && m.Acquired.Equal(n.Acquired); prolonged {
			n.Shift, n.Off, n.Length = m.Shift, m.Off, m.Length
			switch end := wall(l.Expires); {
			case end.IsZero():
			case !end.Add(n.Shift).After(now): // a clock was set meanwhile
				n.Shift = now.Add(cfg.TTL).Sub(end)
			case n.Shift > cfg.TTL && end.After(now) && end.Add(n.Shift).After(now.Add(max(cfg.TTL, m.Length)+clockSlack)): // it was, and agrees now
				n.Shift, n.Off = 0, false
			}
		} else {
			n.Shift, n.Off = shift(l, now, c.Watched, cfg)
			if !l.Acquired.IsZero() && l.Expires.After(l.Acquired) {
				n.Length = l.Expires.Sub(l.Acquired)
			}
		}
		return n
	}
	if gap := now.Sub(m.Looked); gap < 0 || gap > 2*c.LookEvery {
		m.Watched = 0 // nobody watched, so nobody knows what its holder did meanwhile
	} else {
		m.Watched += gap
	}
	m.Looked = now
	return m
}

// anyClock is further than an unknown zone and a clock that is a day wrong lie apart together.
const anyClock = 38 * time.Hour

// shift is what brings the times of a lock that is first seen now to our clock. Where they agree with this moment it is
// nothing; else the lock has its whole length from now on. wrong: they are proved to disagree. A lock that lay there
// before anybody watched may be older than it seems or younger: its holder's clock is not known.
func shift(l protocol.Lock, now time.Time, watched bool, cfg LockConfig) (d time.Duration, wrong bool) {
	start, end := wall(l.Acquired), wall(l.Expires)
	switch {
	case l.Fence > 0 || l.Kernel: // steward's own clock, or none
		return 0, false
	case start.IsZero() && end.IsZero():
		return 0, false
	case start.IsZero() && end.After(now) && (!l.Zoneless || !end.After(now.Add(cfg.TTL+clockSlack))):
		return 0, false
	case start.IsZero():
		start = end.Add(-cfg.TTL)
	}
	d = now.Sub(start)
	if end.IsZero() {
		end = start.Add(cfg.TTL)
	}
	switch {
	case d.Abs() <= clockSlack:
		return 0, false
	case !watched && now.Sub(end) > anyClock:
		return 0, false // over by any clock
	}
	return d, watched || d < 0
}

// clock says how far the times of the lock are off.
func (m *LockMemory) clock(l protocol.Lock) string {
	way := "behind"
	if m.Shift < 0 {
		way = "ahead"
	}
	text := "the lock of " + l.Holder + " states times " + span(m.Shift.Abs().Round(time.Minute)) + " " + way + " of steward's clock"
	if l.Zoneless {
		text += ", without a time zone"
	}
	return text + "; it has its full length from when steward saw it"
}
