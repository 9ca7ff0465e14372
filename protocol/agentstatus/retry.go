package agentstatus

import (
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// retryTask takes a result away so that the task runs again (VerbRetry). A result ends the task for every poller, and
// clients archive it within seconds, so the order of the steps matters: record the schedule (the first writer wins),
// write the notice, hide the request, archive what the attempt left, and rename the result. This rename is the commit
// point. A crash before it leaves a result that is judged again and finds its schedule. A crash after it leaves a held
// request with its due time on record.
func retryTask(p *Project, c protocol.Change) error {
	e := p.tasks.fresh(c.Subject.ID)
	o, ref := e.ended()
	if o == nil || ref.Sum != c.Ref.Sum {
		blob, err := p.Root.Read(attemptFile(e.id, c.Attempt, "result"), maxFile)
		if err == nil && string(blob.Sum) == c.Ref.Sum {
			return resumeRetry(p, e, c)
		}
		return folder.Moved("the result is not the one that was judged")
	}
	due, timeout, err := planRetry(p, e, o, c)
	if err != nil {
		return err
	}
	if c.NoHold && p.Now.Before(due) {
		return nil
	}
	c.Until, c.Timeout = due, timeout
	// The notice comes first: on a full disk, no request is hidden without its reason beside it.
	if err := p.putNotice(c); err != nil {
		return err
	}
	if err := concealRequest(p, e, c); err != nil {
		return err
	}
	archiveAttempt(p, e, c.Attempt)
	if err := p.Root.RenameIf(ref.Path, attemptFile(e.id, c.Attempt, "result"), jsonfile.Sum(ref.Sum)); err != nil {
		return err
	}
	p.log.report("task_retried", c)
	if c.Code == "AGENT_LOST" {
		p.log.report(eventHandoff, c)
	}
	if p.Now.Before(due) {
		return nil
	}
	return p.show(e)
}

// resumeRetry completes a retry that was interrupted after its commit.
func resumeRetry(p *Project, e *entry, c protocol.Change) error {
	if k, ok := p.attempts.planned(e.id, c.Attempt); ok && e.held.There && !e.result.There && !p.Now.Before(k.attempt.Due) {
		return p.show(e)
	}
	return nil
}

// planRetry records the schedule of the attempt, or finds an earlier record of it, and returns its due time and timeout. An
// earlier record wins, so that no crash increases a timeout twice.
func planRetry(p *Project, e *entry, o *outcome, c protocol.Change) (time.Time, time.Duration, error) {
	if c.Attempt < 1 {
		return time.Time{}, 0, fmt.Errorf("retry of %s: attempt %d", e.id, c.Attempt)
	}
	doc, err := jsonfile.Encode(schedule{Version: recordVersion, TaskID: e.id, N: c.Attempt, Action: c.Action, Rule: c.Rule, Code: c.Code, Agent: c.Agent,
		TakenAt: p.Now.UTC(), Due: c.Until.UTC(), DueNano: c.Until.Nanosecond(), Timeout: c.Timeout.Seconds(), Ours: o.Ours, Twice: c.Twice, Why: c.Why,
		Result: c.Ref.Sum})
	if err == nil {
		err = p.Root.Create(attemptFile(e.id, c.Attempt, "sched"), doc, 0o644)
	}
	if !errors.Is(err, jsonfile.ErrExist) {
		return c.Until, c.Timeout, err
	}
	first, ok := p.attempts.planned(e.id, c.Attempt)
	switch {
	case !ok:
		err = folder.Moved("the schedule on record is gone")
	case first.attempt.Unread:
		err = folder.Moved("the schedule on record cannot be read for the moment")
	case first.attempt.Committed:
		err = folder.Moved("attempt %d is taken already", c.Attempt)
	case c.Rule == "operator", first.attempt.Due.IsZero():
		return c.Until, first.timeout, nil // an operator'p retry overrides the recorded due time
	default:
		err = nil
	}
	return first.attempt.Due, first.timeout, err
}

// concealRequest hides the request, with the next attempt's timeout in it. While the result still lies there, no poller
// takes the request, so creating the new file and removing the old file need not be one step.
// See docs/decisions.md, "A hold is a rename, never a result".
func concealRequest(p *Project, e *entry, c protocol.Change) error {
	if e.held.There {
		done, err := concealedAlready(p, e, c)
		if done || err != nil {
			return err
		}
	}
	from := &e.request
	if !from.There {
		from = &e.archived
	}
	if !from.Good {
		return fmt.Errorf("retry of %s: its request is gone", e.id)
	}
	if c.Timeout <= 0 {
		return p.Root.RenameIf(from.path, e.held.path, from.Sum)
	}
	blob, err := p.Root.Read(from.path, maxFile)
	if err != nil {
		return err
	}
	if blob.Sum != from.Sum {
		return folder.Moved("the request changed")
	}
	doc, err := withTimeout(blob.Data, c.Timeout)
	if err != nil {
		return err
	}
	if err := p.Root.Create(e.held.path, doc, blob.Stamp.Mode.Perm()); err != nil {
		return err
	}
	return p.Root.RemoveIf(from.path, from.Sum)
}

// concealedAlready handles a request that is already held: by an interrupted retry, or since before its result came. The
// original of the held request, visible or archived, is removed. If the visible request was rewritten instead, the
// held request is archived and conceal hides the new request in its place.
func concealedAlready(p *Project, e *entry, c protocol.Change) (done bool, err error) {
	for _, original := range []*doc[request]{&e.request, &e.archived} {
		if !original.Good {
			continue
		}
		blob, err := p.Root.Read(original.path, maxFile)
		if err != nil {
			return false, err
		}
		grown, err := withTimeout(blob.Data, c.Timeout)
		if err != nil {
			return false, err
		}
		switch {
		case jsonfile.SumOf(grown) == e.held.Sum || blob.Sum == e.held.Sum:
			return true, p.Root.RemoveIf(original.path, blob.Sum)
		case original == &e.request:
			return false, p.attempts.archive(e.id, "held", e.held.path, jsonfile.Any)
		}
	}
	return true, nil
}

// withTimeout sets the request's timeout; 0 leaves it. A timeout in its parameters (protocol 000, execute) grows in
// proportion: otherwise it would remain the smaller limit.
func withTimeout(request []byte, timeout time.Duration) ([]byte, error) {
	if timeout <= 0 {
		return request, nil
	}
	o, err := jsonfile.Parse(request)
	if err != nil {
		return nil, err
	}
	sets := []jsonfile.Set{set(int64(timeout/time.Second), "timeout_seconds")}
	payload, _ := o.Object("payload")
	parameters, _ := payload.Object("parameters")
	if inner, p := parameters.Number("timeout_seconds"); p.OK() && inner > 0 {
		whole, _ := o.Number("timeout_seconds")
		grown := max(inner, timeout.Seconds())
		if whole > 0 {
			grown = inner * timeout.Seconds() / whole
		}
		sets = append(sets, set(int64(min(max(grown, 1), 3600)), "payload", "parameters", "timeout_seconds"))
	}
	return jsonfile.Edit(request, sets...)
}

// archiveAttempt archives what belonged to the finished attempt: its progress and claim, and a dead letter,
// cancellation or first result that an operator's retry overrides. It runs before the commit, so that a crash leaves
// none of it behind.
func archiveAttempt(p *Project, e *entry, n int) {
	_ = p.Root.Rename(e.progress.path, attemptFile(e.id, n, "progress"))
	_ = p.Root.Rename(deadFile(e.id), attemptFile(e.id, n, "letter"))
	_ = p.Root.Rename(cancelledFile(e.id), attemptFile(e.id, n, "cancellation"))
	_ = p.Root.Rename(e.claim.path, attemptFile(e.id, n, "claim"))
	_ = p.attempts.dropFirst(e)
}
