package worker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/agentstatus"
)

// gateWait bounds one call of the gate: a daemon that does not answer must not delay the heartbeat.
const gateWait = 5 * time.Second

// take scans for tasks and begins as many as there is room for.
func (w *Worker) take(ctx context.Context, now time.Time) {
	w.nothing, w.gateAt = false, time.Time{}
	if w.stopping || !w.room() {
		return
	}
	list, err := w.o.Client.Open(context.WithoutCancel(ctx), w.o.Agent, now)
	if err != nil {
		w.fret("look for tasks", err)
		return
	}
	w.calm("look for tasks")
	left := 0
	shut := closed{}
	for _, task := range list {
		if ctx.Err() != nil || !w.room() {
			left++
			break
		}
		if w.jobs[task.TaskID] == nil && !w.begin(ctx, task, &shut) {
			left++
		}
	}
	w.nothing = left == 0
}

// shortID shortens an id for messages.
func shortID(id string) string { return id[:min(8, len(id))] }

func (w *Worker) room() bool {
	return len(w.jobs) < w.o.Jobs && !(w.o.Once && w.tally.Taken > 0)
}

// begin takes one task. It reports false when the task stays and may be taken later.
func (w *Worker) begin(ctx context.Context, task agentstatus.Work, shut *closed) bool {
	p := w.planner.plan(task)
	if p.runs() && !w.admitted(ctx, task, shut) {
		return false
	}
	now := w.o.Now()
	k := agentstatus.Claim{Task: task.TaskID, Agent: w.o.Agent, Worker: w.o.Process, Mark: agentstatus.NewTaskID(), Attempt: task.Attempt}
	switch err := w.o.Client.Claim(context.WithoutCancel(ctx), task, k, now); {
	case errors.Is(err, agentstatus.ErrTaken), errors.Is(err, agentstatus.ErrNoTask), errors.Is(err, agentstatus.ErrEnded):
		return true
	case err != nil:
		w.fret("take a task", err)
		return false
	}
	w.calm("take a task")
	w.tally.Taken++
	j := &job{task: task, plan: p, mark: k.Mark, began: now, name: shortID(task.TaskID)}
	w.jobs[task.TaskID] = j
	w.beatAt = now
	if !p.runs() {
		w.conclude(j, *p.result)
		w.deliver(context.WithoutCancel(ctx), now)
		return true
	}
	w.say("task %s: %s %s, attempt %d", j.name, p.kind, p.name, task.Attempt)
	w.launch(context.WithoutCancel(ctx), j, now)
	return true
}

// closed collects the gate's refusals in one scan. After a refusal, tasks that allow no more load are not asked for;
// they also come later in the order.
type closed struct {
	unnamed bool    // refused a task that names no limit
	limit   float64 // the highest limit refused
	some    bool
}

func (s *closed) refuses(throttle *float64) bool {
	if throttle == nil {
		return s.unnamed
	}
	return s.some && *throttle <= s.limit
}

func (s *closed) add(throttle *float64) {
	if throttle == nil {
		s.unnamed = true
		return
	}
	s.limit, s.some = max(s.limit, *throttle), true
}

// admitted asks the gate. While the gate refuses, the task stays where it is and any worker may take it.
func (w *Worker) admitted(ctx context.Context, task agentstatus.Work, shut *closed) bool {
	if shut.refuses(task.Throttle) {
		return false
	}
	asked, cancel := context.WithTimeout(ctx, gateWait)
	ok, why, wait := w.o.Gate(asked, task.TaskID, task.Throttle)
	cancel()
	if ctx.Err() != nil {
		return false // the worker is stopping
	}
	if ok {
		w.calm("gate " + task.TaskID)
		return true
	}
	shut.add(task.Throttle)
	now := w.o.Now()
	if at := now.Add(max(min(wait, mostWait), leastWait)); wait > 0 && (w.gateAt.IsZero() || at.Before(w.gateAt)) {
		w.gateAt = at
	}
	w.once("gate "+task.TaskID, "task "+shortID(task.TaskID)+" waits: "+why)
	return false
}

// mostWait bounds the time between calls of the gate: it may open at any time.
const mostWait = 5 * time.Second

// leastWait keeps a very short wait from becoming a busy loop.
const leastWait = 100 * time.Millisecond

// Largest precedes, in a gate's reason, the names of the largest consumers. They change all the time, so two reasons
// are the same when they agree up to here.
const Largest = "; largest: "

var digits = lazily(`[0-9]+(?:\.[0-9]+)?`)

// once logs a message about a matter, unless it repeats the last message about it; differences in numbers do not count.
func (w *Worker) once(matter, text string) {
	same, _, _ := strings.Cut(text, Largest) // drop the names of consumers, which change all the time
	key := digits().ReplaceAllString(same, "#")
	if w.told[matter] == key {
		return
	}
	if len(w.told) > 1000 {
		clear(w.told) // drops tasks that other workers have taken meanwhile
	}
	w.told[matter] = key
	w.say("%s", text)
}

// calm forgets the last message about a matter, because it is settled.
func (w *Worker) calm(matter string) { delete(w.told, matter) }

// fret logs a failure that will be retried.
func (w *Worker) fret(doing string, err error) {
	w.once(doing, doing+": "+err.Error())
	w.trouble = err.Error()
	if outOfSpace(err) != w.diskFull {
		w.diskFull = !w.diskFull
		w.beatAt = w.o.Now()
	}
}
