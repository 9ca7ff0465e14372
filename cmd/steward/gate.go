package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/capacity/measure"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/worker"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
)

// judgeTime is the longest time that a new task waits for the daemon's first verdict.
const judgeTime = 2 * time.Second

// gate asks whether there is room to start work now: a task of a project, or any program. The daemon answers; without a
// daemon, gate measures the load itself. Without room, why is a sentence for the user, and wait the time until the next check.
func (a *app) gate(ctx context.Context, o status.AdmitOrder) (ok bool, why string, wait time.Duration) {
	o.PID = os.Getpid()
	paths, err := a.reach()
	if err != nil {
		return a.gateAlone(ctx, o)
	}
	client := status.NewClient(paths.Socket)
	for deadline := time.Now().Add(judgeTime); ; {
		var answer status.Admitted
		err := client.Post(ctx, "/v1/admit", o, &answer)
		switch {
		case err != nil:
			return a.gateAlone(ctx, o)
		case answer.Known || time.Now().After(deadline):
			return answer.Admit || !answer.Known, answer.Why + gateDetail(answer.Gate), span(answer.RetryAfter)
		}
		if rest(ctx, span(answer.RetryAfter)) != nil {
			return false, "interrupted", 0
		}
	}
}

func span(s float64) time.Duration {
	return max(50*time.Millisecond, time.Duration(s*float64(time.Second)))
}

// gateDetail names the largest consumers.
func gateDetail(g *protocol.Gate) string {
	if g == nil || len(g.Consumers) == 0 {
		return ""
	}
	var names []string
	for _, c := range g.Consumers[:min(capacity.ConsumersShown, len(g.Consumers))] {
		names = append(names, fmt.Sprintf("%s (pid %d)", c.Name, c.PID))
	}
	return worker.Largest + strings.Join(names, ", ")
}

// gateAlone measures the load itself. A gauge that cannot be read does not block work.
func (a *app) gateAlone(ctx context.Context, o status.AdmitOrder) (bool, string, time.Duration) {
	cfg, _, err := a.settings()
	if err != nil {
		cfg = config.Defaults()
	}
	g := measure.New(o.Project)
	g.Sample(time.Now())
	if rest(ctx, pause) != nil {
		return false, "interrupted", 0
	}
	now := time.Now()
	load := g.Sample(now)
	w := capacity.Waiter{Subject: protocol.Subject{Project: o.Project, Kind: protocol.KindMachine, ID: "admission"}, Since: now, Person: o.Person}
	if o.Throttle != nil {
		w.Throttle = protocol.Used(*o.Throttle)
	}
	verdicts, _, _ := capacity.Admit(capacity.Work{Waiters: []capacity.Waiter{w}}, load, capacity.Memory{At: now}, now, cfg.Capacity)
	v := verdicts[0]
	if v.Admit {
		return true, "", 0
	}
	gate := v.Gate
	gate.Consumers = capacity.Largest(g.Candidates(capacity.ConsumersShown), gate.Dimension, capacity.ConsumersShown)
	// No event reports new room, and each check takes a reading.
	return false, v.Why + gateDetail(&gate), min(v.RetryAfter, 5*time.Second)
}

// supervised reports whether a running daemon supervises the project.
func (a *app) supervised(ctx context.Context, project string) bool {
	paths, err := a.reach()
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
