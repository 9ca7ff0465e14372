package role

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/join/worker"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
)

const (
	gateWait  = 5 * time.Second        // bounds one call of the gate, which must not delay the sign of life
	mostWait  = 5 * time.Second        // bounds the time between calls of the gate
	leastWait = 100 * time.Millisecond // keeps a very short wait from becoming a busy loop
	// endGrace is how long a run may go on after its task has ended: it may report first, and then clean up.
	endGrace = time.Minute
)

// take starts runs for the tasks that wait for the role, as many as there is room for.
func (r *Runner) take(ctx context.Context, now time.Time) {
	r.nothing, r.gateAt = false, time.Time{}
	if r.stopping || !r.hasRoom() {
		return
	}
	list, err := r.o.Participant.Pending(context.WithoutCancel(ctx), r.o.Role, now)
	if err != nil {
		r.once("pending", "look for tasks: "+err.Error())
		r.nothing = errors.Is(err, protocol.ErrAbsent)
		return
	}
	delete(r.told, "pending")
	left := 0
	for _, t := range list {
		switch {
		case r.jobs[t.ID] != nil:
		case t.Waits != "":
			r.once(t.ID, fmt.Sprintf("task %s waits: %s", t.ID, t.Waits))
		case ctx.Err() != nil, !r.hasRoom(), !r.accept(ctx, t):
			left++
		}
	}
	r.nothing = left == 0
}

func (r *Runner) hasRoom() bool {
	return len(r.jobs) < r.o.Jobs && !(r.o.Once && r.tally.Taken > 0)
}

// accept takes one task and starts its run. See docs/decisions.md, "The role's worker claims each task itself".
// It reports false when the task stays and may be taken later.
func (r *Runner) accept(ctx context.Context, t protocol.Assignment) bool {
	if !r.admitted(ctx, t.ID) {
		return false
	}
	now, base := r.o.Now(), context.WithoutCancel(ctx)
	receipt, err := r.o.Participant.Accept(base, t.ID, protocol.Acceptance{Agent: r.o.Role, Worker: r.o.Process}, now)
	switch {
	case errors.Is(err, protocol.ErrTaken), errors.Is(err, protocol.ErrNoTask), errors.Is(err, protocol.ErrEnded):
		return true
	case err != nil:
		r.once(t.ID, fmt.Sprintf("take task %s: %v", t.ID, err))
		return false
	}
	delete(r.told, t.ID)
	r.tally.Taken++
	j := &taken{task: t, note: receipt.Note, accepted: receipt.State}
	j.task.Path = receipt.Path
	if shown, err := r.o.Participant.Show(base, t.ID, now); err == nil {
		j.task, j.accepted = shown, shown.State
	}
	j.ctx, j.halt = context.WithCancelCause(base)
	r.jobs[t.ID], r.beatAt = j, now
	r.say("task %s: %s starts, attempt %d: %s", t.ID, r.o.Command[0], max(j.task.Attempt, 1), t.Title)
	c := r.command(j)
	go func() {
		ended := r.o.Execute(j.ctx, c)
		r.events <- func() { r.conclude(base, j, ended) }
	}()
	return true
}

// admitted asks the gate. While the gate refuses, the task stays where it is.
func (r *Runner) admitted(ctx context.Context, id string) bool {
	asked, cancel := context.WithTimeout(ctx, gateWait)
	ok, why, wait := r.o.Gate(asked, id)
	cancel()
	if ok || ctx.Err() != nil {
		return ok && ctx.Err() == nil
	}
	r.gateAt = r.o.Now().Add(max(min(wait, mostWait), leastWait))
	r.once(id, "task "+id+" waits: "+why)
	return false
}

// attend checks the tasks of the runs. A run whose task another process has taken ends at once; one whose task has ended
// may go on for endGrace.
func (r *Runner) attend(ctx context.Context, now time.Time) {
	for id, j := range r.jobs {
		if j.report != nil || context.Cause(j.ctx) != nil {
			continue
		}
		t, err := r.o.Participant.Show(ctx, id, now)
		switch {
		case err != nil && !errors.Is(err, protocol.ErrNoTask):
		case err == nil && r.isOther(t.Worker):
			r.say("task %s: another process has it now (pid %d); the run is stopped", id, t.Worker.PID)
			j.halt(worker.ErrDisowned)
		case err == nil && t.State == j.accepted:
			j.endBy = time.Time{}
		case j.endBy.IsZero():
			j.endBy = now.Add(endGrace)
		case reached(j.endBy, now):
			r.say("task %s: it has ended but its run has not; the run is stopped", id)
			j.halt(worker.ErrDisowned)
			j.endBy = time.Time{}
		}
	}
}

// isOther reports whether a recorded worker is another process.
func (r *Runner) isOther(id protocol.Identity) bool {
	return id.PID > 0 && (id.PID != r.o.Process.PID || id.Start != r.o.Process.Start)
}

func (r *Runner) say(format string, args ...any) {
	r.o.Say(terminal.Clean(fmt.Sprintf(format, args...)))
}

// once prints a message about a matter, unless it repeats the last one about it.
func (r *Runner) once(matter, text string) {
	if gist := worker.Gist(text); r.told[matter] != gist {
		r.told[matter] = gist
		r.say("%s", text)
	}
}
