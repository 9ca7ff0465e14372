package heartbeat

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// scanContext is the context of one scan of one agent.
type scanContext struct {
	now      time.Time
	dead     time.Duration
	first    bool // steward never saw this agent before
	resuming bool // the machine has just woken: a beat from before the sleep still counts
	// sight: the previous scan is so recent that any change since then is younger than the limit, whatever time it
	// states. gap is the time since that scan.
	sight bool
	gap   time.Duration
	// step is the awake part of the time since the previous scan; quiet is the part that counts as standstill.
	step, quiet time.Duration
}

// aged reports whether a time lies beyond the limit. Across a sleep the wall clock cannot tell.
func (g *scanContext) aged(t time.Time) bool {
	return !t.IsZero() && g.now.Sub(t) > g.dead && (g.first || !g.resuming)
}

// observe records the facts of one scan. It returns the silence that a new beat has just ended, and whether there was
// such a beat.
func (m *Memory) observe(f *Facts, c Clock, limits Limits) (time.Duration, bool) {
	now := wall(c.Now)
	g := scanContext{now: now, dead: limits.Dead, first: m.First.IsZero(), resuming: now.Before(c.ResumeUntil)}
	if g.first {
		m.First = now
	} else {
		// The cap covers a sleeping machine, a stepped clock and downtime of steward.
		g.step, g.quiet = min(max(0, now.Sub(m.Looked)), 2*c.LookEvery), still(m.Looked, now, c)
		m.pass(g.step, limits.Dead)
		g.gap = max(0, now.Sub(m.Looked))
		g.sight = g.gap <= max(limits.Dead, 2*c.LookEvery) // also in sight if the limit is shorter than the scan interval
	}
	m.Looked = now
	gap := m.Silent
	changed := f.Agent.Beat.Mark != "" && f.Agent.Beat.Mark != m.Mark
	announced := m.register(&f.Agent)
	beat := m.listen(&f.Agent, &g, changed, announced)
	if beat {
		m.tally(gap, f.Agent.Beat.Kept)
	}
	signed := m.notice(f.Agent.Signs, g.first)
	m.identify(f, beat)
	m.follow(f, &g, signed || announced || changed && !f.Agent.Beat.Kept)
	m.name(f.Agent.Tasks, changed)
	m.Names = m.Names || f.Agent.Claims
	m.Seen = m.Seen || beat || m.Signed || m.Process == ProcessAlive || m.Process == ProcessStopped
	return gap, beat
}

// clockSlack is how far a stated time may differ from the moment of its change before it counts as wrong.
const clockSlack = 2 * time.Minute

// apart returns how far a stated time is ahead of the moment in which it appeared; 0 if the two agree.
func apart(stated, now time.Time, gap time.Duration) time.Duration {
	if stated = wall(stated); stated.IsZero() {
		return 0
	}
	if d := stated.Sub(now); d > clockSlack || d < -clockSlack-gap {
		return d
	}
	return 0
}

// register reports whether the agent announced itself since the last scan. The registration is compared only when it
// changes: compared at every scan, a clock that is set back would turn good beats stale.
func (m *Memory) register(a *protocol.Agent) bool {
	r := wall(a.Registered)
	if r.Equal(m.Registered) {
		return false
	}
	m.Registered = r
	if r.IsZero() || m.Off != 0 && r.Sub(m.Last) < registeredLate {
		return false
	}
	m.Spent, m.Beats = 0, 0 // the agent may reuse the number, and its silence is counted again
	return true
}

// registeredLate is how much newer than a beat a registration must be to count as a new start, because agents refresh
// both within moments of each other. Where both times come from one clock, the adapter compares them.
const registeredLate = time.Minute

// listen processes the heartbeat file and reports whether it changed in sight to a beat that counts. A vanished file
// changes nothing, because writers replace it. A change in sight is a beat, whatever time it states: the agent's clock
// may be wrong, its time zone unknown, its folder on another machine.
func (m *Memory) listen(a *protocol.Agent, g *scanContext, changed, announced bool) bool {
	last := wall(a.Beat.Last())
	booted := m.booted(&a.Beat, g, changed)
	seen := changed && g.sight && !booted
	switch {
	case seen:
		if m.Off = apart(a.Beat.Stated, g.now, g.gap); m.Off != 0 || apart(last, g.now, g.gap) != 0 {
			last = g.now
		}
	case m.Off != 0 && changed:
		last = last.Add(-m.Off) // its clock was off by this much before
	case m.Off != 0:
		last = m.Last
	}
	// Times may have whole seconds only, and a registration in the future cannot be compared.
	older := booted ||
		!last.IsZero() && !m.Registered.After(g.now) && last.Before(m.Registered.Truncate(time.Second)) && (announced || !seen)
	switch {
	case changed:
		m.Mark, m.Touched, m.Stale = a.Beat.Mark, wall(a.Beat.Touched), older
		m.vouch(last, g.now)
		if !older {
			m.Silent, m.Extended, m.Old = 0, false, !seen && g.aged(last)
			return !g.first && !m.Old
		}
		if booted && !announced {
			m.Silent, m.Extended, m.Old = 0, false, g.aged(last)
		}
	case a.Beat.Mark != "":
		m.touch(wall(a.Beat.Touched), g.now)
	}
	if announced && (m.Mark == "" || older) {
		m.Stale = m.Mark != ""
		m.Silent, m.Extended, m.Old = 0, false, g.aged(m.Registered)
	}
	return false
}

// maxBoots is how many consecutive boots are accepted as boots. A user may boot an agent twice; a program whose every
// beat looks like a boot is beating.
const maxBoots = 2

// booted reports whether a boot script wrote the beat. Such a beat says nothing about the agent's life, so the agent
// cannot become overdue because of it.
func (m *Memory) booted(b *protocol.Beat, g *scanContext, changed bool) bool {
	switch {
	case b.Booted:
		return true
	case !changed:
		return b.Fresh && m.Stale
	case !b.Fresh:
		m.Boots = 0
		return false
	case m.Silent > g.dead:
		m.Boots = 0
	}
	m.Boots++
	return m.Boots <= maxBoots
}

// touch lets a new mtime alone prolong a beat once. It neither revives a dead agent nor makes an old beat count.
func (m *Memory) touch(mtime, now time.Time) {
	if !mtime.After(m.Touched) {
		return
	}
	m.Touched = mtime
	if m.Extended || m.Old || m.Stale || m.State == protocol.AgentDead {
		return
	}
	m.Extended, m.Silent = true, 0
	if mtime.After(m.Last) {
		m.vouch(mtime, now)
	}
}

// vouch records the newest time that the beat vouches for; a time in the future is replaced by now.
func (m *Memory) vouch(t, now time.Time) {
	m.Last = t
	if t.After(now) {
		m.Last = now
	}
}

// notice tracks the other signs of life. Signs present at the first scan may be old; signs that vanish or come back
// unchanged do not count. It reports whether they changed in sight.
func (m *Memory) notice(signs string, first bool) bool {
	if signs == "" || signs == m.Signs {
		return false
	}
	m.Signs = signs
	if !first {
		m.Signed, m.SignSilent = true, 0
	}
	return !first
}

// unpause restarts the count when a pause ends without a beat, so that a pause never makes an agent dead.
func (m *Memory) unpause(dead time.Duration) {
	if m.Silent > dead {
		m.Old = true
	}
	m.Silent, m.Beats = 0, 0
}
