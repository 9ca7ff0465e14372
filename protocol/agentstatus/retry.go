package agentstatus

import (
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// retry takes a result away so that the task runs again. A result ends the task for every poller, and clients archive
// it within seconds, so the order of the steps matters: record the schedule (the first writer wins), write the
// notice, hide the request, archive what the attempt left, and rename the result. This rename is the commit point. A
// crash before it leaves a result that is judged again and finds its schedule. A crash after it leaves a held request
// with its due time on record.
func (p *Project) retry(c protocol.Change) error {
	e := p.fresh(c.Subject.ID)
	o, ref := e.ended()
	if o == nil || ref.Sum != c.Ref.Sum {
		if p.taken(e, c) {
			return p.goOn(e, c)
		}
		return folder.Moved("the result is not the one that was judged")
	}
	due, timeout, err := p.schedule(e, o, ref, c)
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
	if err := p.conceal(e, c); err != nil {
		return err
	}
	p.clearMarks(e, c.Attempt)
	if err := p.Root.RenameIf(ref.Path, attemptFile(e.id, c.Attempt, "result"), jsonfile.Sum(ref.Sum)); err != nil {
		return err
	}
	p.told("task_retried", c)
	if c.Code == "AGENT_LOST" {
		p.told(eventHandoff, c)
	}
	if p.Now.Before(due) {
		return nil
	}
	return p.show(e)
}

// taken reports whether this same result is already on record.
func (p *Project) taken(e *entry, c protocol.Change) bool {
	blob, err := p.Root.Read(attemptFile(e.id, c.Attempt, "result"), maxFile)
	return err == nil && string(blob.Sum) == c.Ref.Sum
}

// goOn completes a retry that was interrupted after its commit.
func (p *Project) goOn(e *entry, c protocol.Change) error {
	if s, ok := p.scheduled(e.id, c.Attempt); ok && e.held.There && !e.result.There && !p.Now.Before(s.taking.Due) {
		return p.show(e)
	}
	return nil
}

// schedule records the attempt, or finds an earlier record of it, and returns its due time and timeout. An earlier
// record wins, so that no crash increases a timeout twice.
func (p *Project) schedule(e *entry, o *outcome, ref protocol.Ref, c protocol.Change) (time.Time, time.Duration, error) {
	if c.Attempt < 1 {
		return time.Time{}, 0, fmt.Errorf("retry of %s: attempt %d", e.id, c.Attempt)
	}
	s := schedule{Version: recordVersion, TaskID: e.id, N: c.Attempt, Action: c.Action, Rule: c.Rule, Code: c.Code, Agent: c.Agent, TakenAt: p.Now.UTC(),
		Due: c.Until.UTC(), DueNano: c.Until.Nanosecond(), Timeout: c.Timeout.Seconds(), Ours: o.Ours, Twice: c.Twice, Why: c.Why, Result: ref.Sum}
	doc, err := jsonfile.Encode(s)
	if err != nil {
		return time.Time{}, 0, err
	}
	err = p.Root.Create(attemptFile(e.id, c.Attempt, "sched"), doc, 0o644)
	if err == nil {
		return c.Until, c.Timeout, nil
	}
	if !errors.Is(err, jsonfile.ErrExist) {
		return time.Time{}, 0, err
	}
	first, ok := p.scheduled(e.id, c.Attempt)
	switch {
	case !ok:
		return time.Time{}, 0, folder.Moved("the schedule on record is gone")
	case first.taking.Unread:
		return time.Time{}, 0, folder.Moved("the schedule on record cannot be read for the moment")
	case first.taking.Committed:
		return time.Time{}, 0, folder.Moved("attempt %d is taken already", c.Attempt)
	case c.Rule == "operator", first.taking.Due.IsZero():
		return c.Until, first.timeout, nil // an operator's retry overrides the recorded due time
	}
	return first.taking.Due, first.timeout, nil
}

// conceal hides the request, with the next attempt's timeout in it. While the result still lies there, no poller
// takes the request, so creating the new file and removing the old file need not be one step.
func (p *Project) conceal(e *entry, c protocol.Change) error {
	if e.held.There {
		done, err := p.concealed(e, c)
		if done || err != nil {
			return err
		}
	}
	from := &e.request
	file := e.files.request
	if !from.Good && !from.There {
		from, file = &e.archived, e.files.archived
	}
	if !from.Good {
		return fmt.Errorf("retry of %s: its request is gone", e.id)
	}
	if c.Timeout <= 0 {
		return p.Root.RenameIf(file, e.files.held, from.Sum)
	}
	blob, err := p.Root.Read(file, maxFile)
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
	if err := p.Root.Create(e.files.held, doc, blob.Stamp.Mode.Perm()); err != nil {
		return err
	}
	return p.Root.RemoveIf(file, from.Sum)
}

// withTimeout sets the request's timeout. A timeout in its parameters (protocol 000, execute) grows in proportion:
// otherwise it would remain the smaller limit.
func withTimeout(request []byte, timeout time.Duration) ([]byte, error) {
	o, err := jsonfile.Parse(request)
	if err != nil {
		return nil, err
	}
	sets := []jsonfile.Set{{Path: []string{"timeout_seconds"}, Value: int64(timeout / time.Second)}}
	payload, _ := o.Object("payload")
	parameters, _ := payload.Object("parameters")
	if inner, p := parameters.Number("timeout_seconds"); p.OK() && inner > 0 {
		whole, _ := o.Number("timeout_seconds")
		grown := max(inner, timeout.Seconds())
		if whole > 0 {
			grown = inner * timeout.Seconds() / whole
		}
		sets = append(sets, jsonfile.Set{Path: []string{"payload", "parameters", "timeout_seconds"}, Value: int64(min(max(grown, 1), 3600))})
	}
	return jsonfile.Edit(request, sets...)
}

// concealed handles a request that is already held: by an interrupted retry, or since before its result came. The
// original of the held request, visible or archived, is removed. If the visible request was rewritten instead, the
// held request is archived and conceal hides the new request in its place.
func (p *Project) concealed(e *entry, c protocol.Change) (done bool, err error) {
	for _, original := range []struct {
		r    *jsonfile.Reading[request]
		file string
	}{{&e.request, e.files.request}, {&e.archived, e.files.archived}} {
		if !original.r.Good {
			continue
		}
		blob, err := p.Root.Read(original.file, maxFile)
		if err != nil {
			return false, err
		}
		grown := blob.Data
		if c.Timeout > 0 {
			if grown, err = withTimeout(blob.Data, c.Timeout); err != nil {
				return false, err
			}
		}
		switch sum := jsonfile.SumOf(grown); {
		case sum == e.held.Sum || blob.Sum == e.held.Sum:
			return true, p.Root.RemoveIf(original.file, blob.Sum)
		case original.r == &e.request:
			file, err := p.nextFree(e.id, "held")
			if err == nil {
				err = p.Root.Rename(e.files.held, file)
			}
			return false, err
		}
	}
	return true, nil
}

// clearMarks archives what belonged to the finished attempt: its progress and claim, and a dead letter, cancellation
// or first result that an operator's retry overrides. It runs before the commit, so that a crash leaves none of it
// behind.
func (p *Project) clearMarks(e *entry, n int) {
	_ = p.Root.Rename(e.files.progress, attemptFile(e.id, n, "progress"))
	_ = p.Root.Rename(deadFile(e.id), attemptFile(e.id, n, "letter"))
	_ = p.Root.Rename(cancelledFile(e.id), attemptFile(e.id, n, "cancellation"))
	_ = p.Root.Rename(e.files.claim, attemptFile(e.id, n, "claim"))
	_ = p.dropFirst(e)
}
