package agentstatus

import (
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// buryTask puts the dead letter on record (VerbBury). The last result stays in place, where its orchestrator looks for it.
func buryTask(p *Project, c protocol.Change) error {
	e := p.tasks.fresh(c.Subject.ID)
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
	}{e.id, p.Now.UTC(), c.Agent, c.Code, c.Rule, 1, c.Why, c.Ref.Path, "steward retry " + e.id}
	for _, k := range e.record.committed() {
		if k.Action == protocol.ActionRetry {
			letter.Attempts++
		}
	}
	if err := p.attempts.recordFirst(e, c); err != nil {
		return err
	}
	if err := p.PutOnce(deadFile(e.id), letter); err != nil {
		return err
	}
	p.log.report("task_dead", c)
	return nil
}

// concludeTask writes the result that a lost agent cannot write (VerbConclude; protocol 000, Task Result Schema). It creates
// the file and never replaces another result: the agent that really ran the task may write first, or may replace this
// result later.
func concludeTask(p *Project, c protocol.Change) error {
	e := p.tasks.fresh(c.Subject.ID)
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
	err := p.synthesize(e, c.Code, c.Why, map[string]any{"may_have_run_twice": c.Twice, "lost_agent": c.Agent})
	if err == nil {
		p.log.report("agent_lost", c)
	}
	return err
}

// synthesize creates a failed result in steward's name.
func (p *Project) synthesize(e *entry, code, why string, metrics map[string]any) error {
	doc, err := jsonfile.Encode(map[string]any{
		"task_id": e.id, "status": "failed", "source_agent": ourName, "completed_at": jsonfile.FormatTime(p.Now),
		"execution_time_seconds": 0, "capacity_used": 0,
		"result":       map[string]any{"success": false, "artifacts_created": []string{}, "files_modified": []string{}, "summary": why, "metrics": metrics},
		"errors":       []any{map[string]any{"code": code, "message": why, "severity": "error"}},
		"next_actions": []any{},
	})
	if err != nil {
		return err
	}
	err = p.Root.Create(e.result.path, doc, 0o644)
	if errors.Is(err, jsonfile.ErrExist) {
		return folder.Moved("its result came at this very moment")
	}
	return err
}

// cancelTask ends a task, or steward's retry of it, for good (VerbCancel). It writes the cancellation record first: from
// then on no rule retries the task, and the next release completes what a crash cuts off. The orchestrator finds a
// result: the previous result, restored, or a result with the code CANCELLED.
func cancelTask(p *Project, c protocol.Change) error {
	e := p.tasks.fresh(c.Subject.ID)
	o, _ := e.ended()
	if o != nil && o.Succeeded() {
		return folder.Moved("it is completed")
	}
	done := e.record.cancelled && o != nil && !e.held.There && !e.notice.There
	if done || !e.exists() {
		return nil
	}
	err := p.PutOnce(cancelledFile(e.id), map[string]any{"task_id": e.id, "at": jsonfile.FormatTime(p.Now), "reason": string(c.Reason), "why": c.Why})
	if err == nil && o == nil && (e.held.There || e.request.There) {
		err = endCancelled(p, e, c)
	}
	if err == nil && (e.held.There || e.notice.There) {
		err = p.show(e)
	}
	if err == nil {
		p.log.report("task_cancelled", c)
	}
	return err
}

// endCancelled gives a cancelled task its result before its request becomes visible again.
func endCancelled(p *Project, e *entry, c protocol.Change) error {
	if k := e.record.last(); k != nil && k.Committed && e.held.There && !k.Ours {
		err := p.Root.Rename(attemptFile(e.id, k.N, "result"), e.result.path)
		if err == nil || !folder.Missing(err) {
			return err
		}
	}
	return p.synthesize(e, "CANCELLED", c.Why, map[string]any{"cancelled": true})
}

// fileLate archives a late result (VerbFile); the first result stands.
func fileLate(p *Project, c protocol.Change) error {
	e := p.tasks.fresh(c.Subject.ID)
	var err error
	switch {
	case e.overruled:
		err = p.attempts.restoreFirst(e, c)
	case c.Ref.Path != e.result.path:
		return fmt.Errorf("file %s: it is not the task's result in %s", c.Ref.Path, tasksDir)
	case string(e.result.Sum) != c.Ref.Sum && p.attempts.onRecord(e.id, "late", withSum(jsonfile.Sum(c.Ref.Sum))):
		return nil
	default:
		err = p.attempts.archive(e.id, "late", c.Ref.Path, jsonfile.Sum(c.Ref.Sum))
	}
	if err == nil {
		p.log.report("result_late", c)
	}
	return err
}

// recordResult puts the judged result on record (VerbRecord). If the change is about the request, it instead archives
// the record of a task whose result was removed so that the task runs again.
func recordResult(p *Project, c protocol.Change) error {
	e := p.tasks.fresh(c.Subject.ID)
	if c.Ref.Path == e.request.path {
		if !e.reopened() {
			return folder.Moved("it has a result by now")
		}
		return p.attempts.dropFirst(e)
	}
	if o, ref := e.ended(); o == nil || ref.Sum != c.Ref.Sum {
		return folder.Moved("the result is not the one that was judged")
	}
	return p.attempts.recordFirst(e, c)
}

// recordFirst writes the record, once, as the answer to the judged request.
func (a *attempts) recordFirst(e *entry, c protocol.Change) error {
	o, ref := e.ended()
	if o == nil || !e.unrecorded(o) {
		return nil
	}
	if err := a.dropFirst(e); err != nil { // of an older request
		return err
	}
	blob, err := a.unchanged(ref)
	if err != nil {
		return err
	}
	created := c.Created
	if string(e.asked().Sum) == c.Asked.Sum {
		created = e.created() // as written: the judged time is capped at the present
	}
	err = a.PutOnce(finalFile(e.id), finalOnDisk{Version: recordVersion, TaskID: e.id, Status: o.Status, Recorded: a.Now.UTC(),
		Request: c.Asked.Sum, Created: created, Sum: ref.Sum, Result: base64.StdEncoding.EncodeToString(blob.Data)})
	if err != nil {
		return err
	}
	e.record.first = a.readFirst(e.id, false)
	return nil
}

// unchanged reads the version of a result that was judged.
func (a *attempts) unchanged(ref protocol.Ref) (jsonfile.Blob, error) {
	blob, err := a.Root.Read(ref.Path, maxFile)
	if err == nil && string(blob.Sum) != ref.Sum {
		err = folder.Moved("the result changed")
	}
	return blob, err
}

// dropFirst archives the record under a number of its own.
func (a *attempts) dropFirst(e *entry) error {
	if !a.Has(finalFile(e.id)) {
		return nil
	}
	if err := a.archive(e.id, "final", finalFile(e.id), jsonfile.Any); err != nil {
		return err
	}
	e.record.first = firstResult{}
	return nil
}

// restoreFirst archives the later result that lies in the place of the first result, and restores the first result. It
// writes the copy before the replacement, and the replacement is one atomic rename: a crash loses neither result, and
// no poller finds the task open.
func (a *attempts) restoreFirst(e *entry, c protocol.Change) error {
	if d := e.present(); d == nil || d.ref() != c.Ref {
		return folder.Moved("the result is not the one that was judged")
	}
	blob, err := a.unchanged(c.Ref)
	if err != nil {
		return err
	}
	if !a.onRecord(e.id, "late", withSum(blob.Sum)) {
		if _, err := a.create(e.id, "late", blob.Data, 0o644); err != nil {
			return err
		}
	}
	return a.Replace(c.Ref.Path, e.record.first.data, blob.Sum)
}
