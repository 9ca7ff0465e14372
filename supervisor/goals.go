package supervisor

import (
	"math"
	"time"

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
	overloaded := float64(t.Overloaded)
	latency := ratio(t.Latency, time.Duration(ended)*time.Second)
	return []Goal{
		goal("task_success_rate", ratio(t.Completed, ended), "> 0.95", func(v float64) bool { return v > 0.95 }),
		goal("average_task_latency_seconds", latency, "< 30", func(v float64) bool { return v < 30 }),
		goal("heartbeat_uptime", ratio(covered, observed), "> 0.999", func(v float64) bool { return v > 0.999 }),
		goal("overload_crashes", &overloaded, "0", func(v float64) bool { return v == 0 }),
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

// ratio is the share of a whole; nil if there is none yet.
func ratio[N int | time.Duration](part, whole N) *float64 {
	if whole <= 0 {
		return nil
	}
	v := float64(part) / float64(whole)
	return &v
}
