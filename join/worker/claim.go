package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/livhana/steward/protocol/agentstatus"
)

// gateWait bounds one call of the gate: a daemon that does not answer must not delay the heartbeat.
const gateWait = 5 * time.Second

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

// shortID shortens an id for messages.
func shortID(id string) string { return id[:min(8, len(id))] }

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
	j := &job{task: task, plan: p, mark: k.Mark, began: now, name: shortID(task.TaskID)}
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
	now := w.o.Now()
	if at := now.Add(max(min(wait, mostWait), leastWait)); wait > 0 && (w.gateAt.IsZero() || at.Before(w.gateAt)) {
		w.gateAt = at
	}
	w.log.once("gate "+task.TaskID, "task "+shortID(task.TaskID)+" waits: "+why)
	return false
}

// mostWait bounds the time between calls of the gate: it may open at any time.
const mostWait = 5 * time.Second

// leastWait keeps a very short wait from becoming a busy loop.
const leastWait = 100 * time.Millisecond

// failed logs a failure that will be retried.
func (w *Worker) failed(doing string, err error) {
	w.log.once(doing, doing+": "+err.Error())
	w.lastError = err.Error()
	if outOfSpace(err) != w.diskFull {
		w.diskFull = !w.diskFull
		w.beatAt = w.o.Now()
	}
}
