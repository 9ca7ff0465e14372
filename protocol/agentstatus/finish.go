package agentstatus

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Progress writes a task's progress file (protocol 000, Pattern 3). It rejects what the schema does not allow, such as a
// percentage outside 0 to 100, with an *InvalidError.
func (c *Client) Progress(ctx context.Context, id string, t TaskProgress, now time.Time) error {
	if t.At.IsZero() {
		t.At = now.UTC()
	}
	if err := checkProgress(t, now); err != nil {
		return err
	}
	return c.guarded(ctx, now, func() error {
		e := c.p.tasks.fresh(id)
		switch {
		case !e.exists():
			return ErrNoTask
		case e.result.There || e.record.cancelled:
			return ErrEnded
		}
		if t.Estimated.IsZero() { // the schema requires it
			t.Estimated = estimate(t, e.claim.Value.At, e.limit(), now)
		}
		return c.p.Put(e.progress.path, progressFile{id, t}, jsonfile.Volatile)
	})
}

// checkProgress reads a progress report as other clients will read it.
func checkProgress(t TaskProgress, now time.Time) error {
	if t.Percent != t.Percent {
		return &InvalidError{[]string{"progress_percent is not a number"}}
	}
	if t.Estimated.IsZero() {
		t.Estimated = now
	}
	doc, err := jsonfile.Encode(progressFile{"-", t})
	if err != nil {
		return fmt.Errorf("encode the progress: %w", err)
	}
	o, err := jsonfile.Parse(doc)
	if err != nil {
		return err
	}
	return invalid(texts(decodeProgress(o).issues))
}

// CheckResult reads a result document as other clients will read it. The error is an *InvalidError that lists every
// violation of the schema (protocol 000, Task Result Schema).
func CheckResult(doc []byte) error {
	o, err := jsonfile.Parse(doc)
	if err != nil {
		return invalid([]string{err.Error()})
	}
	return invalid(texts(decodeResult(o).issues))
}

func invalid(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return &InvalidError{problems}
}

// limit is the task's own timeout (protocol 000: 300 s by default, 3600 s at most).
func (e *entry) limit() time.Duration {
	if timeout := e.asked().Value.timeout; timeout > 0 {
		return min(timeout, time.Hour)
	}
	return 5 * time.Minute
}

// estimate extrapolates when the work will end at the pace so far. Without any progress, only the end of the task's
// timeout is known.
func estimate(t TaskProgress, since time.Time, limit time.Duration, now time.Time) time.Time {
	if since.IsZero() || since.After(now) {
		since = now
	}
	spent := now.Sub(since)
	if spent <= 0 || t.Percent <= 0 {
		end := since.Add(limit)
		if end.Before(now) {
			end = now
		}
		return end.UTC()
	}
	rest := float64(spent) * (100 - t.Percent) / t.Percent
	return now.Add(time.Duration(min(rest, float64(24*time.Hour)))).UTC()
}

// Finish writes a task's result, removes its claim, updates current_task.json and writes the log line. The first
// terminal result of a run stands. A later result is put on record as late and gives ErrEnded. So does a result that
// comes while steward holds the next run, or from a run that no longer has the claim. A result that steward itself
// wrote for a run it took for lost is replaced.
func (c *Client) Finish(ctx context.Context, id string, r Result, now time.Time) error {
	r.TaskID = id
	if r.Completed.IsZero() {
		r.Completed = now.UTC()
	}
	doc, err := jsonfile.Encode(r)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	return c.guarded(ctx, now, func() error {
		p := c.p
		e := p.tasks.fresh(id)
		if !e.exists() {
			endRun(p.state, e, r)
			return ErrNoTask
		}
		if k := &e.claim.Value; e.claim.Good && r.Mark == "" && k.Mark != "" && !c.abandoned(*k) {
			return fmt.Errorf("process %d of %s works on it: %w; cancel it instead", k.Worker.PID, k.Agent, ErrTaken)
		}
		if err := writeResult(p.state, e, r, doc); err != nil {
			if errors.Is(err, ErrEnded) {
				endRun(p.state, e, r)
			}
			return err
		}
		_ = p.Root.Remove(e.notice.path)
		endRun(p.state, e, r)
		event := "task_failed"
		if r.Status == "completed" {
			event = "task_completed"
		}
		p.log.say(event, id, r.Source, e.asked().Value.Source, r.Body.Summary)
		return nil
	})
}

// endRun removes the claim of a finished run, whichever result counts: its agent no longer has the task.
func endRun(s *state, e *entry, r Result) {
	if e.claim.There && (r.Mark == "" || e.claim.Value.Mark == r.Mark) {
		_ = s.Root.Remove(e.claim.path) // a claim that stays is removed later: the result decides
	}
	s.showCurrent(r.Source)
}

// writeResult writes the result, or files it as late.
func writeResult(s *state, e *entry, r Result, doc []byte) error {
	other := r.Mark != "" && e.claim.Good && e.claim.Value.Mark != r.Mark
	lost := r.Mark != "" && !e.claim.There && !e.result.There // its claim was archived: the attempt is over
	if other || lost || e.archivedResult.There && !e.askedAgain() {
		return s.attempts.fileTooLate(e, doc)
	}
	if e.betweenRuns() {
		return fmt.Errorf("run %d of it has its result; steward keeps back the next one until it is due: %w", e.record.last().N, s.attempts.fileTooLate(e, doc))
	}
	if e.stray { // make room for the result of the present attempt
		if err := s.attempts.archive(e.id, "late", e.result.path, e.result.Sum); err != nil {
			return err
		}
	}
	if !e.result.There { // the result was removed so that the task runs again
		if err := s.attempts.dropFirst(e); err != nil {
			return err
		}
	}
	err := s.Root.Create(e.result.path, doc, 0o644)
	if !errors.Is(err, jsonfile.ErrExist) {
		return err
	}
	if !e.result.Good || !e.result.Value.Ours || e.record.cancelled {
		return s.attempts.fileTooLate(e, doc)
	}
	return s.Replace(e.result.path, doc, e.result.Sum)
}

// fileTooLate files a result that no longer counts.
func (a *attempts) fileTooLate(e *entry, doc []byte) error {
	file, err := a.create(e.id, "late", doc, 0o644)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w; this result is kept in %s", ErrEnded, filepath.Join(Base, filepath.FromSlash(file)))
}

// Cancelled reports whether the task was cancelled, so that its runner should stop. It costs one stat.
func (c *Client) Cancelled(id string) bool {
	return plainID(id) && c.p.Open() == nil && c.p.Has(cancelledFile(id))
}

// Cancel ends a task for good, as the daemon does. It returns ErrNoTask, or ErrEnded if nothing is left to cancel.
func (c *Client) Cancel(ctx context.Context, id, why string, now time.Time) error {
	if !plainID(id) {
		return ErrNoTask
	}
	if err := c.open(now); err != nil {
		return err
	}
	switch e := c.p.tasks.fresh(id); {
	case !e.exists():
		return ErrNoTask
	case e.record.cancelled || e.result.There && e.record.pending == "":
		return ErrEnded
	}
	err := c.p.Apply(ctx, protocol.Change{Verb: protocol.VerbCancel, Reason: protocol.ReasonOperator, Why: folder.Line(why, maxText),
		Subject: protocol.Subject{Kind: protocol.KindTask, ID: id}}, now)
	if errors.Is(err, protocol.ErrConflict) {
		return ErrEnded
	}
	return err
}
