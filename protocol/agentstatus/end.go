package agentstatus

import (
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// bury puts the dead letter on record (VerbBury). The last result stays in place, where its orchestrator looks for it.
func bury(s *state, c protocol.Change) error {
	e := s.tasks.fresh(c.Subject.ID)
	if e.record.buried {
		return nil
	}
	if o, ref := e.ended(); o == nil || ref.Sum != c.Ref.Sum {
		return folder.Moved("the result is not the one that was judged")
	}
	letter := struct {
		TaskID   string    `json:"task_id"`
		At       time.Time `json:"at"`
		Agent    string    `json:"agent"`
		Code     string    `json:"code"`
		Rule     string    `json:"rule"`
		Attempts int       `json:"attempts"`
		Why      string    `json:"why"`
		Result   string    `json:"result"`
		Again    string    `json:"retry_command"`
	}{e.id, s.Now.UTC(), c.Agent, c.Code, c.Rule, 1, c.Why, c.Ref.Path, "steward retry " + e.id}
	for _, k := range e.record.committed() {
		if k.Action == protocol.ActionRetry {
			letter.Attempts++
		}
	}
	if err := s.attempts.recordFirst(e, c); err != nil {
		return err
	}
	if err := s.PutOnce(deadFile(e.id), letter); err != nil {
		return err
	}
	s.log.report("task_dead", c)
	return nil
}

// conclude writes the result that a lost agent cannot write (VerbConclude; protocol 000, Task Result Schema). It creates
// the file and never replaces another result: the agent that really ran the task may write first, or may replace this
// result later.
func conclude(s *state, c protocol.Change) error {
	e := s.tasks.fresh(c.Subject.ID)
	switch {
	case e.result.Good && e.result.Value.Ours:
		return nil
	case e.result.There:
		return folder.Moved("it has a result by now")
	case !e.request.Good:
		return folder.Moved("its request is not visible")
	case c.Ref.Sum != "" && string(e.request.Sum) != c.Ref.Sum:
		return folder.Moved("the request is not the one that was judged")
	case e.claim.There && string(e.claim.Sum) != c.Claim, !e.claim.There && c.Claim != "":
		return folder.Moved("it is in other hands by now")
	}
	err := s.synthesize(e, c.Code, c.Why, map[string]any{"may_have_run_twice": c.Twice, "lost_agent": c.Agent})
	if err == nil {
		s.log.report("agent_lost", c)
	}
	return err
}

// synthesize creates a failed result in steward's name.
func (s *state) synthesize(e *entry, code, why string, metrics map[string]any) error {
	doc, err := jsonfile.Encode(map[string]any{
		"task_id": e.id, "status": "failed", "source_agent": ourName, "completed_at": jsonfile.FormatTime(s.Now),
		"execution_time_seconds": 0, "capacity_used": 0,
		"result":       map[string]any{"success": false, "artifacts_created": []string{}, "files_modified": []string{}, "summary": why, "metrics": metrics},
		"errors":       []any{map[string]any{"code": code, "message": why, "severity": "error"}},
		"next_actions": []any{},
	})
	if err != nil {
		return err
	}
	err = s.Root.Create(e.result.path, doc, 0o644)
	if errors.Is(err, jsonfile.ErrExist) {
		return folder.Moved("its result came at this very moment")
	}
	return err
}

// cancel ends a task, or steward's retry of it, for good (VerbCancel). It writes the cancellation record first: from
// then on no rule retries the task, and the next release completes what a crash cuts off. The orchestrator finds a
// result: the previous result, restored, or a result with the code CANCELLED.
func cancel(s *state, c protocol.Change) error {
	e := s.tasks.fresh(c.Subject.ID)
	o, _ := e.ended()
	if o != nil && o.Succeeded() {
		return folder.Moved("it is completed")
	}
	done := e.record.cancelled && o != nil && !e.held.There && !e.notice.There
	if done || !e.exists() {
		return nil
	}
	err := s.PutOnce(cancelledFile(e.id), map[string]any{"task_id": e.id, "at": jsonfile.FormatTime(s.Now), "reason": string(c.Reason), "why": c.Why})
	if err == nil && o == nil && (e.held.There || e.request.There) {
		err = endCancelled(s, e, c)
	}
	if err == nil && (e.held.There || e.notice.There) {
		err = s.show(e)
	}
	if err == nil {
		s.log.report("task_cancelled", c)
	}
	return err
}

// endCancelled gives a cancelled task its result before its request becomes visible again.
func endCancelled(s *state, e *entry, c protocol.Change) error {
	if k := e.record.last(); k != nil && k.Committed && e.held.There && !k.Ours {
		err := s.Root.Rename(attemptFile(e.id, k.N, "result"), e.result.path)
		if err == nil || !folder.Missing(err) {
			return err
		}
	}
	return s.synthesize(e, "CANCELLED", c.Why, map[string]any{"cancelled": true})
}

// fileLate archives a late result (VerbFile); the first result stands.
func fileLate(s *state, c protocol.Change) error {
	e := s.tasks.fresh(c.Subject.ID)
	var err error
	switch {
	case e.overruled:
		err = s.attempts.restoreFirst(e, c)
	case c.Ref.Path != e.result.path:
		return fmt.Errorf("file %s: it is not the task's result in %s", c.Ref.Path, tasksDir)
	case string(e.result.Sum) != c.Ref.Sum && s.attempts.onRecord(e.id, "late", withSum(jsonfile.Sum(c.Ref.Sum))):
		return nil
	default:
		err = s.attempts.archive(e.id, "late", c.Ref.Path, jsonfile.Sum(c.Ref.Sum))
	}
	if err == nil {
		s.log.report("result_late", c)
	}
	return err
}

// retry takes a result away so that the task runs again (VerbRetry). A result ends the task for every poller, and
// clients archive it within seconds, so the order of the steps matters: record the schedule (the first writer wins),
// write the notice, hide the request, archive what the attempt left, and rename the result. This rename is the commit
// point. A crash before it leaves a result that is judged again and finds its schedule. A crash after it leaves a held
// request with its due time on record.
func retry(s *state, c protocol.Change) error {
	e := s.tasks.fresh(c.Subject.ID)
	o, ref := e.ended()
	if o == nil || ref.Sum != c.Ref.Sum {
		blob, err := s.Root.Read(attemptFile(e.id, c.Attempt, "result"), maxFile)
		if err == nil && string(blob.Sum) == c.Ref.Sum {
			return resume(s, e, c)
		}
		return folder.Moved("the result is not the one that was judged")
	}
	due, timeout, err := plan(s, e, o, c)
	if err != nil {
		return err
	}
	if c.NoHold && s.Now.Before(due) {
		return nil
	}
	c.Until, c.Timeout = due, timeout
	// The notice comes first: on a full disk, no request is hidden without its reason beside it.
	if err := s.putNotice(c); err != nil {
		return err
	}
	if err := conceal(s, e, c); err != nil {
		return err
	}
	archiveAttempt(s, e, c.Attempt)
	if err := s.Root.RenameIf(ref.Path, attemptFile(e.id, c.Attempt, "result"), jsonfile.Sum(ref.Sum)); err != nil {
		return err
	}
	s.log.report("task_retried", c)
	if c.Code == "AGENT_LOST" {
		s.log.report(eventHandoff, c)
	}
	if s.Now.Before(due) {
		return nil
	}
	return s.show(e)
}

// resume completes a retry that was interrupted after its commit.
func resume(s *state, e *entry, c protocol.Change) error {
	if p, ok := s.attempts.planned(e.id, c.Attempt); ok && e.held.There && !e.result.There && !s.Now.Before(p.attempt.Due) {
		return s.show(e)
	}
	return nil
}

// plan records the schedule of the attempt, or finds an earlier record of it, and returns its due time and timeout. An
// earlier record wins, so that no crash increases a timeout twice.
func plan(s *state, e *entry, o *outcome, c protocol.Change) (time.Time, time.Duration, error) {
	if c.Attempt < 1 {
		return time.Time{}, 0, fmt.Errorf("retry of %s: attempt %d", e.id, c.Attempt)
	}
	doc, err := jsonfile.Encode(schedule{Version: recordVersion, TaskID: e.id, N: c.Attempt, Action: c.Action, Rule: c.Rule, Code: c.Code, Agent: c.Agent,
		TakenAt: s.Now.UTC(), Due: c.Until.UTC(), DueNano: c.Until.Nanosecond(), Timeout: c.Timeout.Seconds(), Ours: o.Ours, Twice: c.Twice, Why: c.Why,
		Result: c.Ref.Sum})
	if err == nil {
		err = s.Root.Create(attemptFile(e.id, c.Attempt, "sched"), doc, 0o644)
	}
	if !errors.Is(err, jsonfile.ErrExist) {
		return c.Until, c.Timeout, err
	}
	first, ok := s.attempts.planned(e.id, c.Attempt)
	switch {
	case !ok:
		err = folder.Moved("the schedule on record is gone")
	case first.attempt.Unread:
		err = folder.Moved("the schedule on record cannot be read for the moment")
	case first.attempt.Committed:
		err = folder.Moved("attempt %d is taken already", c.Attempt)
	case c.Rule == "operator", first.attempt.Due.IsZero():
		return c.Until, first.timeout, nil // an operator's retry overrides the recorded due time
	default:
		err = nil
	}
	return first.attempt.Due, first.timeout, err
}

// conceal hides the request, with the next attempt's timeout in it. While the result still lies there, no poller
// takes the request, so creating the new file and removing the old file need not be one step.
// See docs/decisions.md, "A hold is a rename, never a result".
func conceal(s *state, e *entry, c protocol.Change) error {
	if e.held.There {
		done, err := concealed(s, e, c)
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
		return s.Root.RenameIf(from.path, e.held.path, from.Sum)
	}
	blob, err := s.Root.Read(from.path, maxFile)
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
	if err := s.Root.Create(e.held.path, doc, blob.Stamp.Mode.Perm()); err != nil {
		return err
	}
	return s.Root.RemoveIf(from.path, from.Sum)
}

// concealed handles a request that is already held: by an interrupted retry, or since before its result came. The
// original of the held request, visible or archived, is removed. If the visible request was rewritten instead, the
// held request is archived and conceal hides the new request in its place.
func concealed(s *state, e *entry, c protocol.Change) (done bool, err error) {
	for _, original := range []*doc[request]{&e.request, &e.archived} {
		if !original.Good {
			continue
		}
		blob, err := s.Root.Read(original.path, maxFile)
		if err != nil {
			return false, err
		}
		grown, err := withTimeout(blob.Data, c.Timeout)
		if err != nil {
			return false, err
		}
		switch {
		case jsonfile.SumOf(grown) == e.held.Sum || blob.Sum == e.held.Sum:
			return true, s.Root.RemoveIf(original.path, blob.Sum)
		case original == &e.request:
			return false, s.attempts.archive(e.id, "held", e.held.path, jsonfile.Any)
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
func archiveAttempt(s *state, e *entry, n int) {
	_ = s.Root.Rename(e.progress.path, attemptFile(e.id, n, "progress"))
	_ = s.Root.Rename(deadFile(e.id), attemptFile(e.id, n, "letter"))
	_ = s.Root.Rename(cancelledFile(e.id), attemptFile(e.id, n, "cancellation"))
	_ = s.Root.Rename(e.claim.path, attemptFile(e.id, n, "claim"))
	_ = s.attempts.dropFirst(e)
}
