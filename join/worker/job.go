package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
)

// job is one task in hand. The worker's goroutine owns it, except the fields that mu guards.
type job struct {
	task  agentstatus.Work
	plan  plan
	mark  string
	name  string // for messages
	began time.Time

	reported agentstatus.TaskProgress // the progress that this worker wrote last
	reportAt time.Time                // zero: no progress is requested

	result *agentstatus.Result // set when the run is over
	saveAt time.Time
	tries  int

	mu      sync.Mutex
	why     halt
	running *run.Running
}

// halt asks the run to end. Only the first reason counts.
func (j *job) halt(why halt) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.why != haltNone {
		return
	}
	j.why = why
	if j.running != nil {
		j.running.Stop()
	}
}

func (j *job) halted() halt {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.why
}

// setRunning stores the run so that halt can stop it. If halt was already called, setRunning stops it at once.
func (j *job) setRunning(r *run.Running) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.running = r
	if j.why != haltNone {
		r.Stop()
	}
}

// launch starts the goroutine of a claimed task.
func (w *Worker) launch(ctx context.Context, j *job, now time.Time) {
	if c := j.task.Coordination; c.Progress {
		j.reportAt = now
	}
	log := ""
	if j.plan.capture {
		var err error
		if log, err = w.o.Client.OutputFile(j.task.TaskID, j.task.Attempt, now); err != nil {
			w.failed("keep the output", err)
		}
	}
	go w.perform(ctx, j, w.runner.spec(j, log))
}

// perform runs the command in its own goroutine.
func (w *Worker) perform(ctx context.Context, j *job, s run.Spec) {
	if err := w.runner.endOlder(ctx, j.task.TaskID); err != nil {
		w.events <- func() { w.conclude(j, stillRunning(j, err)) }
		return
	}
	before := j.plan.files()
	if why := j.halted(); why != haltNone {
		w.events <- func() { w.unclaim(ctx, j, why) }
		return
	}
	e, err := w.runner.execute(ctx, j.mark, s, func(r *run.Running) {
		j.setRunning(r)
		w.events <- func() { w.attach(ctx, j, r.Shim()) }
	})
	if err != nil {
		w.events <- func() { w.failed("remove a task's temporary files", err) }
	}
	a := attempt{plan: j.plan, ended: e, asked: j.halted(), paths: w.planner.paths, output: w.o.Output}
	r := a.result()
	if e.Fault == "" {
		before.compare(&j.plan, &r)
	}
	machine{w.o.Cores, w.o.Memory}.measure(&e, &j.plan, &r)
	if s.Log != "" && e.Fault == "" {
		r.Body.Output = s.Log
	}
	w.events <- func() { w.conclude(j, r) }
}

// attach records the process that runs the command in the claim. If the worker dies, the end of that process is the end
// of the run.
func (w *Worker) attach(ctx context.Context, j *job, shim proc.Identity) {
	if err := w.o.Client.Attach(ctx, j.task.TaskID, protocol.Identity(shim), w.o.Now()); err != nil {
		w.failed("note who runs the task", err)
	}
}

// unclaim returns a task whose command was not started.
func (w *Worker) unclaim(ctx context.Context, j *job, why halt) {
	if why != haltStopping {
		w.conclude(j, stopped(j, why))
		return
	}
	if err := w.o.Client.Unclaim(ctx, j.task.TaskID, w.o.Now()); err != nil {
		w.failed("give a task back", err)
		w.conclude(j, stopped(j, why))
		return
	}
	w.log.say("task %s: given back, nothing of it was run", j.name)
	w.tally.Taken--
	delete(w.jobs, j.task.TaskID)
}

// stopped is the result of a task that was halted before its command started.
func stopped(j *job, why halt) agentstatus.Result {
	a := attempt{plan: j.plan, asked: why}
	return withError(statusFailed, a.halted())
}

func stillRunning(j *job, err error) agentstatus.Result {
	return withError(statusFailed, agentstatus.TaskError{Code: codeStillRunning, Severity: severityError,
		Message: fmt.Sprintf("%s was not started, for an older run of the task is not over: %v", j.plan.name, err)})
}
