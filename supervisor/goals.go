package supervisor

import (
	"math"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

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
	}
	ended := t.Completed + t.Failed
	var covered, observed time.Duration
	for _, a := range p.Plan.Memory.Agents.All() {
		covered += a.Covered
		observed += a.Observed
	}
	return []Goal{
		goal("task_success_rate", ratio(t.Completed, ended), "> 0.95", func(v float64) bool { return v > 0.95 }),
		goal("average_task_latency_seconds", mean(t.Latency, ended), "< 30", func(v float64) bool { return v < 30 }),
		goal("heartbeat_uptime", durations(covered, observed), "> 0.999", func(v float64) bool { return v > 0.999 }),
		goal("overload_crashes", known(float64(t.Overloaded)), "0", func(v float64) bool { return v == 0 }),
		{Name: "copy_paste_events", Target: "0", OK: true, Note: "not measured: files do not show what a person copies by hand"},
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

func known(v float64) *float64 { return &v }

func ratio(part, whole int) *float64 {
	if whole == 0 {
		return nil
	}
	return known(float64(part) / float64(whole))
}

func mean(sum time.Duration, n int) *float64 {
	if n == 0 {
		return nil
	}
	return known(sum.Seconds() / float64(n))
}

func durations(part, whole time.Duration) *float64 {
	if whole <= 0 {
		return nil
	}
	return known(float64(part) / float64(whole))
}

// taskStates and agentStates are the closed label sets of the metrics.
var (
	taskStates  = []protocol.TaskState{protocol.TaskPending, protocol.TaskDeferred, protocol.TaskRunning, protocol.TaskWaiting, protocol.TaskDone, protocol.TaskFailed, protocol.TaskDead}
	agentStates = []protocol.AgentState{protocol.AgentStarting, protocol.AgentAlive, protocol.AgentLate, protocol.AgentDead, protocol.AgentHung, protocol.AgentPaused, protocol.AgentUnknown}
)
