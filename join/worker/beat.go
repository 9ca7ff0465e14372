package worker

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
)

// beat writes the heartbeat when it is due: at intervals, and at each change.
func (w *Worker) beat(now time.Time) {
	if now.Before(w.beatAt) {
		return
	}
	w.beatAt = now.Add(w.o.Beat)
	w.stopRevoked()
	// Free is the worker's own capacity (protocol 000: current_capacity); the load of the machine is not its concern.
	// Even with all jobs in use it reports at most 0.8 as used, the usual threshold: otherwise the gate would refuse the
	// next task. See docs/decisions.md, "A worker's current_capacity is its share of free slots".
	free := math.Round((1-0.8*float64(len(w.jobs))/float64(w.o.Jobs))*1000) / 1000
	b := agentstatus.Beat{Status: "idle", Uptime: now.Sub(w.started), Free: &free, LastError: w.lastError, DiskFull: w.diskFull}
	if len(w.jobs) > 0 {
		b.Status = "busy"
	}
	if err := w.o.Client.Beat(w.o.Agent, b, now); err != nil {
		w.log.once("beat", "beat: "+err.Error())
		w.diskFull = w.diskFull || outOfSpace(err)
		return
	}
	w.log.settled("beat")
}

// stopRevoked stops the jobs whose task was cancelled or whose claim is gone. See docs/decisions.md, "A result belongs to one claim".
func (w *Worker) stopRevoked() {
	for _, j := range w.jobs {
		if j.result != nil || j.halted() != nil {
			continue
		}
		if w.o.Client.Cancelled(j.task.TaskID) {
			w.log.say("task %s: cancelled; %s is stopped", j.name, j.plan.name)
			j.halt(errCancelled)
		} else if !w.o.Client.Holds(j.task.TaskID, j.mark) {
			w.log.say("task %s: its claim is gone, so another worker may run it; %s is stopped", j.name, j.plan.name)
			j.halt(errDisowned)
		}
	}
}

// report updates the progress files of the tasks that request progress.
func (w *Worker) report(ctx context.Context, now time.Time) {
	for _, j := range w.inHand() {
		if j.result != nil || j.reportAt.IsZero() || now.Before(j.reportAt) {
			continue
		}
		every := 30 * time.Second // protocol 000: update_interval_seconds
		if s := j.task.Coordination.Every; s > 0 {
			every = max(duration(s), time.Second)
		}
		j.reportAt = now.Add(every)
		if own := w.ownProgress(ctx, j, now); own == nil {
			// Total 1: the command is the only step.
			j.reported = agentstatus.TaskProgress{Step: fmt.Sprintf("running %s, %s", j.plan.name, span(now.Sub(j.began))), Total: 1}
			w.writeProgress(ctx, j, j.reported, now)
		} else if age := now.Sub(own.At); age >= 0 && age < every && !own.At.Equal(j.reported.At) {
			j.reportAt = now.Add(every - age) // the command has just written it
		} else {
			j.reported.At = now.UTC().Truncate(time.Second) // the file holds whole seconds
			own.At = time.Time{}
			w.writeProgress(ctx, j, *own, now)
		}
	}
}

// ownProgress is what the command of this run itself has written last; nil for nothing.
func (w *Worker) ownProgress(ctx context.Context, j *job, now time.Time) *agentstatus.TaskProgress {
	if j.reported.Step == "" {
		return nil // the file may hold the progress of an earlier run
	}
	d, err := w.o.Client.Task(ctx, j.task.TaskID, now)
	if err != nil || d.Progress == nil || d.Progress.At.Before(j.began.Truncate(time.Second)) || d.Progress.Step == j.reported.Step {
		return nil
	}
	p := *d.Progress
	return &p
}

func (w *Worker) writeProgress(ctx context.Context, j *job, p agentstatus.TaskProgress, now time.Time) {
	if err := w.o.Client.Progress(ctx, j.task.TaskID, p, now); err != nil {
		w.log.once("progress "+j.name, "task "+j.name+": write its progress: "+err.Error())
	}
}

// collectOrphans ends what dead workers have left running. It concludes their tasks if no daemon does.
func (w *Worker) collectOrphans(ctx context.Context, now time.Time) {
	if w.stopping {
		return
	}
	list, err := w.o.Client.Orphans(ctx, w.o.Agent, now)
	if err != nil {
		w.failed("look for what dead workers left", err)
		return
	}
	w.log.settled("look for what dead workers left")
	conclude := len(list) > 0 && !w.o.Supervised()
	for _, k := range list {
		if !w.orphans[k.Task] {
			w.orphans[k.Task] = true
			go w.endOrphan(ctx, k, conclude)
		}
	}
}

// endOrphan ends what still runs of a dead worker's task. Then it removes the claim of an ended task, or concludes the task.
func (w *Worker) endOrphan(ctx context.Context, k agentstatus.Claim, conclude bool) {
	ended, left := 0, 0
	if k.Mark != "" {
		ended, left, _ = proc.EndTree(ctx, proc.Identity(k.Runner), k.Mark, w.o.Stop)
		if left == 0 {
			w.runner.clearTemp(k.Mark)
		}
	}
	w.events <- func() {
		delete(w.orphans, k.Task)
		switch {
		case left > 0:
			w.log.once("orphan "+k.Task, fmt.Sprintf("task %s: its worker is gone, and %s of it cannot be ended", k.Task, terminal.Plural(left, "process")))
		case k.Ended:
			if err := w.o.Client.Forget(ctx, k, w.o.Now()); err != nil {
				w.failed("clear away a dead worker's claim", err)
			}
		case conclude:
			why := fmt.Sprintf("worker process %d of %s is gone, and with it this run", k.Worker.PID, k.Agent)
			if ended > 0 {
				why += fmt.Sprintf("; %d processes that were left of it were ended", ended)
			}
			if err := w.o.Client.Conclude(ctx, k, why, w.o.Now()); err == nil {
				w.log.say("task %s: %s", k.Task, why)
				w.scanNow = true
			}
		}
	}
}
