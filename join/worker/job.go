package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
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

	said     agentstatus.TaskProgress // the progress that this worker wrote last
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

// runs stores the run so that halt can stop it. If halt was already called, runs stops it at once.
func (j *job) runs(r *run.Running) {
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
			w.fret("keep the output", err)
		}
	}
	spec := w.spec(j, log)
	go w.perform(ctx, j, spec)
}

// leastKept is the least output, in bytes, that is kept to find out why a command failed, even if less of it goes into
// the result.
const leastKept = 16 << 10

// spec is the command with its limits.
func (w *Worker) spec(j *job, log string) run.Spec {
	about := []string{"STEWARD_TASK_ID=" + j.task.TaskID, "STEWARD_PROJECT=" + w.o.Project, "STEWARD_TASK_TYPE=" + j.plan.kind,
		"STEWARD_REQUEST=" + requestFile(w.o.Project, j.task.TaskID)}
	if j.plan.dry {
		about = append(about, "STEWARD_DRY_RUN=1")
	}
	s := run.Spec{Argv: j.plan.argv, Dir: j.plan.dir, Env: environment(w.o.Environ, w.o.Environment, about, w.o.Confine), Limit: j.plan.limit,
		Grace: w.o.Stop, Keep: max(w.o.Output, leastKept), Log: log, Mark: j.mark}
	if j.plan.kind != typeExecute {
		s.Stdin = j.plan.stdin
	}
	return s
}

// perform runs the command in its own goroutine.
func (w *Worker) perform(ctx context.Context, j *job, s run.Spec) {
	if err := w.endOlder(ctx, j.task.TaskID); err != nil {
		w.events <- func() { w.conclude(j, stillRunning(j, err)) }
		return
	}
	before := j.plan.picture()
	if why := j.halted(); why != haltNone {
		w.events <- func() { w.giveBack(ctx, j, why) }
		return
	}
	e := w.execute(ctx, j, s)
	a := attempt{plan: j.plan, ended: e, asked: j.halted(), ground: w.planner.ground, output: w.o.Output}
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

// execute runs the command with its own temporary folder, and waits for its end.
func (w *Worker) execute(ctx context.Context, j *job, s run.Spec) run.Ended {
	begin := w.o.Now()
	failed := func(fault string, err error) run.Ended {
		return run.Ended{Start: begin, End: w.o.Now(), Code: -1, Fault: fault, Problem: err.Error()}
	}
	temp, err := w.temporary(j.mark)
	if err != nil {
		return failed(faultOf(err), err)
	}
	defer func() {
		if err := removeAll(temp); err != nil {
			w.events <- func() { w.fret("remove a task's temporary files", err) }
		}
	}()
	s.Env = append(s.Env, "TMPDIR="+temp, "TMP="+temp, "TEMP="+temp)
	if w.confine {
		s.Write = slices.Concat([]string{w.o.Project, temp}, w.o.Paths, w.o.Writable)
	}
	r, err := run.Start(ctx, w.o.Program, s)
	if err != nil {
		return failed(faultOf(err), err)
	}
	j.runs(r)
	w.events <- func() { w.attach(ctx, j, r.Shim()) }
	e, err := r.Wait()
	if err == nil {
		return e
	}
	broken := failed(faultBroken, err)
	broken.Unended = e.Unended
	return broken
}

func faultOf(err error) string {
	for _, short := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC} {
		if errors.Is(err, short) {
			return run.Resources
		}
	}
	return run.Other
}

// attach records the process that runs the command in the claim. If the worker dies, the end of that process is the end
// of the run.
func (w *Worker) attach(ctx context.Context, j *job, shim proc.Identity) {
	if err := w.o.Client.Attach(ctx, j.task.TaskID, protocol.Identity(shim), w.o.Now()); err != nil {
		w.fret("note who runs the task", err)
	}
}

// giveBack returns a task whose command was not started.
func (w *Worker) giveBack(ctx context.Context, j *job, why halt) {
	if why != haltStopping {
		w.conclude(j, stopped(j, why))
		return
	}
	if err := w.o.Client.Unclaim(ctx, j.task.TaskID, w.o.Now()); err != nil {
		w.fret("give a task back", err)
		w.conclude(j, stopped(j, why))
		return
	}
	w.say("task %s: given back, nothing of it was run", j.name)
	w.tally.Taken--
	delete(w.jobs, j.task.TaskID)
}

// stopped is the result of a task that was halted before its command started.
func stopped(j *job, why halt) agentstatus.Result {
	a := attempt{plan: j.plan, asked: why}
	e := a.halted()
	return agentstatus.Result{Status: statusFailed, Errors: []agentstatus.TaskError{e}, Body: agentstatus.ResultBody{Summary: e.Message}}
}

func stillRunning(j *job, err error) agentstatus.Result {
	e := agentstatus.TaskError{Code: codeStillRunning, Severity: severityError,
		Message: fmt.Sprintf("%s was not started, for an older run of the task is not over: %v", j.plan.name, err)}
	return agentstatus.Result{Status: statusFailed, Errors: []agentstatus.TaskError{e}, Body: agentstatus.ResultBody{Summary: e.Message}}
}

// endOlder ends what is left of older runs of the task: the processes that carry the marks of both the task and the
// project.
func (w *Worker) endOlder(ctx context.Context, id string) error {
	mark := "STEWARD_TASK_ID=" + id
	if slices.Contains(w.o.Environ, mark) {
		return nil // this worker runs inside the task: the processes with the mark are its own parents
	}
	ofTask, err := proc.Marked("STEWARD_TASK_ID", id)
	if errors.Is(err, errors.ErrUnsupported) || err == nil && len(ofTask) == 0 {
		return nil
	}
	ofProject, err2 := proc.Marked("STEWARD_PROJECT", w.o.Project)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	for _, p := range ofTask {
		same := func(q proc.Process) bool { return q.Identity == p.Identity }
		if !slices.ContainsFunc(ofProject, same) {
			continue
		}
		_, left, err := proc.EndTree(ctx, p.Identity, "", w.o.Stop)
		if err != nil {
			return err
		}
		if left > 0 {
			return fmt.Errorf("process %d does not end", p.PID)
		}
	}
	return nil
}
