package agentstatus

import (
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// bury puts the dead letter on record. The last result stays in place, where its orchestrator looks for it.
func (p *Project) bury(c protocol.Change) error {
	e := p.fresh(c.Subject.ID)
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
	}{c.Subject.ID, p.Now.UTC(), c.Agent, c.Code, c.Rule, 1, c.Why, c.Ref.Path, "steward retry " + c.Subject.ID}
	for _, k := range e.record.takings {
		if k.Committed && k.Action == protocol.ActionRetry {
			letter.Attempts++
		}
	}
	doc, err := jsonfile.Encode(letter)
	if err != nil {
		return err
	}
	if err := p.recordFirst(e, c); err != nil {
		return err
	}
	if err := p.Root.Create(deadFile(c.Subject.ID), doc, 0o644); err != nil && !errors.Is(err, jsonfile.ErrExist) {
		return err
	}
	p.told("task_dead", c)
	return nil
}

// conclude writes the result that a lost agent cannot write (protocol 000, Task Result Schema). It creates the file
// and never replaces another result: the agent that really ran the task may write first, or may replace this result
// later.
func (p *Project) conclude(c protocol.Change) error {
	e := p.fresh(c.Subject.ID)
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
	err := p.synthesize(e, c, map[string]any{"may_have_run_twice": c.Twice, "lost_agent": c.Agent})
	if err == nil {
		p.told("agent_lost", c)
	}
	return err
}

func (p *Project) synthesize(e *entry, c protocol.Change, metrics map[string]any) error {
	doc, err := jsonfile.Encode(map[string]any{
		"task_id": e.id, "status": "failed", "source_agent": ourName, "completed_at": jsonfile.FormatTime(p.Now),
		"execution_time_seconds": 0, "capacity_used": 0,
		"result":       map[string]any{"success": false, "artifacts_created": []string{}, "files_modified": []string{}, "summary": c.Why, "metrics": metrics},
		"errors":       []any{map[string]any{"code": c.Code, "message": c.Why, "severity": "error"}},
		"next_actions": []any{},
	})
	if err != nil {
		return err
	}
	err = p.Root.Create(e.files.result, doc, 0o644)
	if errors.Is(err, jsonfile.ErrExist) {
		return folder.Moved("its result came at this very moment")
	}
	return err
}

// cancel ends a task, or steward's retry of it, for good. It writes the cancellation record first: from then on no
// rule retries the task, and the next release completes what a crash cuts off. The orchestrator finds a result: the
// previous result, restored, or a result with the code CANCELLED.
func (p *Project) cancel(c protocol.Change) error {
	e := p.fresh(c.Subject.ID)
	o, _ := e.ended()
	if o != nil && o.Succeeded() {
		return folder.Moved("it is completed")
	}
	done := e.record.cancelled && o != nil && !e.held.There && !e.notice.There
	if done || !e.exists() {
		return nil
	}
	doc, err := jsonfile.Encode(map[string]any{"task_id": e.id, "at": jsonfile.FormatTime(p.Now), "reason": string(c.Reason), "why": c.Why})
	if err != nil {
		return err
	}
	if err := p.Root.Create(cancelledFile(e.id), doc, 0o644); err != nil && !errors.Is(err, jsonfile.ErrExist) {
		return err
	}
	if o == nil && (e.held.There || e.request.There) {
		if err := p.endIt(e, c); err != nil {
			return err
		}
	}
	if e.held.There || e.notice.There {
		if err := p.show(e); err != nil {
			return err
		}
	}
	p.told("task_cancelled", c)
	return nil
}

// endIt gives a cancelled task its result before its request becomes visible again.
func (p *Project) endIt(e *entry, c protocol.Change) error {
	if k := e.record.last(); k != nil && k.Committed && e.held.There && !k.Ours {
		err := p.Root.Rename(attemptFile(e.id, k.N, "result"), e.files.result)
		if err == nil || !folder.Missing(err) {
			return err
		}
	}
	c.Code, c.Agent = "CANCELLED", ourName
	return p.synthesize(e, c, map[string]any{"cancelled": true})
}

// file archives a late result; the first result stands.
func (p *Project) file(c protocol.Change) error {
	e := p.fresh(c.Subject.ID)
	if e.overruled {
		return p.putBack(e, c)
	}
	if c.Ref.Path != e.files.result {
		return fmt.Errorf("file %s: it is not the task's result in %s", c.Ref.Path, tasksDir)
	}
	if string(e.result.Sum) != c.Ref.Sum && p.onRecord(e.id, "late", jsonfile.Sum(c.Ref.Sum)) {
		return nil
	}
	target, err := p.nextFree(e.id, "late")
	if err != nil {
		return err
	}
	if err := p.Root.RenameIf(c.Ref.Path, target, jsonfile.Sum(c.Ref.Sum)); err != nil {
		return err
	}
	p.told("result_late", c)
	return nil
}

// onRecord reports whether the ledger contains a file of that kind with that content.
func (p *Project) onRecord(id, kind string, sum jsonfile.Sum) bool {
	for n := 1; n <= maxAttempts; n++ {
		blob, err := p.Root.Read(attemptFile(id, n, kind), maxFile)
		if err != nil {
			return false
		}
		if blob.Sum == sum {
			return true
		}
	}
	return false
}
