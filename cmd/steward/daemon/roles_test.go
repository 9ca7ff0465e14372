package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// shown is a state in which tasks of builder are pending, and an orchestrator is due.
func shown(due bool, ids ...string) *supervisor.State {
	s := protocol.Snapshot{Project: "p", Protocol: "handoffs"}
	for _, id := range ids {
		s.Tasks = append(s.Tasks, protocol.Task{Request: protocol.Request{ID: id, Agent: "builder"}, Visible: true, Handling: protocol.Handling{Foreign: true}})
	}
	if due {
		s.Due = []string{"orchestrator"}
	}
	v := decide.View{Now: time.Unix(1_800_000_000, 0), Snapshots: []protocol.Snapshot{s}, Looked: []string{"p"}}
	return &supervisor.State{View: v, Plan: supervisor.Decide(v, decide.Memory{}, decide.Config{}), Projects: []supervisor.ProjectStatus{{Name: "p"}}}
}

func TestWorkOfRoles(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	builder, orchestrator := roleKey{"p", "builder"}, roleKey{"p", "orchestrator"}
	r := &roles{}
	r.set(map[roleKey]config.Role{builder: {Name: "builder"}, orchestrator: {Name: "orchestrator", Protocol: "handoffs"}})
	admits := func(key roleKey, want bool, says string) {
		t.Helper()
		if ok, why := r.admit(key, &keep.Ending{}, now); ok != want || !strings.Contains(why, says) {
			t.Errorf("%v: %v %q", key, ok, why)
		}
	}
	admits(builder, false, "not scanned yet")
	r.judge(shown(false))
	admits(builder, false, "no work waits")
	r.judge(shown(true))
	admits(builder, false, "no work waits")
	admits(orchestrator, true, "")
	r.judge(shown(false, "t-1", "t-2"))
	admits(builder, true, "")
	admits(builder, false, "its last run did not take 2 tasks that wait")
	r.judge(shown(false, "t-1"))
	admits(builder, true, "") // other work than before
	// A task that is back after each run is a reason for three starts, and then a question.
	for n := range mostSame - 1 {
		r.judge(shown(false))
		r.judge(shown(false, "t-1"))
		if !r.repeated(builder).IsZero() {
			t.Fatalf("asks after %d runs", n+1)
		}
		admits(builder, true, "")
	}
	r.judge(shown(false))
	if !r.repeated(builder).IsZero() {
		t.Error("asks while nothing waits")
	}
	r.judge(shown(false, "t-1"))
	admits(builder, false, "3 runs in a row left a task that waits")
	if r.repeated(builder).IsZero() || !r.setTold(builder, true) || r.setTold(builder, true) {
		t.Error("the operator is not asked once")
	}
	r.setTold(builder, false)
	admits(builder, true, "")
	r.judge(shown(false, "t-1", "t-3"))
	admits(builder, true, "")
}
