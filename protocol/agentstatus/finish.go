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

// Progress writes a task's progress file (protocol 000, Pattern 3). It rejects a percentage outside 0 to 100.
func (c *Client) Progress(ctx context.Context, id string, t TaskProgress, now time.Time) error {
	if t.Percent < 0 || t.Percent > 100 || t.Percent != t.Percent {
		return &InvalidError{[]string{fmt.Sprintf("progress_percent is %v, outside 0 to 100", t.Percent)}}
	}
	return c.guarded(ctx, now, func() error {
		e := c.p.fresh(id)
		switch {
		case !e.exists():
			return ErrNoTask
		case e.result.There || e.record.cancelled:
			return ErrEnded
		}
		if t.At.IsZero() {
			t.At = now.UTC()
		}
		if t.Estimated.IsZero() { // the schema requires it
			t.Estimated = estimate(t, e.claim.Value.At, e.limit(), now)
		}
		doc := struct {
			TaskID string `json:"task_id"`
			TaskProgress
		}{id, t}
		return c.p.put(e.files.progress, doc, jsonfile.Volatile)
	})
}

// limit is the task's own timeout (protocol 000: 300 s by default, 3600 s at most).
func (e *entry) limit() time.Duration {
	r, _ := e.asked()
	if r.timeout <= 0 {
		return 5 * time.Minute
	}
	return min(r.timeout, time.Hour)
}

// estimate extrapolates when the work will end at the pace so far. Without any progress, only the end of the task's
// timeout is known.
func estimate(t TaskProgress, since time.Time, limit time.Duration, now time.Time) time.Time {
	if since.IsZero() || since.After(now) {
		since = now
	}
	spent := now.Sub(since)
	if spent <= 0 || t.Percent <= 0 {
		return latest(since.Add(limit), now).UTC()
	}
	rest := float64(spent) * (100 - t.Percent) / t.Percent
	return now.Add(time.Duration(min(rest, float64(24*time.Hour)))).UTC()
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
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
		e := p.fresh(id)
		if !e.exists() {
			p.discharge(e, r)
			return ErrNoTask
		}
		if k := &e.claim.Value; e.claim.Good && r.Mark == "" && k.Mark != "" && !c.abandoned(*k) {
			return fmt.Errorf("process %d of %s works on it: %w; cancel it instead", k.Worker.PID, k.Agent, ErrTaken)
		}
		if err := p.conclusion(e, r, doc); err != nil {
			if errors.Is(err, ErrEnded) {
				p.discharge(e, r)
			}
			return err
		}
		_ = p.Root.Remove(e.files.notice)
		p.discharge(e, r)
		asked, _ := e.asked()
		p.say(endEvent(r.Status), id, r.Source, asked.source, r.Body.Summary)
		return nil
	})
}

// discharge removes the claim of a finished run, whichever result counts: its agent no longer has the task.
func (p *Project) discharge(e *entry, r Result) {
	if e.claim.There && (r.Mark == "" || e.claim.Value.Mark == r.Mark) {
		_ = p.Root.Remove(claimFile(e.id)) // a claim that stays is removed later: the result decides
	}
	p.showCurrent(r.Source)
}

func endEvent(status string) string {
	if status == "completed" {
		return "task_completed"
	}
	return "task_failed"
}

// conclusion writes the result, or files it as late.
func (p *Project) conclusion(e *entry, r Result, doc []byte) error {
	other := r.Mark != "" && e.claim.Good && e.claim.Value.Mark != r.Mark
	lost := r.Mark != "" && !e.claim.There && !e.result.There // its claim was archived: the attempt is over
	if other || lost || e.archivedResult.There && !e.asksAnew() {
		return p.tooLate(e, doc)
	}
	if e.betweenRuns() {
		return fmt.Errorf("run %d of it has its result; steward keeps back the next one until it is due: %w", e.record.last().N, p.tooLate(e, doc))
	}
	if e.stray {
		if err := p.fileStray(e); err != nil {
			return err
		}
	}
	if !e.result.There { // the result was removed so that the task runs again
		if err := p.dropFirst(e); err != nil {
			return err
		}
	}
	err := p.Root.Create(e.files.result, doc, 0o644)
	if !errors.Is(err, jsonfile.ErrExist) {
		return err
	}
	stands := &e.result
	if !stands.Good || !stands.Value.Ours || e.record.cancelled {
		return p.tooLate(e, doc)
	}
	late, err := p.Root.Replace(e.files.result, doc, stands.Sum)
	_ = late.Close()
	return err
}

// fileStray archives a stray result, to make room for the result of the present attempt.
func (p *Project) fileStray(e *entry) error {
	file, err := p.nextFree(e.id, "late")
	if err != nil {
		return err
	}
	return p.Root.RenameIf(e.files.result, file, e.result.Sum)
}

// betweenRuns reports whether the last run's result is on record and the next run is still held: a result that
// arrives now is a duplicate for that last run. The recorded result does not count if steward wrote it for a run it
// took for lost, or if it only postponed the task.
func (e *entry) betweenRuns() bool {
	k := e.record.last()
	return k != nil && k.Committed && k.Action == protocol.ActionRetry && !k.Ours &&
		e.held.There && !e.request.There && !e.claim.There && e.notice.Good && e.notice.Value.Reason == protocol.HoldRetry
}

// tooLate files a result that no longer counts.
func (p *Project) tooLate(e *entry, doc []byte) error {
	for range 3 { // two late results may come at once
		file, err := p.nextFree(e.id, "late")
		if err != nil {
			return err
		}
		if err = p.Root.Create(file, doc, 0o644); err == nil {
			return fmt.Errorf("%w; this result is kept in %s", ErrEnded, filepath.Join(Base, filepath.FromSlash(file)))
		}
		if !errors.Is(err, jsonfile.ErrExist) {
			return err
		}
	}
	return ErrEnded
}

// Cancelled reports whether the task was cancelled, so that its runner should stop. It costs one stat.
func (c *Client) Cancelled(id string) bool {
	return plainID(id) && c.p.Open() == nil && c.p.has(cancelledFile(id))
}

// Cancel ends a task for good, as the daemon does. It returns ErrNoTask, or ErrEnded if nothing is left to cancel.
func (c *Client) Cancel(ctx context.Context, id, why string, now time.Time) error {
	if !plainID(id) {
		return ErrNoTask
	}
	if err := c.open(now); err != nil {
		return err
	}
	c.p.probe(".", tasksDir, archiveDir, attemptsDir, claimsDir)
	switch e := c.p.fresh(id); {
	case !e.exists():
		return ErrNoTask
	case e.record.cancelled || e.result.There && e.record.pending == "":
		return ErrEnded
	}
	err := c.p.Apply(ctx, protocol.Change{Verb: protocol.VerbCancel, Reason: protocol.ReasonOperator, Why: folder.Line(why, maxWords),
		Subject: protocol.Subject{Kind: protocol.KindTask, ID: id}}, now)
	if errors.Is(err, protocol.ErrConflict) {
		return ErrEnded
	}
	return err
}
