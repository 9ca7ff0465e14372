package supervisor_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// BenchmarkDecide: one decision on a scan of everything that shows every agent with a new heartbeat and every open task with
// new progress. Nothing but the memory is known from the decision before.
func BenchmarkDecide(b *testing.B) {
	for _, size := range []struct{ projects, agents, tasks, ended int }{{1, 2, 4, 0}, {5, 20, 4, 0}, {5, 20, 4, 200}, {5, 20, 4, 20000}} {
		b.Run(fmt.Sprintf("%d projects, %d agents, %d tasks, %d ended", size.projects, size.projects*size.agents, size.projects*size.tasks, size.projects*size.ended), func(b *testing.B) {
			view, memory := crowd(size.projects, size.agents, size.tasks, size.ended)
			benchmarkDecisions(b, view, memory, size.ended, func(*protocol.Snapshot) {})
		})
	}
}

// BenchmarkDecideCompleted: the same, where in each scan one more task has completed.
func BenchmarkDecideCompleted(b *testing.B) {
	for _, ended := range []int{200, 20000} {
		b.Run(fmt.Sprintf("%d ended", 5*ended), func(b *testing.B) {
			view, memory := crowd(5, 20, 4, ended)
			n := 0
			benchmarkDecisions(b, view, memory, ended, func(s *protocol.Snapshot) {
				n++
				s.Tasks[0].Outcome = &protocol.Outcome{Status: "completed", Appeared: midnight, Ref: protocol.Ref{Path: "r", Sum: fmt.Sprint(n)}}
			})
		})
	}
}

func benchmarkDecisions(b *testing.B, view decide.View, memory decide.Memory, ended int, change func(*protocol.Snapshot)) {
	cfg := settings()
	lists := make([]*protocol.Completed, len(view.Snapshots))
	scan := func() {
		view.Now = view.Now.Add(time.Second)
		for i := range view.Snapshots {
			s := &view.Snapshots[i]
			s.At = view.Now
			s.Agents = slices.Clone(s.Agents)
			for j := range s.Agents {
				s.Agents[j].Beat = protocol.Beat{Mark: fmt.Sprint(view.Now.UnixNano(), j), Touched: view.Now, At: view.Now}
			}
			for j := ended; j < len(s.Tasks); j++ {
				s.Tasks[j].Progress = protocol.Progress{Percent: float64(view.Now.Second()), At: view.Now}
			}
			change(&view.Snapshots[0])
			d := s.Divide(lists[i])
			lists[i], s.Divided = d.List, &d
		}
	}
	for range 3 {
		scan()
		memory = supervisor.Decide(view, memory, cfg).Memory
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		scan()
		b.StartTimer()
		memory = supervisor.Decide(view, memory, cfg).Memory
	}
}

// BenchmarkDivide: a scan finds out that the same tasks have completed as at the last one.
func BenchmarkDivide(b *testing.B) {
	for _, ended := range []int{1000, 100000} {
		b.Run(fmt.Sprintf("%d ended", ended), func(b *testing.B) {
			view, _ := crowd(1, 20, 4, ended)
			s := &view.Snapshots[0]
			last := s.Divide(nil).List
			for b.Loop() {
				if s.Divide(last).List != last {
					b.Fatal("another list")
				}
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
		s := f.Observe(context.Background(), protocol.ScanOrder{Now: midnight})
		s.Project, s.Protocol, s.Act = name, "agentstatus", true
		v.Snapshots = append(v.Snapshots, s)
		memory.Projects[name] = decide.ProjectMemory{Since: midnight.Add(-time.Hour)}
	}
	return v, memory
}
