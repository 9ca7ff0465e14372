package heartbeat

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestFor(t *testing.T) {
	c := document()
	c.Protocols["mailbox"] = Limits{Late: time.Minute, Sources: []string{"log"}}
	c.Protocols["ralph"] = Limits{Late: 4 * time.Minute, Dead: 5 * time.Minute}
	c.Agents["planning"] = Limits{Dead: 5 * time.Minute, Sources: []string{"plan.md"}}
	c.Agents["hasty"] = Limits{Late: 10 * time.Second}
	c.Agents["slow"] = Limits{Late: 4 * time.Minute}
	c.Agents["stuck"] = Limits{Hung: time.Hour, HungAction: HungEnd}
	c.Protocols["envelope"] = Limits{HungAction: HungEnd}
	c.Agents["brief"] = Limits{Hung: time.Minute}
	for _, tc := range []struct {
		name, protocol, agent string
		want                  Limits
	}{
		{"the general limits", "agentstatus", "codex", Limits{Late: 45 * time.Second, Dead: 90 * time.Second}},
		{"late follows dead as half of it", "handoffs", "codex", Limits{Late: 15 * time.Minute, Dead: 30 * time.Minute}},
		{"a protocol's late alone", "mailbox", "codex", Limits{Late: time.Minute, Dead: 90 * time.Second, Sources: []string{"log"}}},
		{"both of a protocol", "ralph", "codex", Limits{Late: 4 * time.Minute, Dead: 5 * time.Minute}},
		{"the agent's come first", "ralph", "planning", Limits{Late: 150 * time.Second, Dead: 5 * time.Minute, Sources: []string{"plan.md"}}},
		{"an agent's late over its protocol's dead", "handoffs", "hasty", Limits{Late: 10 * time.Second, Dead: 30 * time.Minute}},
		{"a time and an action of its own when it hangs", "agentstatus", "stuck", Limits{Late: 45 * time.Second, Dead: 90 * time.Second, Hung: time.Hour, HungAction: HungEnd}},
		{"a protocol's action, an agent's time", "envelope", "brief", Limits{Late: 45 * time.Second, Dead: 90 * time.Second, Hung: time.Minute, HungAction: HungEnd}},
		{"late never reaches an inherited dead", "agentstatus", "slow", Limits{Late: 45 * time.Second, Dead: 90 * time.Second}},
	} {
		if tc.want.Hung == 0 {
			tc.want.Hung, tc.want.HungAction = 10*time.Minute, HungAlert
		}
		if got := c.For(tc.protocol, tc.agent); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := document().Validate(); err != nil {
		t.Errorf("the document's own limits: %v", err)
	}
	for key, breakIt := range map[string]func(*Config){
		"heartbeat.late: 0s must be more than zero":                  func(c *Config) { c.Late = 0 },
		"heartbeat.dead: -1s must be":                                func(c *Config) { c.Dead = -time.Second },
		"heartbeat.start_grace: ":                                    func(c *Config) { c.StartGrace = 0 },
		"heartbeat.resume_grace: ":                                   func(c *Config) { c.ResumeGrace = 0 },
		"heartbeat.late: 1m30s must be below heartbeat.dead, 1m30s":  func(c *Config) { c.Late = c.Dead },
		`heartbeat.protocols."ralph".late: -1s`:                      func(c *Config) { c.Protocols["ralph"] = Limits{Late: -time.Second} },
		`heartbeat.protocols."ralph".late: 2m0s must be below dead,`: func(c *Config) { c.Protocols["ralph"] = Limits{Late: 2 * time.Minute} },
		`heartbeat.agents."codex".dead: -1s`:                         func(c *Config) { c.Agents["codex"] = Limits{Dead: -time.Second} },
		`heartbeat.agents."codex".late: 40m0s must be below dead, 3`: func(c *Config) { c.Agents["codex"] = Limits{Late: 40 * time.Minute} },
		`heartbeat.agents."codex".late: 1m0s must be below dead, 1m`: func(c *Config) { c.Agents["codex"] = Limits{Late: time.Minute, Dead: time.Minute} },
		"heartbeat.hung: 0s must be more than zero":                  func(c *Config) { c.Hung = 0 },
		`heartbeat.hung_action: "kill" is not alert or end`:          func(c *Config) { c.HungAction = "kill" },
		`heartbeat.hung_action: "" is not alert or end`:              func(c *Config) { c.HungAction = "" },
		`heartbeat.agents."codex".hung: -1s must be`:                 func(c *Config) { c.Agents["codex"] = Limits{Hung: -time.Second} },
		`heartbeat.protocols."ralph".hung_action: "stop" is not`:     func(c *Config) { c.Protocols["ralph"] = Limits{HungAction: "stop"} },
		`heartbeat.agents."codex".sources: "../x"`:                   func(c *Config) { c.Agents["codex"] = Limits{Sources: []string{"../x"}} },
		`heartbeat.agents."codex".sources: ""`:                       func(c *Config) { c.Agents["codex"] = Limits{Sources: []string{""}} },
	} {
		c := document()
		breakIt(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("got %v, want an error with %s", err, key)
		}
	}
}

func TestResumed(t *testing.T) {
	running := time.Now() // carries a monotonic reading; the time of a file does not
	wall := running.Round(0)
	for _, tc := range []struct {
		name      string
		prev, now time.Time
		want      bool
	}{
		{"the first look", time.Time{}, wall, false},
		{"an ordinary look", wall, wall.Add(lookEvery), false},
		{"two looks in one moment", wall, wall, false},
		{"a slow look", wall, wall.Add(3 * lookEvery), false},
		{"a sleep", wall, wall.Add(3*lookEvery + 1), true},
		{"a small correction of the clock", wall, wall.Add(-lookEvery), false},
		{"the clock went back", wall, wall.Add(-lookEvery - 1), true},
		{"an ordinary look, both clocks", running, running.Add(lookEvery), false},
		{"a sleep, both clocks", running, running.Add(time.Hour), true},
	} {
		if got := Resumed(tc.prev, tc.now, lookEvery); got != tc.want {
			t.Errorf("%s: got %v", tc.name, got)
		}
	}
	// A sleep or a step too short to be a gap shows as a difference between the two clocks.
	for _, tc := range []struct {
		wall, monotonic time.Duration
		want            bool
	}{{14 * time.Second, 5 * time.Second, true}, {10 * time.Second, 5 * time.Second, false}, {5 * time.Second, 14 * time.Second, true}} {
		if got := resumed(tc.wall, tc.monotonic, lookEvery); got != tc.want {
			t.Errorf("wall %v, monotonic %v: got %v", tc.wall, tc.monotonic, got)
		}
	}
}
