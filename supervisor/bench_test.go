package supervisor_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// BenchmarkDecide: one decision on a view that nothing is known of from the decision before but the memory.
func BenchmarkDecide(b *testing.B) {
	for _, size := range []struct{ projects, agents, tasks, ended int }{{1, 2, 4, 0}, {5, 20, 4, 0}, {5, 20, 4, 200}, {5, 20, 4, 20000}} {
		b.Run(fmt.Sprintf("%d projects, %d agents, %d tasks, %d ended", size.projects, size.projects*size.agents, size.projects*size.tasks, size.projects*size.ended), func(b *testing.B) {
			view, memory := crowd(size.projects, size.agents, size.tasks, size.ended)
			cfg := settings()
			memory = decide.Decide(view, memory, cfg).Memory
			b.ReportAllocs()
			for b.Loop() {
				view.Now = view.Now.Add(time.Millisecond)
				memory = decide.Decide(view, memory, cfg).Memory
			}
		})
	}
}

func crowd(projects, agents, tasks, ended int) (decide.View, decide.Memory) {
	v := decide.View{Now: midnight}
	memory := decide.Memory{Projects: map[string]decide.ProjectMemory{}}
	for p := range projects {
		f, name := newFolder(), fmt.Sprint("project", p)
		for i := range agents {
			f.sims = append(f.sims, &sim{agent: protocol.Agent{Name: fmt.Sprint("agent", i), Status: "active", Recorded: "active"}, every: time.Hour, next: midnight})
		}
		for i := range tasks + ended {
			id := fmt.Sprint("t", i)
			f.submit(protocol.Task{Request: protocol.Request{ID: id, Agent: fmt.Sprint("agent", i%agents)}}, midnight)
			f.cards[id].logged = []string{"task_created", "task_started", "task_completed"}
			if i < ended {
				f.finish(id, protocol.Outcome{Status: "completed"}, midnight)
			} else {
				f.cards[id].named = "active_tasks"
			}
		}
		s := f.Observe(context.Background(), protocol.Look{Now: midnight})
		s.Project, s.Protocol, s.Act = name, "agentstatus", true
		v.Snapshots = append(v.Snapshots, s)
		memory.Projects[name] = decide.ProjectMemory{Since: midnight.Add(-time.Hour)}
	}
	return v, memory
}
