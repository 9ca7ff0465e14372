package supervisor_test

import (
	"slices"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// twoProjects is a full machine of two cores: demo's t1 and t2 run, demo's t3 and other's t4 wait.
func twoProjects(t *testing.T, gigabytes uint64) *stage {
	t.Helper()
	s := newStage(t)
	s.folders["other"] = newFolder()
	s.sim("codex")
	s.folders["other"].sims = []*sim{{agent: protocol.Agent{Name: "gemini", Status: "active", Recorded: "active", Ref: protocol.Ref{Path: "registry"}}, every: 15 * time.Second, next: s.now}}
	s.load.CPU, s.load.Cores, s.load.Window, s.load.MemoryTotal = protocol.Used(0.05), 2, time.Second, gigabytes<<30
	s.until(midnight.Add(10 * time.Second))
	for _, id := range []string{"t1", "t2"} {
		s.demo().submit(protocol.Task{Request: protocol.Request{ID: id, Agent: "codex", Priority: protocol.PriorityMedium}}, s.now)
	}
	s.rest()
	for _, id := range []string{"t1", "t2"} {
		s.demo().cards[id].named = "active_tasks"
	}
	s.load.CPU = protocol.Used(1)
	s.until(midnight.Add(40 * time.Second))
	s.demo().submit(protocol.Task{Request: protocol.Request{ID: "t3", Agent: "codex", Priority: protocol.PriorityHigh}}, s.now)
	s.folders["other"].submit(protocol.Task{Request: protocol.Request{ID: "t4", Agent: "gemini", Priority: protocol.PriorityMedium}}, s.now)
	s.until(midnight.Add(50 * time.Second))
	if !s.demo().cards["t3"].held || !s.folders["other"].cards["t4"].held {
		t.Fatal("two tasks on two cores, and two more are not held")
	}
	return s
}

func releases(p decide.Plan) (ids []string) {
	for _, c := range append(p.Changes, p.Waiting...) {
		if c.Verb == protocol.VerbRelease {
			ids = append(ids, c.Subject.ID)
		}
	}
	return ids
}

// While a release is under way (a slow disk takes seconds) the files still show the task as held. It has the room that it
// was given all the same: nobody else gets it.
func TestReleaseUnderWayHasItsRoom(t *testing.T) {
	s := twoProjects(t, 64)
	s.demo().finish("t1", protocol.Outcome{Status: "completed", Agent: "codex"}, s.now)
	view := s.look()
	plan := supervisor.Decide(view, s.memory, s.cfg)
	if got := releases(plan); !slices.Equal(got, []string{"t3"}) {
		t.Fatalf("t1 has ended, and %v may go", got)
	}
	for second := range 8 {
		s.now = s.now.Add(time.Second)
		s.load.CPU = protocol.Used(0.5) // t1 has left, t3 has not come yet
		s.load.At, view.Now, view.Load = s.now, s.now, s.load
		view.Load.At = s.now
		for i := range view.Snapshots {
			view.Snapshots[i].Busy = view.Snapshots[i].Project == "demo"
		}
		plan = supervisor.Decide(view, plan.Memory, s.cfg)
		if got := releases(plan); len(got) > 0 {
			t.Fatalf("%d s later %v may go, in the place of t3", second+1, got)
		}
	}
}

// What a project that nobody looks at has in hand counts for a minute, and no longer.
func TestRoomOfAProjectNobodyLooksAt(t *testing.T) {
	s := twoProjects(t, 4)
	demo := s.folders["demo"]
	s.folders["demo"] = nil
	s.load.CPU = protocol.Used(0.05) // the processor is free; memory is promised to the end
	gone := s.now
	for held := true; held && s.now.Before(gone.Add(3*time.Minute)); {
		s.now = s.now.Add(time.Second)
		view := s.look()
		plan := supervisor.Decide(view, s.memory, s.cfg)
		s.memory, held = plan.Memory, len(releases(plan)) == 0
	}
	s.folders["demo"] = demo
	if after := s.now.Sub(gone); after < time.Minute || after > 75*time.Second {
		t.Errorf("t4 goes %v after the other project was lost sight of", after)
	}
}

// The wait of a task in a project that nobody looks at is remembered for a week, so that its alarm does not begin anew; then
// it is forgotten.
func TestWaitInAProjectNobodyLooksAt(t *testing.T) {
	s := twoProjects(t, 64)
	s.folders["other"] = nil
	t4 := protocol.Subject{Project: "other", Protocol: "agentstatus", Kind: protocol.KindTask, ID: "t4"}
	since := s.memory.Gate.Held[t4].Since
	const day = 24 * time.Hour
	for _, c := range []struct {
		after time.Duration
		known bool
	}{{0, true}, {7*day - time.Hour, true}, {7*day + time.Hour, false}} {
		s.now = since.Add(c.after).Add(time.Minute)
		held, known := supervisor.Decide(s.look(), s.memory, s.cfg).Memory.Gate.Held[t4]
		if known != c.known || known && !held.Since.Equal(since) {
			t.Errorf("after %v it is known to wait: %v, since %v", c.after, known, held.Since)
		}
	}
}
