package heartbeat

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// Config says how long silence may last. All durations are awake time. It carries no defaults.
type Config struct {
	// Late and Dead hold for every agent that nothing more specific speaks of.
	Late time.Duration `toml:"late"`
	Dead time.Duration `toml:"dead"`
	// StartGrace is how long a registered agent may take to its first beat.
	StartGrace time.Duration `toml:"start_grace"`
	// ResumeGrace is how long silence kills nobody after the machine woke or its clock jumped.
	ResumeGrace time.Duration `toml:"resume_grace"`
	// Hung is how long nothing may move in an agent that is silent while its process lives; with a task in flight the
	// task's own timeout counts instead. 0: nobody is ever hung (Validate refuses it).
	Hung time.Duration `toml:"hung"`
	// HungAction is what follows beside the verdict: HungAlert or HungEnd.
	HungAction string `toml:"hung_action"`
	// Protocols and Agents override by name; an agent's own limits come before its protocol's.
	Protocols map[string]Limits `toml:"protocols"`
	Agents    map[string]Limits `toml:"agents"`
}

// What may follow when an agent hangs: the human is told, or its processes are ended as well.
const (
	HungAlert = "alert"
	HungEnd   = "end"
)

// Limits are one protocol's or one agent's own; a zero duration or an empty word is inherited.
type Limits struct {
	Late time.Duration `toml:"late"`
	Dead time.Duration `toml:"dead"`
	// Hung and HungAction are as in Config.
	Hung       time.Duration `toml:"hung"`
	HungAction string        `toml:"hung_action"`
	// Sources are further files, relative to the project, whose change is a sign of life. Adapters read
	// them into Agent.Signs; here they are only carried.
	Sources []string `toml:"sources"`
}

// beatEvery is how often an agent beats at the least (protocol 000, Heartbeat Updates).
const beatEvery = 30 * time.Second

// beatLeast bounds the pace where the limits are absurd.
const beatLeast = 100 * time.Millisecond

// Pace is how often a heartbeat is written by whoever keeps one: well before its agent would be late.
func (l Limits) Pace() time.Duration { return min(beatEvery, max(l.Late*2/3, beatLeast)) }

// For gives the limits that hold for one agent: its own, else its protocol's, else the general ones.
// Where only Dead is given, Late follows as half of it, and Late is always below Dead.
func (c Config) For(protocolName, agent string) Limits {
	l := Limits{Late: c.Late, Dead: c.Dead, Hung: c.Hung, HungAction: c.HungAction}
	l = c.Agents[agent].over(c.Protocols[protocolName].over(l))
	if l.Late >= l.Dead {
		l.Late = l.Dead / 2
	}
	return l
}

// Of gives the limits for one agent as it is at this look: what its protocol's own rules allow it in what it does
// now stands before the protocol's limits, and the agent's own configured ones before that.
func (c Config) Of(protocolName string, a *protocol.Agent) Limits {
	if a.Limit <= 0 {
		return c.For(protocolName, a.Name)
	}
	l := c.For(protocolName, "")
	l.Late, l.Dead = a.Limit/2, a.Limit
	l = c.Agents[a.Name].over(l)
	if l.Late >= l.Dead {
		l.Late = l.Dead / 2
	}
	return l
}

// over lays what l says itself over what it inherits.
func (l Limits) over(base Limits) Limits {
	switch {
	case l.Late > 0:
		base.Late = l.Late
	case l.Dead > 0:
		base.Late = l.Dead / 2
	}
	if l.Dead > 0 {
		base.Dead = l.Dead
	}
	if l.Hung > 0 {
		base.Hung = l.Hung
	}
	if l.HungAction != "" {
		base.HungAction = l.HungAction
	}
	if len(l.Sources) > 0 {
		base.Sources = l.Sources
	}
	return base
}

// doubted are the limits for an agent in that State while something speaks against our own eyes: longer by the score,
// at most twice as long. What has been said already is not taken back for that.
func (l Limits) doubted(score int, state protocol.AgentState) Limits {
	times := time.Duration(1 + min(max(score, 0), 1))
	switch state {
	case protocol.AgentDead, protocol.AgentHung:
	case protocol.AgentLate:
		l.Dead *= times
	default:
		l.Late, l.Dead = l.Late*times, l.Dead*times
	}
	return l
}

// Validate reports the first impossible value, by its key.
func (c Config) Validate() error {
	for _, v := range []struct {
		key   string
		value time.Duration
	}{{"late", c.Late}, {"dead", c.Dead}, {"start_grace", c.StartGrace}, {"resume_grace", c.ResumeGrace}, {"hung", c.Hung}} {
		if v.value <= 0 {
			return fmt.Errorf("heartbeat.%s: %v must be more than zero", v.key, v.value)
		}
	}
	if c.Late >= c.Dead {
		return fmt.Errorf("heartbeat.late: %v must be below heartbeat.dead, %v", c.Late, c.Dead)
	}
	if c.HungAction != HungAlert && c.HungAction != HungEnd {
		return fmt.Errorf("heartbeat.hung_action: %q is not %s or %s", c.HungAction, HungAlert, HungEnd)
	}
	longest := c.Dead
	for _, name := range slices.Sorted(maps.Keys(c.Protocols)) {
		l := c.Protocols[name]
		if err := l.validate(fmt.Sprintf("heartbeat.protocols.%q", name), c.Dead); err != nil {
			return err
		}
		longest = max(longest, l.Dead)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		// An agent's table does not say which protocol it lives in: any limit may be the one it inherits.
		if err := c.Agents[name].validate(fmt.Sprintf("heartbeat.agents.%q", name), longest); err != nil {
			return err
		}
	}
	return nil
}

func (l Limits) validate(key string, inherited time.Duration) error {
	if l.Late < 0 {
		return fmt.Errorf("%s.late: %v must be more than zero", key, l.Late)
	}
	if l.Dead < 0 {
		return fmt.Errorf("%s.dead: %v must be more than zero", key, l.Dead)
	}
	if l.Hung < 0 {
		return fmt.Errorf("%s.hung: %v must be more than zero", key, l.Hung)
	}
	if a := l.HungAction; a != "" && a != HungAlert && a != HungEnd {
		return fmt.Errorf("%s.hung_action: %q is not %s or %s", key, a, HungAlert, HungEnd)
	}
	dead := l.Dead
	if dead == 0 {
		dead = inherited
	}
	if l.Late >= dead {
		return fmt.Errorf("%s.late: %v must be below dead, %v", key, l.Late, dead)
	}
	for _, s := range l.Sources {
		if !filepath.IsLocal(s) {
			return fmt.Errorf("%s.sources: %q must be a path inside the project", key, s)
		}
	}
	return nil
}
