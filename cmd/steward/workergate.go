package main

import (
	"context"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/capacity/measure"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
)

// workerGate decides for a worker whether the machine has room: it asks the daemon that supervises the project, or
// otherwise reads its own gauge. Only one goroutine uses it.
type workerGate struct {
	app     *app
	project string
	cfg     config.Config
	paths   platform.Paths
	several bool // tasks run in parallel
	gauge   *measure.Gauge
	last    capacity.Load
	spent   bool // a task was admitted on the last reading, which does not show it yet
}

func (g *workerGate) ask(ctx context.Context, task string, throttle *float64) (ok bool, why string, wait time.Duration) {
	if g.app.supervised(ctx, g.project) {
		return g.app.gate(ctx, status.AdmitOrder{Project: g.project, Task: task, Throttle: throttle})
	}
	if g.spent && g.several && rest(ctx, pause-time.Since(g.last.At)) != nil {
		return false, "interrupted", 0
	}
	load, ok := g.sample(ctx)
	if !ok {
		return false, "interrupted", 0
	}
	w := capacity.Waiter{Subject: protocol.Subject{Project: g.project, Kind: protocol.KindTask, ID: task}, Since: load.At}
	if throttle != nil {
		w.Throttle = protocol.Used(*throttle)
	}
	verdicts, _, _ := capacity.Admit(capacity.Work{Waiters: []capacity.Waiter{w}}, load, capacity.Memory{At: load.At}, load.At, g.cfg.Capacity)
	if v := verdicts[0]; !v.Admit {
		gate := v.Gate
		gate.Consumers = capacity.Largest(g.gauge.Candidates(capacity.ConsumersShown), gate.Dimension, capacity.ConsumersShown)
		return false, v.Why + gateDetail(&gate), min(v.RetryAfter, 5*time.Second)
	}
	g.spent = true
	return true, "", 0
}

// sample reads the gauge. CPU usage covers the time since the previous reading: so a very recent reading is reused, and
// sample pauses before the first.
func (g *workerGate) sample(ctx context.Context) (capacity.Load, bool) {
	if g.gauge == nil {
		g.gauge = measure.New(g.project)
		g.gauge.Sample(time.Now())
		if rest(ctx, pause) != nil {
			return capacity.Load{}, false
		}
	}
	if now := time.Now(); now.Sub(g.last.At) >= pause {
		g.last, g.spent = g.gauge.Sample(now), false
	}
	return g.last, true
}
