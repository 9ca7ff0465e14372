package supervisor

import (
	"math"
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// State is what the loop knew at one moment. It is immutable, so the status page is served without disturbing the loop.
type State struct {
	Started  time.Time
	Looks    int
	View     decide.View
	Plan     decide.Plan
	Config   decide.Config
	Projects []ProjectStatus
	Done     []Done
}

// ProjectStatus is a project in a State.
type ProjectStatus struct {
	Name, Path string
	Speaks     []Spoken
	Paused     string
	LookedAt   time.Time
	Problem    *protocol.Fault
	// Failing lists the changes that could not be made, and what prevents them.
	Failing []protocol.Fault
}

// Done is an applied change.
type Done struct {
	At      time.Time `json:"at"`
	Verb    string    `json:"verb"`
	Subject string    `json:"subject"`
	Why     string    `json:"why"`
}

func (d ProjectStatus) mode(sp Spoken) string {
	if sp.Mode == protocol.ModeAct && d.Paused != "" {
		return string(protocol.ModeObserve)
	}
	return string(sp.Mode)
}

// Tries reports whether the project has a protocol that could not be opened; its fault says why.
func (p *State) Tries(project string) bool {
	return slices.ContainsFunc(p.View.Snapshots, func(s protocol.Snapshot) bool { return s.Project == project })
}

// document returns the capacity.json of a project.
func document(project string, plan *decide.Plan, load capacity.Load, cfg decide.Config) []byte {
	running := 0
	for _, v := range plan.Tasks.All() {
		if v.State == protocol.TaskRunning {
			running++
		}
	}
	return capacity.Document(load.Of(project), cfg.Capacity, running)
}

// instant formats a time for JSON: null if it is not known.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Goal is one of the document's success metrics against its target.
type Goal struct {
	Name   string   `json:"name"`
	Value  *float64 `json:"value"` // null: no data yet
	Target string   `json:"target"`
	OK     bool     `json:"ok"`
	Note   string   `json:"note,omitempty"`
}

// Goals judges protocol 000's "Success Metrics" over all projects, since steward first looked at each. docs/protocols/agentstatus.md
// defines them.
func (p *State) Goals() []Goal {
	var t decide.Tally
	for _, m := range p.Plan.Memory.Projects {
		t.Completed += m.Tally.Completed
		t.Failed += m.Tally.Failed
		t.Latency += m.Tally.Latency
		t.Spoken += m.Tally.Spoken
		t.Overloaded += m.Tally.Overloaded
		t.Followed += m.Tally.Followed
		t.ByHand += m.Tally.ByHand
	}
	ended := t.Completed + t.Failed
	var covered, observed time.Duration
	for _, a := range p.Plan.Memory.Agents.All() {
		covered += a.Covered
		observed += a.Observed
	}
	overloaded, byHand := float64(t.Overloaded), float64(t.ByHand)
	latency := ratio(t.Latency, time.Duration(ended)*time.Second)
	return []Goal{
		goal("task_success_rate", ratio(t.Completed, ended), "> 0.95", func(v float64) bool { return v > 0.95 }),
		goal("average_task_latency_seconds", latency, "< 30", func(v float64) bool { return v < 30 }),
		goal("heartbeat_uptime", ratio(covered, observed), "> 0.999", func(v float64) bool { return v > 0.999 }),
		goal("overload_crashes", &overloaded, "0", func(v float64) bool { return v == 0 }),
		goal("copy_paste_events", &byHand, "0", func(v float64) bool { return v == 0 }),
		goal("voice_interruptions_per_task", ratio(t.Spoken, ended), "< 0.05", func(v float64) bool { return v < 0.05 }),
		goal("task_transparency", ratio(t.Followed, ended), "1", func(v float64) bool { return v == 1 }),
	}
}

func goal(name string, value *float64, target string, ok func(float64) bool) Goal {
	g := Goal{Name: name, Value: value, Target: target, OK: true}
	if value == nil {
		g.Note = "nothing to judge by yet"
		return g
	}
	*value = math.Round(*value*1e4) / 1e4
	g.OK = ok(*value)
	return g
}

// ratio is the share of a whole; nil if none exists yet.
func ratio[N int | time.Duration](part, whole N) *float64 {
	if whole <= 0 {
		return nil
	}
	v := float64(part) / float64(whole)
	return &v
}
