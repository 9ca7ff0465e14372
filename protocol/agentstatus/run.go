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

// Claim takes a task. Exactly one of several claimants wins. A request that was meanwhile held, ended, changed or
// claimed gives ErrTaken. Claim writes current_task.json and logs the start of the task.
func (c *Client) Claim(ctx context.Context, w Work, k Claim, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		p := c.p
		e := p.tasks.fresh(w.TaskID)
		if !e.takeable() || string(e.request.Sum) != w.Sum {
			return ErrTaken
		}
		k.Task, k.At, k.Attempt = w.TaskID, now.UTC(), e.record.next()
		if err := p.Root.Mkdir(claimsDir, 0o755); err != nil {
			return err
		}
		doc, err := jsonfile.Encode(k.file())
		if err != nil {
			return err
		}
		if err := p.Root.Create(e.claim.path, doc, 0o644); err != nil {
			if errors.Is(err, jsonfile.ErrExist) {
				return ErrTaken
			}
			return err
		}
		p.showCurrent(k.Agent)
		p.log.say("task_started", k.Task, k.Agent, w.Source, fmt.Sprintf("%s begins attempt %d", k.Agent, k.Attempt))
		return nil
	})
}

// Attach adds the runner process to the claim of a task.
func (c *Client) Attach(ctx context.Context, id string, runner protocol.Identity, now time.Time) error {
	return c.claimed(ctx, id, now, func(k Claim) error {
		k.Runner = runner
		return c.p.Put(claimPath(id), k.file())
	})
}

// Unclaim gives back a claimed task of which nothing was executed.
func (c *Client) Unclaim(ctx context.Context, id string, now time.Time) error {
	return c.claimed(ctx, id, now, func(k Claim) error {
		if err := c.p.Root.Remove(claimPath(id)); err != nil {
			return err
		}
		c.p.showCurrent(k.Agent)
		c.p.log.say(eventReturned, id, k.Agent, "", k.Agent+" gives it back untouched")
		return nil
	})
}

// claimed runs act under the guard lock with the claim of a task.
func (c *Client) claimed(ctx context.Context, id string, now time.Time, act func(Claim) error) error {
	return c.guarded(ctx, now, func() error {
		k, err := c.p.claimOf(id)
		if err != nil {
			return err
		}
		return act(k)
	})
}

// Holds reports whether the task is claimed with that mark. A claim that cannot be read for the moment counts as
// held.
func (c *Client) Holds(id, mark string) bool {
	if c.p.Open() != nil {
		return true
	}
	k, err := c.p.claimOf(id)
	return err == nil && k.Mark == mark || err != nil && !errors.Is(err, ErrNoTask)
}

// Orphans lists the agent's claims whose processes are proved dead. Ended is set if the task has a result
// nevertheless: a crash came between the result and the removal of the claim, or another client wrote the result.
// Processes left over from such a run carry the Mark.
func (c *Client) Orphans(ctx context.Context, agent string, now time.Time) ([]Claim, error) {
	var list []Claim
	err := c.guarded(ctx, now, func() error {
		for _, k := range c.p.claims() {
			switch {
			case k.Agent != agent:
			case k.Ended && len(k.processes()) == 0:
				_ = c.p.Root.Remove(claimPath(k.Task)) // the agent worked by hand: no process is left
			case c.abandoned(k):
				list = append(list, k)
			}
		}
		return nil
	})
	return list, err
}

// Forget removes an orphaned claim whose task has ended.
func (c *Client) Forget(ctx context.Context, k Claim, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		if present, err := c.p.claimOf(k.Task); err != nil || present.Mark != k.Mark || !c.abandoned(present) || !c.p.over(k.Task) {
			return nil
		}
		return c.p.Root.Remove(claimPath(k.Task))
	})
}

// Conclude ends an orphaned task with AGENT_LOST where no daemon does.
func (c *Client) Conclude(ctx context.Context, k Claim, why string, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		p := c.p
		e := p.tasks.fresh(k.Task)
		if e.result.There || !e.claim.Good || e.claim.Value.Mark != k.Mark || !c.abandoned(e.claim.Value) {
			return ErrTaken
		}
		if err := p.synthesize(e, "AGENT_LOST", why, map[string]any{"may_have_run_twice": false, "lost_agent": k.Agent}); err != nil {
			return err
		}
		p.log.say("task_failed", k.Task, k.Agent, "", why)
		_ = p.Root.Remove(e.claim.path)
		p.showCurrent(k.Agent)
		return nil
	})
}

// showCurrent writes current_task.json: the agent's newest claimed task, and all its claimed tasks. Protocol 000
// defines no schema for the file; its name tells what pollers look for in it.
func (p *Project) showCurrent(agent string) {
	var doc struct {
		TaskID  *string   `json:"task_id"`
		Agent   string    `json:"agent_name"`
		Started time.Time `json:"started_at,omitzero"`
		Attempt int       `json:"attempt,omitzero"`
		Tasks   []string  `json:"active_tasks"`
		Updated time.Time `json:"updated_at"`
	}
	doc.Agent, doc.Updated = agent, p.Now
	for _, k := range p.activeClaims(agent) {
		if doc.TaskID == nil {
			doc.TaskID, doc.Started, doc.Attempt = &k.Task, k.At, k.Attempt
		}
		doc.Tasks = append(doc.Tasks, k.Task)
	}
	p.agents.read()
	_ = p.Put(currentFile(p.agents.dirOf(agent)), doc, jsonfile.Volatile) // for display only: the claim decides
}

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
			t.Estimated = estimateEnd(t, e.claim.Value.At, e.limit(), now)
		}
		return c.p.Put(e.progress.path, progressFile{id, t}, jsonfile.Volatile)
	})
}

// checkProgress reads a progress report as other clients will read it.
func checkProgress(t TaskProgress, now time.Time) error {
	if t.Percent != t.Percent {
		return &InvalidError{Problems: []string{"progress_percent is not a number"}}
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
	return folder.Invalid(texts(decodeProgress(o).issues))
}

// estimateEnd extrapolates when the work will end at the pace so far. Without any progress, only the end of the task's
// timeout is known.
func estimateEnd(t TaskProgress, since time.Time, limit time.Duration, now time.Time) time.Time {
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
			endRun(p, e, r)
			return ErrNoTask
		}
		if k := &e.claim.Value; e.claim.Good && r.Mark == "" && k.Mark != "" && !c.abandoned(*k) {
			return fmt.Errorf("process %d of %s works on it: %w; cancel it instead", k.Worker.PID, k.Agent, ErrTaken)
		}
		if err := writeResult(p, e, r, doc); err != nil {
			if errors.Is(err, ErrEnded) {
				endRun(p, e, r)
			}
			return err
		}
		_ = p.Root.Remove(e.notice.path)
		endRun(p, e, r)
		event := "task_failed"
		if r.Status == "completed" {
			event = "task_completed"
		}
		p.log.say(event, id, r.Source, e.asked().Value.Source, r.Body.Summary)
		return nil
	})
}

// endRun removes the claim of a finished run, whichever result counts: its agent no longer has the task.
func endRun(p *Project, e *entry, r Result) {
	if e.claim.There && (r.Mark == "" || e.claim.Value.Mark == r.Mark) {
		_ = p.Root.Remove(e.claim.path) // a claim that stays is removed later: the result decides
	}
	p.showCurrent(r.Source)
}

// writeResult writes the result, or files it as late.
func writeResult(p *Project, e *entry, r Result, doc []byte) error {
	other := r.Mark != "" && e.claim.Good && e.claim.Value.Mark != r.Mark
	lost := r.Mark != "" && !e.claim.There && !e.result.There // its claim was archived: the attempt is over
	if other || lost || e.archivedResult.There && !e.askedAgain() {
		return p.attempts.fileTooLate(e, doc)
	}
	if e.betweenRuns() {
		return fmt.Errorf("run %d of it has its result; steward keeps back the next one until it is due: %w", e.record.last().N, p.attempts.fileTooLate(e, doc))
	}
	if e.stray { // make room for the result of the present attempt
		if err := p.attempts.archive(e.id, "late", e.result.path, e.result.Sum); err != nil {
			return err
		}
	}
	if !e.result.There { // the result was removed so that the task runs again
		if err := p.attempts.dropFirst(e); err != nil {
			return err
		}
	}
	err := p.Root.Create(e.result.path, doc, 0o644)
	if !errors.Is(err, jsonfile.ErrExist) {
		return err
	}
	if !e.result.Good || !e.result.Value.Ours || e.record.cancelled {
		return p.attempts.fileTooLate(e, doc)
	}
	return p.Replace(e.result.path, doc, e.result.Sum)
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
