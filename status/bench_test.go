package status

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// crowd is a scene with n agents, each with a task in flight.
func crowd(n int) *supervisor.State {
	p := scene()
	snap := &p.View.Snapshots[0]
	for i := range n - len(snap.Agents) {
		name, id := fmt.Sprintf("agent-%03d", i), fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
		snap.Agents = append(snap.Agents, protocol.Agent{Name: name, Processes: protocol.Processes{PID: 1000 + i}, Status: "busy", Beat: protocol.Beat{At: noon}, Tasks: []string{id}})
		snap.Tasks = append(snap.Tasks, protocol.Task{Request: protocol.Request{ID: id, Agent: name, Type: "code"}})
		p.Plan.Agents = p.Plan.Agents.With(subject(protocol.KindAgent, name), heartbeat.Verdict{State: protocol.AgentAlive, Cause: protocol.Cause{Reason: protocol.ReasonBeats, Phrase: protocol.PhraseRecent}})
		p.Plan.Tasks = p.Plan.Tasks.With(subject(protocol.KindTask, id), decide.TaskVerdict{State: protocol.TaskRunning, Cause: protocol.Cause{Reason: protocol.ReasonInFlight, Facts: protocol.Facts{Name: "active_tasks", At: noon}}})
	}
	return p
}

// BenchmarkStatus requests the status of 100 agents over the socket, with a new connection each time as commands do.
func BenchmarkStatus(b *testing.B) {
	w := newWorld(b, crowd(100))
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		var doc json.RawMessage
		if err := w.client.Get(b.Context(), "/v1/status", &doc); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))]) / float64(time.Millisecond)
	}
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
}

func BenchmarkCompose(b *testing.B) {
	p := crowd(100)
	for b.Loop() {
		if _, err := encode(Compose(p, nil, nil, Self{})); err != nil {
			b.Fatal(err)
		}
	}
}
