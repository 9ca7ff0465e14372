package heartbeat

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// glance is one look at one agent.
type glance struct {
	now      time.Time
	dead     time.Duration
	first    bool // we never saw this agent before
	resuming bool // the machine has just woken: a beat from before its sleep is still good
	// sight: the look before is so recent that whatever changed since then is younger than the limit, whatever time it
	// states; gap is the time since that look.
	sight bool
	gap   time.Duration
	// step is what counts as awake of the time since the look before, quiet what counts as standing still.
	step, quiet time.Duration
}

// aged reports whether a time lies beyond the limit. Across a sleep the wall clock cannot tell.
func (g *glance) aged(t time.Time) bool {
	return !t.IsZero() && g.now.Sub(t) > g.dead && (g.first || !g.resuming)
}

// observe takes over what one look showed. It gives the silence that a beat has just ended, and whether
// there was such a beat.
func (m *Memory) observe(f *Facts, c Clock, limits Limits) (time.Duration, bool) {
	now := wall(c.Now)
	g := glance{now: now, dead: limits.Dead, first: m.First.IsZero(), resuming: now.Before(c.ResumeUntil)}
	if g.first {
		m.First = now
	} else {
		// A sleeping machine, a stepped clock and our own absence all collapse to this much.
		g.step, g.quiet = min(max(0, now.Sub(m.Looked)), 2*c.LookEvery), still(m.Looked, now, c)
		m.pass(g.step, limits.Dead)
		g.gap = max(0, now.Sub(m.Looked))
		g.sight = g.gap <= max(limits.Dead, 2*c.LookEvery) // a limit below the looks' distance blinds nobody
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

// clockSlack is how far a stamp may lie from the moment of its change until it is wrong.
const clockSlack = 2 * time.Minute

// apart is how far a stated time lies ahead of the moment in which it appeared; 0 where the two agree.
func apart(stated, now time.Time, gap time.Duration) time.Duration {
	if stated = wall(stated); stated.IsZero() {
		return 0
	}
	if d := stated.Sub(now); d > clockSlack || d < -clockSlack-gap {
		return d
	}
	return 0
}

// register reports whether the agent announced itself since the last look. Only the moment counts at
// which we see that: compared at every look, a clock that is set back would turn good beats stale.
func (m *Memory) register(a *protocol.Agent) bool {
	r := wall(a.Registered)
	if r.Equal(m.Registered) {
		return false
	}
	m.Registered = r
	if r.IsZero() || m.Off != 0 && r.Sub(m.Last) < registeredLate {
		return false
	}
	m.Spent, m.Beats = 0, 0 // the same number may rightly be claimed anew; and its silence is counted anew
	return true
}

// registeredLate is how much newer than a beat a registration must be until it stands for a new start: the two are
// refreshed within moments of each other. Where their stamps come from one clock, the adapter compares them.
const registeredLate = time.Minute

// listen reads the heartbeat file and reports whether it changed in our sight to a beat that counts.
// A file that vanished changes nothing: writers replace it. What changes in our sight is a beat, whatever time it
// states: the agent's clock may be wrong, its zone unknown, its folder another machine's.
func (m *Memory) listen(a *protocol.Agent, g *glance, changed, announced bool) bool {
	last := wall(a.Beat.Last())
	booted := m.booted(&a.Beat, g, changed)
	seen := changed && g.sight && !booted
	switch {
	case seen:
		if m.Off = apart(a.Beat.Stated, g.now, g.gap); m.Off != 0 || apart(last, g.now, g.gap) != 0 {
			last = g.now
		}
	case m.Off != 0 && changed:
		last = last.Add(-m.Off) // that far its clock was off before
	case m.Off != 0:
		last = m.Last
	}
	// Stamps may have whole seconds only, and one from the future is no measure.
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

// maxBoots is how many boots in a row are believed. Somebody may boot an agent twice; a program whose every beat says
// what a boot script writes beats.
const maxBoots = 2

// booted reports whether the beat is a boot's, which says nothing about the agent's life: it runs no clock.
func (m *Memory) booted(b *protocol.Beat, g *glance, changed bool) bool {
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

// touch lets a new mtime alone prolong a beat once. It wakes nobody who is dead, and proves no old beat.
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

// vouch notes the newest time that the beat stands for; a stamp from the future stands for now.
func (m *Memory) vouch(t, now time.Time) {
	m.Last = t
	if t.After(now) {
		m.Last = now
	}
}

// notice follows the other signs of life. What lies there at first sight may be old; what vanishes, or
// comes back as it was, is no sign. It reports whether they changed in our sight.
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

// unpause starts the count anew when a pause ends without a beat: nobody is dead for having been held.
func (m *Memory) unpause(dead time.Duration) {
	if m.Silent > dead {
		m.Old = true
	}
	m.Silent, m.Beats = 0, 0
}
