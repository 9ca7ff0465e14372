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
	case string(e.result.Sum) != c.Ref.Sum && s.attempts.onRecord(e.id, "late", jsonfile.Sum(c.Ref.Sum)):
		return nil
	default:
		err = s.attempts.archive(e.id, "late", c.Ref.Path, jsonfile.Sum(c.Ref.Sum))
	}
	if err == nil {
		s.log.report("result_late", c)
	}
	return err
}
