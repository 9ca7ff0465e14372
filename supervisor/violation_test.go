package supervisor_test

import (
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// A worker's proved violation ends its task, and its processes first if they are named; not where a person decides, and not
// where steward only observes.
func TestViolationFailsTheTask(t *testing.T) {
	now := time.Now()
	worker := []protocol.Identity{{PID: 4711, Start: 1, Boot: "b"}}
	for name, c := range map[string]struct {
		violation *protocol.Violation
		act       bool
		signal    string
		changes   int
	}{
		"mark":    {&protocol.Violation{Worker: "w", Text: "src: it was changed"}, true, "", 1},
		"end":     {&protocol.Violation{Worker: "w", Text: "src: it was changed", Processes: worker}, true, "SIGTERM", 1},
		"tell":    {&protocol.Violation{Worker: "w", Text: "src: it was changed", Processes: worker, Asked: true}, true, "", 0},
		"observe": {&protocol.Violation{Worker: "w", Text: "src: it was changed"}, false, "", 0},
		"none":    {nil, true, "", 0},
	} {
		task := protocol.Task{Request: protocol.Request{ID: "TASK-001", Timeout: protocol.NoTimeout, Ref: protocol.Ref{Path: "k", Sum: "s"}},
			Flight: protocol.Flight{Named: "kanban", Violation: c.violation}, Handling: protocol.Handling{Foreign: true}}
		snap := protocol.Snapshot{At: now, Tasks: []protocol.Task{task}}
		snap.Name("shop", "ralph", c.act)
		plan := supervisor.Decide(decide.View{Now: now, Snapshots: []protocol.Snapshot{snap}, Looked: []string{"shop"}}, decide.Memory{}, settings())
		if len(plan.Changes) != c.changes {
			t.Errorf("%s: %+v", name, plan.Changes)
			continue
		}
		for _, x := range plan.Changes {
			if x.Verb != protocol.VerbConclude || x.Code != protocol.CodeViolation || x.Agent != "w" || x.Status != c.signal || (len(x.Processes) > 0) != (c.signal != "") ||
				x.Ref.Sum != "s" || x.Why != "src: it was changed" {
				t.Errorf("%s: %+v", name, x)
			}
		}
	}
}

// Where steward asks, the person who hears of a violation may choose to have the worker's session ended, or the task only marked.
func TestViolationIsOffered(t *testing.T) {
	now := time.Now()
	task := protocol.Task{Request: protocol.Request{ID: "TASK-001", Timeout: protocol.NoTimeout, Ref: protocol.Ref{Path: "k", Sum: "s"}}, Handling: protocol.Handling{Foreign: true},
		Flight: protocol.Flight{Named: "kanban", Violation: &protocol.Violation{Worker: "w", Text: "src: it was changed", Processes: []protocol.Identity{{PID: 4711, Start: 1, Boot: "b"}}, Asked: true}}}
	snap := protocol.Snapshot{At: now, Tasks: []protocol.Task{task}, Findings: []protocol.Finding{{Subject: protocol.Subject{Kind: protocol.KindTask, ID: "TASK-001"},
		Code: "violation", Severity: protocol.High, Text: "w left its workspace", Settle: "Reviewed"}}}
	snap.Mode = protocol.ModeAsk
	snap.Name("shop", "ralph", false)
	plan := supervisor.Decide(decide.View{Now: now, Snapshots: []protocol.Snapshot{snap}, Looked: []string{"shop"}}, decide.Memory{}, settings())
	offered := map[string]int{}
	for _, o := range plan.Offers {
		for _, c := range o.Changes {
			if c.Code == protocol.CodeViolation {
				offered[o.Option] += 1 + len(c.Processes)
			}
		}
	}
	if len(plan.Changes) > 0 || len(plan.Alerts) != 1 || offered[decide.OptionEnd] != 2 || offered[decide.OptionRepair] != 1 {
		t.Errorf("changes %+v, offers %+v", plan.Changes, plan.Offers)
	}
}
