package role

import (
	"context"
	"errors"
	"time"

	"github.com/livhana/steward/join/worker"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
)

// Delays before another attempt to write a report: the first, and the longest.
const (
	saveSoon = 250 * time.Millisecond
	saveSlow = 15 * time.Second
)

// conclude handles the end of a run. What the run has reported itself stands.
func (r *Runner) conclude(ctx context.Context, j *taken, e worker.Ended) {
	id, now := j.task.ID, r.o.Now()
	j.halt(nil) // releases the context of an ended run
	j.endBy, r.scanNow = time.Time{}, true
	t, err := r.o.Participant.Show(ctx, id, now)
	switch {
	case errors.Is(err, protocol.ErrNoTask), errors.Is(err, protocol.ErrAbsent):
		r.say("task %s: its files are gone, so nothing is reported", id)
	case err == nil && r.isOther(t.Worker):
		r.say("task %s: another process has it now, so nothing is reported", id)
	case err == nil && t.State != j.accepted:
		r.say("task %s: its run reported by itself: %s", id, t.State)
		r.tally.Failed = t.State == protocol.TaskFailed || t.State == protocol.TaskDead
	default:
		rep := r.reportOf(e)
		j.report, j.saveAt = &rep, now
		return
	}
	delete(r.jobs, id)
}

// deliver writes the reports that are due. A report that cannot be written is tried again while the Runner lives; its task
// stays in hand, so that no other run of it begins.
func (r *Runner) deliver(ctx context.Context, now time.Time) {
	for id, j := range r.jobs {
		if j.report == nil || now.Before(j.saveAt) {
			continue
		}
		receipt, err := r.o.Participant.Report(ctx, id, *j.report, now)
		var invalid *protocol.InvalidError
		switch {
		case err == nil:
			r.say("task %s: %s: %s", id, j.report.Kind, terminal.Fit(terminal.Clean(j.report.Summary), 200))
			if receipt.Note != "" {
				r.say("task %s: %s", id, receipt.Note)
			}
			r.tally.Failed = j.report.Kind == protocol.ReportFailed
		case errors.Is(err, protocol.ErrEnded), errors.Is(err, protocol.ErrNoTask), errors.Is(err, protocol.ErrTaken), errors.Is(err, protocol.ErrAbsent):
			r.say("task %s: it ended without a report of this worker: %v", id, err)
		case errors.As(err, &invalid) && j.report.Kind != protocol.ReportFailed:
			f := failure("EXECUTION_FAILED", "what the run printed does not fit the protocol: "+invalid.Error())
			j.report = &protocol.Report{Kind: protocol.ReportFailed, Agent: r.o.Role, Summary: f.Message, Failure: f}
			r.scanNow = true // write it in the next step
			continue
		default:
			r.unsaved(j, err, now)
			continue
		}
		delete(r.told, "report "+id)
		delete(r.jobs, id)
		r.scanNow = true
	}
}

// unsaved postpones a report. When the time to stop is up, the report is lost: the end of this process then counts as the
// end of the run.
func (r *Runner) unsaved(j *taken, err error, now time.Time) {
	id := j.task.ID
	j.tries++
	r.once("report "+id, "write the report of task "+id+": "+err.Error())
	if r.stopping && !now.Before(r.stopBy) {
		r.say("task %s: this report could not be written and is lost: %s: %s", id, j.report.Kind, j.report.Summary)
		r.tally.Unsaved = append(r.tally.Unsaved, id)
		delete(r.jobs, id)
		return
	}
	j.saveAt = now.Add(min(saveSoon<<min(j.tries-1, 10), saveSlow))
	if r.stopping && j.saveAt.After(r.stopBy) {
		j.saveAt = r.stopBy
	}
}

// mostRounds bounds how often the orchestrator acts in a row: a document's flow has a few steps at a time.
const mostRounds = 1000

// orchestrate plays the orchestrator by the document's rules.
func (r *Runner) orchestrate(ctx context.Context) error {
	o, ok := r.o.Participant.(protocol.Orchestrator)
	if !ok {
		return errors.New("no command is given, and steward cannot play this role in protocol " + r.o.Protocol + "; without a command it plays only an orchestrator whose steps follow from the document")
	}
	base := context.WithoutCancel(ctx)
	for {
		steps, err := []protocol.Receipt{{}}, error(nil)
		for n := 0; n < mostRounds && len(steps) > 0 && err == nil && ctx.Err() == nil; n++ {
			steps, err = o.Orchestrate(base, r.o.Now())
			for _, s := range steps {
				r.tally.Taken++
				r.say("task %s: %s %s", s.ID, s.State, s.Note)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case r.o.Drain || r.o.Once:
			return err
		case err != nil:
			r.once("orchestrate", "orchestrate: "+err.Error())
		}
		timer := time.NewTimer(r.o.Poll)
		select {
		case <-ctx.Done():
		case <-r.o.Hints:
		case <-timer.C:
		}
		timer.Stop()
	}
}
