package worker

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol/agentstatus"
)

// beat writes the heartbeat when it is due: at intervals, and at each change.
func (w *Worker) beat(now time.Time) {
	if now.Before(w.beatAt) {
		return
	}
	w.beatAt = now.Add(w.o.Beat)
	w.heed()
	free := w.free()
	b := agentstatus.Beat{Status: "idle", Uptime: now.Sub(w.started), Free: &free, LastError: w.trouble, DiskFull: w.diskFull}
	if len(w.jobs) > 0 {
		b.Status = "busy"
	}
	if err := w.o.Client.Beat(w.o.Agent, b, now); err != nil {
		w.once("beat", "beat: "+err.Error())
		w.diskFull = w.diskFull || outOfSpace(err)
		return
	}
	w.calm("beat")
}

// free is the worker's own capacity (protocol 000: current_capacity); the load of the machine is not its concern. Even
// with all jobs in use it reports at most 0.8 as used, the usual threshold: otherwise the gate would refuse the next
// task.
func (w *Worker) free() float64 {
	used := 0.8 * float64(len(w.jobs)) / float64(w.o.Jobs)
	return math.Round((1-used)*1000) / 1000
}

// heed stops the jobs whose task was cancelled or whose claim is gone.
func (w *Worker) heed() {
	for _, j := range w.jobs {
		if j.result != nil || j.halted() != haltNone {
			continue
		}
		if w.o.Client.Cancelled(j.task.TaskID) {
			w.say("task %s: cancelled; %s is stopped", j.name, j.plan.name)
			j.halt(haltCancelled)
		} else if !w.o.Client.Holds(j.task.TaskID, j.mark) {
			w.say("task %s: its claim is gone, so somebody else may run it; %s is stopped", j.name, j.plan.name)
			j.halt(haltDisowned)
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
		first := j.said.Step == ""
		j.reportAt = now.Add(every)
		p, wait := w.progress(ctx, j, first, every, now)
		if wait > 0 {
			j.reportAt = now.Add(wait)
			continue
		}
		if err := w.o.Client.Progress(ctx, j.task.TaskID, p, now); err != nil {
			w.once("progress "+j.name, "task "+j.name+": write its progress: "+err.Error())
		}
	}
}

// progress is the next progress of a job. The command's own last report is repeated with a new time. While that report
// is younger than an interval, it is left alone for the time wait.
func (w *Worker) progress(ctx context.Context, j *job, first bool, every time.Duration, now time.Time) (p agentstatus.TaskProgress, wait time.Duration) {
	// Total 1: the command is the only step.
	p = agentstatus.TaskProgress{Step: fmt.Sprintf("running %s, %s", j.plan.name, span(now.Sub(j.began))), Total: 1}
	if !first {
		d, err := w.o.Client.Task(ctx, j.task.TaskID, now)
		ofThisRun := err == nil && d.Progress != nil && !d.Progress.At.Before(j.began.Truncate(time.Second))
		if ofThisRun && d.Progress.Step != j.said.Step {
			if age := now.Sub(d.Progress.At); age >= 0 && age < every && !d.Progress.At.Equal(j.said.At) {
				return p, every - age
			}
			p = *d.Progress
			j.said.At = now.UTC().Truncate(time.Second) // the file holds whole seconds
			p.At = time.Time{}
			return p, 0
		}
	}
	j.said = p
	return p, 0
}

// collect ends what dead workers have left running. It concludes their tasks if no daemon does.
func (w *Worker) collect(ctx context.Context, now time.Time) {
	if w.stopping {
		return
	}
	list, err := w.o.Client.Orphans(ctx, w.o.Agent, now)
	if err != nil {
		w.fret("look for what dead workers left", err)
		return
	}
	w.calm("look for what dead workers left")
	conclude := len(list) > 0 && !w.o.Supervised()
	for _, k := range list {
		if _, busy := w.lost[k.Task]; busy {
			continue
		}
		w.lost[k.Task] = struct{}{}
		w.chores++
		go w.bury(ctx, k, conclude)
	}
}

// bury ends what still runs of a dead worker's task. Then it removes the claim of an ended task, or concludes the task.
func (w *Worker) bury(ctx context.Context, k agentstatus.Claim, conclude bool) {
	ended, left := 0, 0
	if k.Mark != "" {
		ended, left, _ = proc.EndTree(ctx, proc.Identity(k.Runner), k.Mark, w.o.Stop)
		if left == 0 {
			w.clearTemp(k.Mark)
		}
	}
	w.events <- func() {
		w.chores--
		delete(w.lost, k.Task)
		if left > 0 {
			w.once("orphan "+k.Task, fmt.Sprintf("task %s: its worker is gone, and %s of it cannot be ended", k.Task, plural(left, "process")))
			return
		}
		if k.Ended {
			if err := w.o.Client.Forget(ctx, k, w.o.Now()); err != nil {
				w.fret("clear away a dead worker's claim", err)
			}
			return
		}
		if !conclude {
			return
		}
		why := fmt.Sprintf("worker process %d of %s is gone, and with it this run", k.Worker.PID, k.Agent)
		if ended > 0 {
			why += fmt.Sprintf("; %d processes that were left of it were ended", ended)
		}
		if err := w.o.Client.Conclude(ctx, k, why, w.o.Now()); err == nil {
			w.say("task %s: %s", k.Task, why)
			w.look = true
		}
	}
}
