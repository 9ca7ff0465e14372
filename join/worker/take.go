package worker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/agentstatus"
)

// gateWait bounds one question to the gate: a daemon that does not answer must not hold up the heartbeat.
const gateWait = 5 * time.Second

// take looks for tasks and begins as many as there is room for.
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

// shortID is enough of an id for people.
func shortID(id string) string { return id[:min(8, len(id))] }

func (w *Worker) room() bool {
	return len(w.jobs) < w.o.Jobs && !(w.o.Once && w.tally.Taken > 0)
}

// begin takes one task, or leaves it where it is: then it reports false if it may be taken later.
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

// closed are the answers of the gate in one look: a task that allows no more load than one that was refused is not asked
// for, for it comes later in the order too.
type closed struct {
	unnamed bool    // refused to a task that names no limit
	limit   float64 // the highest that was refused
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

// admitted asks the gate. While it says no, the task stays where it is, for any worker to take.
func (w *Worker) admitted(ctx context.Context, task agentstatus.Work, shut *closed) bool {
	if shut.refuses(task.Throttle) {
		return false
	}
	asked, cancel := context.WithTimeout(ctx, gateWait)
	ok, why, wait := w.o.Gate(asked, task.TaskID, task.Throttle)
	cancel()
	if ctx.Err() != nil {
		return false // the worker is to end
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

// mostWait is how long the gate is left alone at the most: it may open at any time.
const mostWait = 5 * time.Second

// leastWait keeps a hint of no time from becoming a busy loop.
const leastWait = 100 * time.Millisecond

// Largest stands, in a gate's reason, before the names of those who take the most. They change all the time: a reason is the
// same as another one when they are the same up to here.
const Largest = "; largest: "

var digits = lazily(`[0-9]+(?:\.[0-9]+)?`)

// once says something about a matter unless it was the last thing said about it; figures make no difference.
func (w *Worker) once(matter, text string) {
	same, _, _ := strings.Cut(text, Largest) // who takes the most changes all the time
	key := digits().ReplaceAllString(same, "#")
	if w.told[matter] == key {
		return
	}
	if len(w.told) > 1000 {
		clear(w.told) // tasks that others took meanwhile
	}
	w.told[matter] = key
	w.say("%s", text)
}

// calm forgets what was said about a matter that is settled.
func (w *Worker) calm(matter string) { delete(w.told, matter) }

// fret tells of something that did not work and will be tried again.
func (w *Worker) fret(doing string, err error) {
	w.once(doing, doing+": "+err.Error())
	w.trouble = err.Error()
	if outOfSpace(err) != w.diskFull {
		w.diskFull = !w.diskFull
		w.beatAt = w.o.Now()
	}
}
