package heartbeat

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// Config holds the limits on silence. All durations are awake time. The package has no defaults.
type Config struct {
	// Late and Dead apply to every agent without more specific limits.
	Late time.Duration `toml:"late"`
	Dead time.Duration `toml:"dead"`
	// StartGrace is how long a registered agent may take until its first beat.
	StartGrace time.Duration `toml:"start_grace"`
	// ResumeGrace is how long after a wake-up or a clock jump silence declares no agent dead.
	ResumeGrace time.Duration `toml:"resume_grace"`
	// Hung is how long a silent agent whose process lives may show no movement. While it has a task in flight, the
	// task's own timeout applies instead. 0 disables the check (Validate refuses it).
	Hung time.Duration `toml:"hung"`
	// HungAction is the action taken in addition to the verdict: HungAlert or HungEnd.
	HungAction string `toml:"hung_action"`
	// Protocols and Agents override by name; an agent's own limits come before its protocol's.
	Protocols map[string]Limits `toml:"protocols"`
	Agents    map[string]Limits `toml:"agents"`
}

// The actions on a hung agent: alert the operator, or also end the agent's processes.
const (
	HungAlert = "alert"
	HungEnd   = "end"
)

// Limits are the limits of one protocol or one agent. A zero duration or an empty string is inherited.
type Limits struct {
	Late time.Duration `toml:"late"`
	Dead time.Duration `toml:"dead"`
	// Hung and HungAction are as in Config.
	Hung       time.Duration `toml:"hung"`
	HungAction string        `toml:"hung_action"`
	// Sources are additional files, relative to the project, whose change is a sign of life. Adapters read them into
	// Agent.Signs; this package only carries the list.
	Sources []string `toml:"sources"`
}

// beatEvery is the longest interval between two beats of an agent (protocol 000, Heartbeat Updates).
const beatEvery = 30 * time.Second

// beatLeast is the lower bound of Pace for absurdly small limits.
const beatLeast = 100 * time.Millisecond

// Pace is the interval at which a heartbeat writer must beat, well before its agent would be late.
func (l Limits) Pace() time.Duration { return min(beatEvery, max(l.Late*2/3, beatLeast)) }

// For returns the limits for one agent that has no limit of its own at this scan. See Of.
func (c Config) For(protocolName, agent string) Limits {
	return c.Of(protocolName, &protocol.Agent{Name: agent})
}

// Of returns the limits for one agent at this scan: its own configured ones, else those that the protocol's rules set for
// its current activity (Agent.Limit), else its protocol's, else the general ones. If only Dead is given, Late is half of
// Dead. Late is always below Dead.
func (c Config) Of(protocolName string, a *protocol.Agent) Limits {
	l := c.Protocols[protocolName].over(Limits{Late: c.Late, Dead: c.Dead, Hung: c.Hung, HungAction: c.HungAction})
	if a.Limit > 0 {
		l.Late, l.Dead = a.Limit/2, a.Limit
	}
	l = c.Agents[a.Name].over(l)
	if l.Late >= l.Dead {
		l.Late = l.Dead / 2
	}
	return l
}

// over returns base with every value that l sets replaced.
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

// doubted returns the limits for an agent in the given state while there is doubt about steward's own observation:
// doubled if score is above zero. A verdict already given (late, dead, hung) is not taken back because of doubt.
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

type duration struct {
	key   string
	value time.Duration
}

// Validate reports every impossible value by its key, one per line.
func (c Config) Validate() error {
	var errs []error
	for _, v := range []duration{{"late", c.Late}, {"dead", c.Dead}, {"start_grace", c.StartGrace}, {"resume_grace", c.ResumeGrace}, {"hung", c.Hung}} {
		if v.value <= 0 {
			errs = append(errs, fmt.Errorf("heartbeat.%s: %v must be more than zero", v.key, v.value))
		}
	}
	if c.Late >= c.Dead {
		errs = append(errs, fmt.Errorf("heartbeat.late: %v must be below heartbeat.dead, %v", c.Late, c.Dead))
	}
	if c.HungAction != HungAlert && c.HungAction != HungEnd {
		errs = append(errs, fmt.Errorf("heartbeat.hung_action: %q is not %s or %s", c.HungAction, HungAlert, HungEnd))
	}
	longest := c.Dead
	for _, name := range slices.Sorted(maps.Keys(c.Protocols)) {
		l := c.Protocols[name]
		errs = append(errs, l.validate(fmt.Sprintf("heartbeat.protocols.%q", name), c.Dead))
		longest = max(longest, l.Dead)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		// An agent's table does not name its protocol, so the agent may inherit the limits of any protocol.
		errs = append(errs, c.Agents[name].validate(fmt.Sprintf("heartbeat.agents.%q", name), longest))
	}
	return errors.Join(errs...)
}

func (l Limits) validate(key string, inherited time.Duration) error {
	var errs []error
	for _, v := range []duration{{"late", l.Late}, {"dead", l.Dead}, {"hung", l.Hung}} {
		if v.value < 0 {
			errs = append(errs, fmt.Errorf("%s.%s: %v must be more than zero", key, v.key, v.value))
		}
	}
	if a := l.HungAction; a != "" && a != HungAlert && a != HungEnd {
		errs = append(errs, fmt.Errorf("%s.hung_action: %q is not %s or %s", key, a, HungAlert, HungEnd))
	}
	if dead := cmp.Or(l.Dead, inherited); l.Late > 0 && l.Late >= dead {
		errs = append(errs, fmt.Errorf("%s.late: %v must be below dead, %v", key, l.Late, dead))
	}
	for _, s := range l.Sources {
		if !filepath.IsLocal(s) {
			errs = append(errs, fmt.Errorf("%s.sources: %q must be a path inside the project", key, s))
		}
	}
	return errors.Join(errs...)
}
