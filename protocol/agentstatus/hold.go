package agentstatus

import (
	"cmp"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// holdTask hides a request from its agent (VerbHold). It writes the notice first, so that every held request has its reason
// beside it. After the rename it checks whether the agent was quicker: a running task is never held.
// See docs/decisions.md, "Holds, the ledger of protocol 000 and the event logs stay in their adapters".
func holdTask(p *Project, c protocol.Change) error {
	e := p.tasks.fresh(c.Subject.ID)
	switch {
	case e.held.There && !e.request.There:
		return nil
	case e.held.There:
		return folder.Moved("its request was written again while it was held")
	case !e.request.Good || string(e.request.Sum) != c.Ref.Sum:
		return folder.Moved("the request is not the one that was judged")
	case e.result.There || e.begun() || e.claim.There:
		return folder.Moved(protocol.AgentFirst)
	}
	since := appeared(e.request.Stamp)
	if err := p.putNotice(c, p.waits...); err != nil {
		return err
	}
	if err := p.Root.RenameIf(e.request.path, e.held.path, e.request.Sum, p.waits...); err != nil {
		_ = p.Root.Remove(e.notice.path, p.waits...)
		return err
	}
	e = p.tasks.fresh(e.id)
	if e.result.There || e.progress.There && !e.progress.Stamp.ModTime().Before(since) {
		return cmp.Or(p.show(e), folder.Moved(protocol.AgentFirst))
	}
	p.log.report("task_deferred", c)
	return nil
}

// putNotice writes the deferral notice of a hold.
func (p *Project) putNotice(c protocol.Change, opts ...jsonfile.Option) error {
	n := notice{TaskID: c.Subject.ID, Status: "deferred", Reason: c.Hold, HeldBy: ourName, HeldAt: p.Now.UTC(),
		ReleaseBy: c.ReleaseBy.UTC(), Why: c.Why, Release: "steward release " + c.Subject.ID}
	if !c.Until.IsZero() {
		n.NotBefore = c.Until.UTC()
	}
	if wait := c.Until.Sub(p.Now); wait > 0 {
		n.RetryAfter = int64((wait + time.Second - 1) / time.Second)
	}
	if g := c.Gate; g != nil {
		n.Dimension, n.Threshold, n.Consumers = g.Dimension, g.Limit, g.Consumers
		if v, ok := g.Used.Value(); ok {
			n.Load = &v
		}
	}
	return p.Put(taskFile(c.Subject.ID, noticeExt), n, opts...)
}

// releaseTask makes a held task visible to agents again (VerbRelease). It compares nothing: a release is right whatever the
// request says now. A cancelled task gets its result first, because a crash may have cut that off.
func releaseTask(p *Project, c protocol.Change) error {
	e := p.tasks.fresh(c.Subject.ID)
	o, _ := e.ended()
	endless := e.record.cancelled && o == nil && (e.held.Good || e.cancelledHalf())
	if !e.held.There && !e.notice.There && !endless {
		return nil
	}
	if endless {
		if err := endCancelled(p, e, c); err != nil {
			return err
		}
	}
	if e.held.There && c.Reason == protocol.ReasonOperator && c.Hold == protocol.HoldBlocked {
		// Record the release so that workers release the task too: they check the order of a chain themselves.
		err := p.PutOnce(freedFile(e.id), map[string]any{"task_id": e.id, "at": jsonfile.FormatTime(p.Now), "why": c.Why})
		if err != nil {
			return err
		}
	}
	if err := p.show(e); err != nil {
		return err
	}
	if e.held.There {
		p.log.report("task_released", c)
	}
	return nil
}

// show is release without the log. It restores the request first and removes the notice second: a crash in between
// leaves a visible task with an old notice, which the next scan removes. If a new request was written meanwhile, the
// new request stays and the held request is archived.
func (p *Project) show(e *entry) error {
	if p.Has(e.held.path) {
		to := e.request.path
		if p.Has(to) {
			var err error
			if to, err = p.attempts.nextFree(e.id, "held"); err != nil {
				return err
			}
		}
		if err := p.Root.Rename(e.held.path, to, p.waits...); err != nil {
			return err
		}
	}
	if err := p.Root.Remove(e.notice.path, p.waits...); err != nil && !folder.Missing(err) {
		return err
	}
	return nil
}

// renewHold extends the lease in the notice (VerbRenew).
func renewHold(p *Project, c protocol.Change) error {
	e := p.tasks.fresh(c.Subject.ID)
	if !e.held.There {
		return folder.Moved("it is no longer held")
	}
	if !e.notice.Good {
		c.Hold = protocol.HoldCapacity
		if k := e.record.last(); k != nil {
			c.Hold, c.Until = protocol.HoldRetry, k.Due
		}
		return p.putNotice(c, p.waits...)
	}
	return p.Update(e.notice.path, maxFile, func(old []byte) ([]byte, error) {
		return jsonfile.Edit(old, set(jsonfile.FormatTime(c.ReleaseBy), "release_by"))
	}, p.waits...)
}
