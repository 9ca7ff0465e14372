package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
)

// claimTasks scans for tasks and begins as many as there is room for.
func (w *Worker) claimTasks(ctx context.Context, now time.Time) {
	w.nothing, w.gateAt = false, time.Time{}
	if w.stopping || !w.hasRoom() {
		return
	}
	list, err := w.o.Client.Open(context.WithoutCancel(ctx), w.o.Agent, now)
	if err != nil {
		w.failed("look for tasks", err)
		return
	}
	w.log.settled("look for tasks")
	left := 0
	var refused refusals
	for _, task := range list {
		if ctx.Err() != nil || !w.hasRoom() {
			left++
			break
		}
		if w.jobs[task.TaskID] == nil && !w.claim(ctx, task, &refused) {
			left++
		}
	}
	w.nothing = left == 0
}

func (w *Worker) hasRoom() bool {
	return len(w.jobs) < w.o.Jobs && !(w.o.Once && w.tally.Taken > 0)
}

// claim takes one task. It reports false when the task stays and may be taken later.
func (w *Worker) claim(ctx context.Context, task agentstatus.Work, refused *refusals) bool {
	p := w.planner.plan(task)
	if p.runs() && !w.admitted(ctx, task, refused) {
		return false
	}
	now := w.o.Now()
	k := agentstatus.Claim{Task: task.TaskID, Agent: w.o.Agent, Worker: w.o.Process, Mark: agentstatus.NewTaskID(), Attempt: task.Attempt}
	switch err := w.o.Client.Claim(context.WithoutCancel(ctx), task, k, now); {
	case errors.Is(err, agentstatus.ErrTaken), errors.Is(err, agentstatus.ErrNoTask), errors.Is(err, agentstatus.ErrEnded):
		return true
	case err != nil:
		w.failed("take a task", err)
		return false
	}
	w.log.settled("take a task")
	w.tally.Taken++
	j := newJob(ctx, task, p, k.Mark, now)
	w.jobs[task.TaskID] = j
	w.beatAt = now
	if !p.runs() {
		w.conclude(j, *p.result)
		w.deliver(context.WithoutCancel(ctx), now)
		return true
	}
	w.log.say("task %s: %s %s, attempt %d", j.name, p.kind, p.name, task.Attempt)
	w.launch(context.WithoutCancel(ctx), j, now)
	return true
}

// refusals are the limits of the tasks that the gate has refused in one scan; nil: the task names none. After a refusal,
// tasks that allow no more load are not asked for; they also come later in the order.
type refusals []*float64

func (s refusals) cover(throttle *float64) bool {
	return slices.ContainsFunc(s, func(refused *float64) bool {
		return refused == nil && throttle == nil || refused != nil && throttle != nil && *throttle <= *refused
	})
}

const (
	gateWait  = 5 * time.Second        // bounds one call of the gate: a daemon that does not answer must not delay the heartbeat
	mostWait  = 5 * time.Second        // bounds the time between calls of the gate: it may open at any time
	leastWait = 100 * time.Millisecond // keeps a very short wait from becoming a busy loop
)

// admitted asks the gate. While the gate refuses, the task stays where it is and any worker may take it.
func (w *Worker) admitted(ctx context.Context, task agentstatus.Work, refused *refusals) bool {
	if refused.cover(task.Throttle) {
		return false
	}
	asked, cancel := context.WithTimeout(ctx, gateWait)
	ok, why, wait := w.o.Gate(asked, task.TaskID, task.Throttle)
	cancel()
	if ctx.Err() != nil {
		return false // the worker is stopping
	}
	if ok {
		w.log.settled("gate " + task.TaskID)
		return true
	}
	*refused = append(*refused, task.Throttle)
	if at := w.o.Now().Add(max(min(wait, mostWait), leastWait)); wait > 0 && (w.gateAt.IsZero() || at.Before(w.gateAt)) {
		w.gateAt = at
	}
	w.log.once("gate "+task.TaskID, "task "+shortID(task.TaskID)+" waits: "+why)
	return false
}

// launch starts the goroutine of a claimed task.
func (w *Worker) launch(ctx context.Context, j *job, now time.Time) {
	if j.task.Coordination.Progress {
		j.reportAt = now
	}
	log := ""
	if j.plan.capture {
		var err error
		if log, err = w.o.Client.OutputFile(j.task.TaskID, j.task.Attempt, now); err != nil {
			w.failed("keep the output", err)
		}
	}
	go w.perform(ctx, j, log)
}

// perform runs the command in its own goroutine.
func (w *Worker) perform(ctx context.Context, j *job, log string) {
	if err := w.runner.endOlder(ctx, j.task.TaskID); err != nil {
		r := withError(statusFailed, newError(codeStillRunning, severityError, "%s was not started because an older run of the task has not ended: %v", j.plan.name, err))
		w.events <- func() { w.conclude(j, r) }
		return
	}
	before := j.plan.files(w.planner.paths.project)
	if j.halted() != nil {
		w.events <- func() { w.unclaim(ctx, j) }
		return
	}
	e, err := w.runner.execute(j, log, func(shim proc.Identity) {
		w.events <- func() { w.attach(ctx, j, shim) }
	})
	if err != nil {
		w.events <- func() { w.failed("remove a task's temporary files", err) }
	}
	a := attempt{plan: j.plan, ended: e, asked: j.halted(), paths: w.planner.paths, output: w.o.Output}
	r := a.result()
	if e.Fault == "" {
		before.compare(&j.plan, &r)
		if log != "" {
			r.Body.Output = log
		}
	}
	a.measure(&r, w.o.Cores, w.o.Memory)
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
func (w *Worker) unclaim(ctx context.Context, j *job) {
	var err error
	if j.halted() == errStopping {
		if err = w.o.Client.Unclaim(ctx, j.task.TaskID, w.o.Now()); err == nil {
			w.log.say("task %s: given back, nothing of it was run", j.name)
			w.tally.Taken--
			delete(w.jobs, j.task.TaskID)
			return
		}
		w.failed("give a task back", err)
	}
	a := attempt{plan: j.plan, asked: j.halted()}
	w.conclude(j, withError(statusFailed, a.halted()))
}
