package heartbeat

import (
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
)

// LockConfig holds the limits on the life of a lock. The package has no defaults.
type LockConfig struct {
	// TTL is the life of a lock that states no end (protocol 001, Lock Protocol: 30 min).
	TTL time.Duration `toml:"ttl"`
	// Watch is how long a lock must be seen unchanged before silence alone may release it.
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

// LockMemory is what steward remembers of a lock between scans. The zero value is a lock never seen.
type LockMemory struct {
	// Sum is the checksum of the lock as last seen; First is when this content was first seen.
	Sum   string    `json:"sum,omitempty"`
	First time.Time `json:"first,omitzero"`
	// Watched is how long the lock has been scanned without a gap.
	Watched time.Duration `json:"watched,omitempty"`
	Looked  time.Time     `json:"looked,omitzero"`
	// Holder and Acquired are those stated in the lock; a lock that is prolonged keeps them.
	Holder   string    `json:"holder,omitempty"`
	Acquired time.Time `json:"acquired,omitzero"`
	// Length is the intended duration of the lock when it was first seen.
	Length time.Duration `json:"length,omitempty"`
	// Shift converts the end stated in the lock to steward's clock. Off: its times are proved wrong.
	Shift time.Duration `json:"shift,omitempty"`
	Off   bool          `json:"off,omitempty"`
	// State is the last verdict.
	State protocol.LockState `json:"state,omitempty"`
}

// LockVerdict is the judgement on a lock.
type LockVerdict struct {
	State protocol.LockState
	protocol.Cause
	// Acquired is when the lock was taken, by steward's clock; zero if the lock does not state it.
	Acquired time.Time
	// Expires is the end stated in the lock, or the end derived from the TTL; zero for a kernel lock.
	Expires time.Time
	// Changed: the State differs from the one at the last scan. A lock that is newly taken does not count as a change.
	Changed bool
	// Clock describes an error in the times of the lock; zero if they are right or it cannot be known.
	Clock protocol.Cause
	// Release: every condition for its release holds.
	Release bool
	// Deadline is when the State may change if nothing happens; zero means never.
	Deadline time.Time
}

// JudgeLock returns the verdict on one lock. holder is the verdict on the agent that holds it, nil if no agent of that
// name is known. process is the state of l.Process; if the lock names a process, that state alone decides. A lock is
// released only if it has outlived its holder: either the holder is proved dead, or the lock has expired and the holder
// shows no life. It is never released within the grace after a resume. See docs/decisions.md, "One policy releases locks for all protocols".
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
		v.Clock = clockCause(protocol.PhraseLockClock, -m.Shift, l.Zoneless, l.Holder)
	}
	return v, m
}

func judgeLock(l protocol.Lock, holder *Verdict, process ProcessState, m LockMemory, c Clock, cfg LockConfig) LockVerdict {
	v := LockVerdict{State: protocol.LockHeld, Cause: protocol.Cause{Reason: protocol.ReasonSeen, Facts: protocol.Facts{Agent: l.Holder, PID: l.Process.PID}}}
	if l.Kernel {
		v.Phrase = protocol.PhraseLockKernel
		return v
	}
	v.Expires = expiry(l, m, cfg)
	v.Facts.Until = v.Expires
	over := m.Looked.Sub(v.Expires)
	if over >= 0 {
		v.Facts.For = over
	}
	switch {
	case l.Process.Proves() && process == ProcessGone:
		v.Reason, v.Phrase = protocol.ReasonGone, protocol.PhraseLockGone
		v.stale(m, c, 0)
	case l.Process.Proves() && over >= 0:
		v.State, v.Reason, v.Phrase = protocol.LockOverdue, protocol.ReasonExpired, protocol.PhraseLockOverdue
	case l.Process.Proves():
		v.Phrase, v.Deadline = protocol.PhraseLockProcess, v.Expires
	case holder != nil && holder.Proof:
		v.Reason, v.Phrase = protocol.ReasonGone, protocol.PhraseLockAgentGone
		v.stale(m, c, 0)
	case over < 0:
		v.Phrase, v.Deadline = protocol.PhraseLockHeld, v.Expires
	case lives(holder):
		v.State, v.Reason, v.Phrase = protocol.LockOverdue, protocol.ReasonExpired, protocol.PhraseLockLives
		v.Facts.Name = string(holder.State)
	default:
		v.Reason, v.Phrase = protocol.ReasonExpired, protocol.PhraseLockSilent
		v.stale(m, c, cfg.Watch)
	}
	return v
}

// stale releases the lock once it has been watched for long enough and the grace after a resume is over.
func (v *LockVerdict) stale(m LockMemory, c Clock, watch time.Duration) {
	v.State = protocol.LockStale
	due := m.Looked.Add(watch - m.Watched)
	if resumed := wall(c.ResumeUntil); resumed.After(due) {
		due = resumed
	}
	if due.After(m.Looked) {
		v.State, v.Deadline = protocol.LockOverdue, due
		v.Facts.Base, v.Phrase = v.Phrase, protocol.PhraseLockDue
		return
	}
	v.Release = true
}

// lives reports whether the holder shows life. A late holder may still live. A holder that fell silent before steward
// watched it does not show life, nor does one from which no beat is expected: such an agent has left a forgotten lock.
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

// expiry returns the end stated in the lock, converted to steward's clock. A lock without an end expires TTL after it
// was taken or first seen.
func expiry(l protocol.Lock, m LockMemory, cfg LockConfig) time.Time {
	switch {
	case !l.Expires.IsZero() && (l.Acquired.IsZero() || l.Expires.After(l.Acquired)):
		return wall(l.Expires).Add(m.Shift)
	case !l.Acquired.IsZero():
		if start := wall(l.Acquired).Add(m.Shift); start.Before(m.First) { // otherwise a clock was set back meanwhile
			return start.Add(cfg.TTL)
		}
	}
	return m.First.Add(cfg.TTL)
}

// observe updates the memory of the lock. A lock that was renewed or has a new holder is treated as a new lock.
func (m LockMemory) observe(l protocol.Lock, c Clock, cfg LockConfig) LockMemory {
	now := wall(c.Now)
	if m.First.IsZero() || m.Sum != l.Ref.Sum {
		n := LockMemory{Sum: l.Ref.Sum, First: now, Looked: now, Holder: l.Holder, Acquired: wall(l.Acquired)}
		// The renewed lock keeps its clock correction, unless a clock was set meanwhile. A lock of steward has a
		// fencing token and needs no correction: its times are by steward's clock.
		if prolonged := l.Fence == 0 && m.Holder == l.Holder && !m.Acquired.IsZero() && m.Acquired.Equal(n.Acquired); prolonged {
			n.Shift, n.Off, n.Length = m.Shift, m.Off, m.Length
			switch end := wall(l.Expires); {
			case end.IsZero():
			case !end.Add(n.Shift).After(now): // a clock was set meanwhile
				n.Shift = now.Add(cfg.TTL).Sub(end)
			case n.Shift > cfg.TTL && end.After(now) && end.Add(n.Shift).After(now.Add(max(cfg.TTL, m.Length)+clockSlack)):
				// A clock was set, and the times agree now.
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
		m.Watched = 0 // the holder was not observed meanwhile
	} else {
		m.Watched += gap
	}
	m.Looked = now
	return m
}

// anyClock is more than the largest offset that an unknown time zone and a clock that is one day wrong can produce
// together.
const anyClock = 38 * time.Hour

// shift returns the correction from the times of a lock first seen now to steward's clock. It is zero if the lock's
// times agree with the present; otherwise the lock gets its full length from now on. wrong: the times are proved to
// disagree. A lock that existed before steward watched may be older or younger than it states, because its holder's
// clock is unknown.
func shift(l protocol.Lock, now time.Time, watched bool, cfg LockConfig) (d time.Duration, wrong bool) {
	start, end := wall(l.Acquired), wall(l.Expires)
	switch {
	case l.Fence > 0 || l.Kernel: // times by steward's own clock, or no times
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
		return 0, false // expired by any clock
	}
	return d, watched || d < 0
}
