// Package worker is the executor's side of protocol 000: it takes the tasks of one agent, runs them, and writes their
// results.
package worker

import (
	"context"
	"time"

	"github.com/livhana/steward/platform/confine"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
)

// New makes a worker. It does not start anything.
func New(o Options) *Worker {
	o.Jobs = max(o.Jobs, 1)
	return &Worker{o: o, log: log{o.Say, map[string]string{}}, runner: &runner{o: o, confine: o.Confine && confine.Supported()},
		planner: planner{Settings: o.Settings, paths: allow(o.Project, o.Paths), programs: allow(o.Project, append(o.Programs, o.Paths...))},
		events:  make(chan func()), jobs: map[string]*job{}, orphans: map[string]bool{}, scanNow: true}
}

// Run works until ctx ends or there is nothing left to do (Once, Drain). When ctx ends, the worker takes no more tasks
// and stops those that run. The error means that the worker could not start.
func (w *Worker) Run(ctx context.Context) (Tally, error) {
	base := context.WithoutCancel(ctx)
	w.started = w.o.Now()
	if err := w.o.Client.Enroll(base, agentstatus.Registration{Agent: w.o.Agent, Process: w.o.Process, Shared: true, Claims: true}, w.started); err != nil {
		return w.tally, err
	}
	if w.o.Confine && !w.runner.confine {
		w.log.say("this system cannot confine where commands write ([worker] confine); they may write wherever this user may")
	}
	for {
		w.step(ctx)
		if w.isDone() {
			break
		}
		w.wait(ctx)
	}
	if err := w.o.Client.Leave(base, w.o.Agent, w.o.Process, agentstatus.Leaving{Why: "the worker ended"}, w.o.Now()); err != nil {
		w.log.say("leave: %v", err)
	}
	return w.tally, nil
}

// step does everything that is due.
func (w *Worker) step(ctx context.Context) {
	base := context.WithoutCancel(ctx)
	now := w.o.Now()
	w.deliver(base, now)
	if !w.gateAt.IsZero() && !now.Before(w.gateAt) {
		w.scanNow = true
	}
	if !now.Before(w.pollAt) {
		w.pollAt, w.scanNow = now.Add(w.o.Poll), true
		w.collectOrphans(base, now)
	}
	if !now.Before(w.sweepAt) && w.o.Keep > 0 {
		w.sweepAt = now.Add(time.Hour)
		if err := w.o.Client.SweepOutput(now.Add(-w.o.Keep), now); err != nil {
			w.failed("remove old output", err)
		}
	}
	if w.scanNow {
		w.scanNow = false
		w.stopRevoked()
		w.claimTasks(ctx, now)
	}
	w.report(base, now)
	w.beat(now)
}

// isDone reports whether there is nothing left to do.
func (w *Worker) isDone() bool {
	if len(w.jobs) > 0 || len(w.orphans) > 0 {
		return false
	}
	return w.stopping || w.o.Once && (w.tally.Taken > 0 || w.nothing) || w.o.Drain && w.nothing
}

// wait sleeps until something is due or happens.
func (w *Worker) wait(ctx context.Context) {
	if w.scanNow {
		return
	}
	timer := time.NewTimer(w.due().Sub(w.o.Now()))
	defer timer.Stop()
	asked := ctx.Done()
	if w.stopping {
		asked = nil
	}
	select {
	case <-asked:
		w.stop()
	case do := <-w.events:
		do()
	case <-w.o.Hints:
		w.scanNow = true
	case <-timer.C:
	}
}

// stop begins the shutdown: the worker takes no more tasks and stops those that run.
func (w *Worker) stop() {
	w.stopping, w.stopBy = true, w.o.Now().Add(w.o.Stop)
	if n := len(w.jobs); n > 0 {
		w.log.say("asked to end: %s being stopped", terminal.Plural(n, "running task"))
	}
	for _, j := range w.jobs {
		j.halt(errStopping)
	}
}

// due is when the next turn is needed.
func (w *Worker) due() time.Time {
	at := w.pollAt
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	sooner(w.beatAt)
	sooner(w.gateAt)
	for _, j := range w.jobs {
		if j.result != nil {
			sooner(j.saveAt)
		} else {
			sooner(j.reportAt)
		}
	}
	return at
}
