// Package gate asks whether there is room to start work: the daemon, or without one the gauges.
package gate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/capacity/measure"
	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/worker"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/words"
)

// judgeTime is the longest time that a new task waits for the daemon's first verdict.
const judgeTime = 2 * time.Second

// Ask asks whether there is room to start work now: a task of a project, or any program. The daemon answers; without a
// daemon, Ask measures the load itself. Without room, why is a sentence for the user, and wait the time until the next check.
func Ask(ctx context.Context, a *cli.App, o status.AdmitOrder) (ok bool, why string, wait time.Duration) {
	o.PID = os.Getpid()
	paths, err := a.Reach()
	if err != nil {
		return askAlone(ctx, a, o)
	}
	client := status.NewClient(paths.Socket)
	for deadline := time.Now().Add(judgeTime); ; {
		var answer status.Admitted
		err := client.Post(ctx, "/v1/admit", o, &answer)
		switch {
		case err != nil:
			return askAlone(ctx, a, o)
		case answer.Known || time.Now().After(deadline):
			return answer.Admit || !answer.Known, answer.Why + consumers(answer.Gate), span(answer.RetryAfter)
		}
		if cli.Sleep(ctx, span(answer.RetryAfter)) != nil {
			return false, "interrupted", 0
		}
	}
}

func span(s float64) time.Duration {
	return max(50*time.Millisecond, time.Duration(s*float64(time.Second)))
}

// consumers names the largest consumers of a gate that is shut.
func consumers(g *protocol.Gate) string {
	if g == nil || len(g.Consumers) == 0 {
		return ""
	}
	var names []string
	for _, c := range g.Consumers[:min(capacity.ConsumersShown, len(g.Consumers))] {
		names = append(names, fmt.Sprintf("%s (pid %d)", c.Name, c.PID))
	}
	return worker.Largest + strings.Join(names, ", ")
}

// askAlone measures the load itself. A gauge that cannot be read does not block work.
func askAlone(ctx context.Context, a *cli.App, o status.AdmitOrder) (bool, string, time.Duration) {
	cfg, _, err := a.Settings()
	if err != nil {
		cfg = config.Defaults()
	}
	w := capacity.Waiter{Subject: protocol.Subject{Project: o.Project, Kind: protocol.KindMachine, ID: "admission"}, Person: o.Person}
	return (&Own{Project: o.Project, Limits: cfg.Capacity}).Admit(ctx, w, o.Throttle)
}

// Own decides by its own gauge whether there is room: where no daemon supervises the project. Only one goroutine uses it.
type Own struct {
	Project string
	Limits  capacity.Config
	Several bool // work runs in parallel
	gauge   *measure.Gauge
	last    capacity.Load
	spent   bool // work was admitted on the last reading, which does not show it yet
}

func (g *Own) Admit(ctx context.Context, w capacity.Waiter, throttle *float64) (ok bool, why string, wait time.Duration) {
	if g.spent && g.Several && cli.Sleep(ctx, Pause-time.Since(g.last.At)) != nil {
		return false, "interrupted", 0
	}
	load, ok := g.sample(ctx)
	if !ok {
		return false, "interrupted", 0
	}
	w.Since = load.At
	if throttle != nil {
		w.Throttle = protocol.Used(*throttle)
	}
	verdicts, _, _ := capacity.Admit(capacity.Work{Waiters: []capacity.Waiter{w}}, load, capacity.Memory{At: load.At}, load.At, g.Limits)
	if v := verdicts[0]; !v.Admit {
		gate := v.Gate
		gate.Consumers = capacity.Largest(g.gauge.Candidates(capacity.ConsumersShown), gate.Dimension, capacity.ConsumersShown)
		// No event reports new room, and each check takes a reading.
		return false, words.Sentence(v.Cause, load.At) + consumers(&gate), min(v.RetryAfter, 5*time.Second)
	}
	g.spent = true
	return true, "", 0
}

// sample reads the gauge. CPU usage covers the time since the previous reading: so a very recent reading is reused, and
// sample pauses before the first.
func (g *Own) sample(ctx context.Context) (capacity.Load, bool) {
	if g.gauge == nil {
		g.gauge = measure.New(g.Project)
		g.gauge.Sample(time.Now())
		if cli.Sleep(ctx, Pause) != nil {
			return capacity.Load{}, false
		}
	}
	if now := time.Now(); now.Sub(g.last.At) >= Pause {
		g.last, g.spent = g.gauge.Sample(now), false
	}
	return g.last, true
}

// Supervised reports whether a running daemon supervises the project.
func Supervised(ctx context.Context, a *cli.App, project string) bool {
	paths, err := a.Reach()
	if err != nil {
		return false
	}
	var answer status.Admitted
	err = status.NewClient(paths.Socket).Post(ctx, "/v1/admit", status.AdmitOrder{Project: project, Look: true}, &answer)
	if err != nil && !errors.Is(err, status.ErrNoDaemon) {
		return errors.Is(err, status.ErrNoAnswer) // a daemon that does not answer is still in charge
	}
	return err == nil && answer.Supervised
}

// Pause separates the first two samples: CPU usage is computed from the difference between them.
const Pause = 300 * time.Millisecond
