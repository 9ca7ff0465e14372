package worker

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Delays before another attempt to write a result: the first, and the longest.
const (
	saveSoon = 250 * time.Millisecond
	saveSlow = 15 * time.Second
)

// conclude sets the result of a job. The job stays in hand until the result is written.
func (w *Worker) conclude(j *job, r agentstatus.Result) {
	j.halt(nil) // releases the context of an ended run
	r.TaskID, r.Source, r.Mark, r.Completed = j.task.TaskID, w.o.Agent, j.mark, w.o.Now().UTC()
	r.Status = cmp.Or(r.Status, statusFailed)
	r.Body.Success = r.Status == statusCompleted
	if r.Seconds == 0 {
		r.Seconds = seconds(max(r.Completed.Sub(j.began), 0))
	}
	if r.Body.Metrics == nil {
		r.Body.Metrics = map[string]any{}
	}
	r.Body.Artifacts = append([]string{}, r.Body.Artifacts...) // the document requires lists, even empty
	r.Body.Modified = append([]string{}, r.Body.Modified...)
	r.Errors = append([]agentstatus.TaskError{}, r.Errors...)
	r.Next = append([]agentstatus.NextAction{}, r.Next...)
	fit(&r)
	j.result, j.saveAt = &r, r.Completed
	w.scanNow = true
}

// deliver writes the results that are due. A result that cannot be written stays, and so does its claim: no other
// worker runs the task, and nothing is lost while this worker lives.
func (w *Worker) deliver(ctx context.Context, now time.Time) {
	for _, j := range w.inHand() {
		if j.result == nil || now.Before(j.saveAt) {
			continue
		}
		err := w.o.Client.Finish(ctx, j.task.TaskID, *j.result, now)
		switch {
		case err == nil:
			w.log.say("task %s: %s: %s", j.name, j.result.Status, j.result.Body.Summary)
		case errors.Is(err, agentstatus.ErrEnded):
			w.log.say("task %s: it ended without a report of this worker: %v", j.name, err)
		case errors.Is(err, agentstatus.ErrNoTask):
			w.log.say("task %s: its request is gone, and no client waits for the result (%s)", j.name, j.result.Status)
		default:
			w.unsaved(j, err, now)
			continue
		}
		w.tally.Last = j.result
		w.log.settled("write the result of " + j.name)
		delete(w.jobs, j.task.TaskID)
		w.diskFull, w.lastError, w.beatAt, w.scanNow = false, "", now, true
	}
}

// unsaved postpones a result. When the worker's time to stop is up, it logs the result as lost.
func (w *Worker) unsaved(j *job, err error, now time.Time) {
	j.tries++
	w.failed("write the result of "+j.name, err)
	if w.stopping && !now.Before(w.stopBy) {
		w.log.say("task %s: this result could not be written and is lost: %s: %s (%v). Its claim stays, and ends as AGENT_LOST",
			j.name, j.result.Status, j.result.Body.Summary, err)
		w.tally.Unsaved = append(w.tally.Unsaved, j.task.TaskID)
		w.tally.Last = j.result
		delete(w.jobs, j.task.TaskID)
		return
	}
	j.saveAt = now.Add(min(saveSoon<<min(j.tries-1, 10), saveSlow))
	if w.stopping && j.saveAt.After(w.stopBy) {
		j.saveAt = w.stopBy
	}
}

// roomFor bounds a result, in bytes: steward's readers refuse a result above 1 MiB.
const roomFor = 900 << 10

// fit shortens the output, then drops the metrics, until the result has room. Control characters take six bytes each in
// JSON.
func fit(r *agentstatus.Result) {
	for range 12 {
		doc, err := jsonfile.Encode(*r)
		if err != nil || len(doc) <= roomFor {
			return
		}
		if len(r.Body.Stdout)+len(r.Body.Stderr) < 4<<10 {
			break
		}
		r.Body.Stdout, r.Body.Stderr = lastHalf(r.Body.Stdout), lastHalf(r.Body.Stderr)
	}
	r.Body.Metrics = map[string]any{"left_out": "what the command reported was too long"}
}

func lastHalf(text string) string {
	if len(text) < 1<<10 {
		return text
	}
	return "[…]" + strings.ToValidUTF8(text[len(text)/2:], "")
}
