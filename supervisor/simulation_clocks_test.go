package supervisor_test

import (
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// agentClock is the clock of an agent, and the form of the times that the agent writes. Its zero value agrees with
// steward's clock.
type agentClock struct {
	skew     time.Duration // how far it is ahead of steward's clock
	zone     time.Duration // what local time is ahead of UTC, where the times name no zone
	zoneless bool
	whole    bool // whole seconds only
	shared   bool // its files lie on its own machine, whose clock gives their mtimes
}

// drawClock gives an agent its clock. Half of all agents agree with steward.
func (m *simulation) drawClock() (c agentClock) {
	if m.kind != mixed || m.odds(50) {
		return c
	}
	longest := pick(m, []time.Duration{30 * time.Second, 5 * time.Minute, 3 * time.Hour, 24 * time.Hour})
	c.skew, c.whole, c.shared = m.between(-longest, longest), m.odds(50), m.odds(40)
	if m.odds(40) {
		c.zoneless, c.zone = true, time.Duration(m.chance.IntN(27)-12)*time.Hour
	}
	return c
}

// states is the time that the agent writes, read as if it were UTC.
func (c *agentClock) states(now time.Time) time.Time {
	t := now.Add(c.skew)
	if c.zoneless {
		t = t.Add(c.zone)
	}
	if c.whole {
		t = t.Truncate(time.Second)
	}
	return t
}

// real is the moment of a time that the agent wrote.
func (c *agentClock) real(stated time.Time) time.Time {
	if c.zoneless {
		stated = stated.Add(-c.zone)
	}
	return stated.Add(-c.skew)
}

// latest is the latest moment that a stated time can mean, as the adapters read it.
func (c *agentClock) latest(stated time.Time) time.Time {
	if c.zoneless {
		return stated.Add(jsonfile.ZoneSlack)
	}
	return stated
}

// beat is a heartbeat file as an adapter reads it, but for the moment of the look.
func (c *agentClock) beat(mark string, now time.Time) protocol.Beat {
	b := protocol.Beat{Mark: mark, Touched: now, Stated: c.states(now), Zoneless: c.zoneless}
	if c.shared {
		b.Touched = now.Add(c.skew)
	}
	b.At = c.latest(b.Stated)
	return b
}

// seenAt caps the times of agents by the moment of the look, as the adapters do. A registration in the future is none,
// nor is one that an agent of another clock made about when it beat.
func seenAt(agents []protocol.Agent, now time.Time) {
	for i := range agents {
		a := &agents[i]
		apart := a.Beat.Mark != "" && !a.Beat.Stated.Equal(a.Beat.Touched)
		for _, t := range []*time.Time{&a.Beat.At, &a.Beat.Touched} {
			if t.After(now) {
				*t = now
			}
		}
		if a.Registered.After(now) || apart && a.Registered.Sub(a.Beat.Last()) < time.Minute {
			a.Registered = time.Time{}
		}
	}
}
