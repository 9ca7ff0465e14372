package agentstatus

import (
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// holding is one request that is being held.
type holding struct {
	change protocol.Change
	entry  *entry
	err    error
	over   bool // nothing is left to do
}

// holdAll hides requests from their agents (VerbHold), step by step for all of them. It writes the notices first, so
// that every held request has its reason beside it. Once the notices are on disk, it renames the requests. Then it
// checks whether an agent was quicker. Each step waits for the disk once.
func holdAll(s *state, list []protocol.Change) []error {
	all := make([]holding, len(list))
	var notices []string
	var noticed []*holding
	for i, c := range list {
		h := &all[i]
		h.change = c
		announceHold(s, h)
		if h.err == nil && !h.over {
			noticed, notices = append(noticed, h), append(notices, h.entry.notice.path)
		}
	}
	if len(noticed) > 0 {
		errs := s.Root.SyncFiles(notices)
		err := s.Root.SyncFolder(tasksDir)
		for i, h := range noticed {
			if h.err = errs[i]; err != nil {
				h.err = err
			}
		}
		hideAll(s, noticed)
	}
	errs := make([]error, len(all))
	for i := range all {
		errs[i] = all[i].err
	}
	return errs
}

// announceHold writes the notice of a hold, if the request may still be held.
func announceHold(s *state, h *holding) {
	e := s.tasks.fresh(h.change.Subject.ID)
	h.entry = e
	switch {
	case e.held.There && !e.request.There:
		h.over = true
	case e.held.There:
		h.err = folder.Moved("its request was written again while it was held")
	case !e.request.Good || string(e.request.Sum) != h.change.Ref.Sum:
		h.err = folder.Moved("the request is not the one that was judged")
	case e.result.There || e.begun() || e.claim.There:
		h.err = folder.Moved(protocol.AgentFirst)
	default:
		h.err = s.putNotice(h.change, jsonfile.Volatile)
	}
}

// hideAll renames the requests whose notices are on disk.
func hideAll(s *state, list []*holding) {
	renamed := false
	for _, h := range list {
		if h.err == nil {
			h.err = hide(s, h)
		}
		if h.err != nil {
			_ = s.Root.Remove(h.entry.notice.path, jsonfile.Volatile)
		}
		renamed = renamed || h.err == nil
	}
	if !renamed {
		return
	}
	err := s.Root.SyncFolder(tasksDir)
	for _, h := range list {
		if h.err != nil {
			continue
		}
		if h.err = err; err == nil {
			settleHold(s, h)
		}
	}
	s.log.flush()
}

// hide renames one request, unless its agent has started the task since it was judged.
func hide(s *state, h *holding) error {
	e := h.entry
	st, err := s.Root.Stat(e.progress.path)
	if s.Has(e.result.path) || err == nil && e.beganBy(st) {
		return folder.Moved(protocol.AgentFirst)
	}
	return s.Root.RenameIf(e.request.path, e.held.path, jsonfile.Sum(h.change.Ref.Sum), jsonfile.Volatile)
}

// settleHold undoes the hold of a request that its agent took at the moment of the rename: a running task is never
// held.
func settleHold(s *state, h *holding) {
	since := appeared(h.entry.request.Stamp)
	e := s.tasks.fresh(h.entry.id)
	if !e.result.There && !(e.progress.There && !e.progress.Stamp.ModTime().Before(since)) {
		s.log.enqueue("task_deferred", h.change)
		return
	}
	if h.err = s.show(e); h.err == nil {
		h.err = folder.Moved(protocol.AgentFirst)
	}
}

// putNotice writes the deferral notice of a hold.
func (s *state) putNotice(c protocol.Change, opts ...jsonfile.Option) error {
	n := notice{TaskID: c.Subject.ID, Status: "deferred", Reason: c.Hold, HeldBy: ourName, HeldAt: s.Now.UTC(),
		ReleaseBy: c.ReleaseBy.UTC(), Why: c.Why, Release: "steward release " + c.Subject.ID}
	if !c.Until.IsZero() {
		n.NotBefore = c.Until.UTC()
	}
	if wait := c.Until.Sub(s.Now); wait > 0 {
		n.RetryAfter = int64((wait + time.Second - 1) / time.Second)
	}
	if g := c.Gate; g != nil {
		n.Dimension, n.Threshold, n.Consumers = g.Dimension, g.Limit, g.Consumers
		if v, ok := g.Used.Value(); ok {
			n.Load = &v
		}
	}
	return s.Put(taskFile(c.Subject.ID, noticeExt), n, opts...)
}

// release makes a held task visible to agents again (VerbRelease). It compares nothing: a release is right whatever the
// request says now. A cancelled task gets its result first, because a crash may have cut that off.
func release(s *state, c protocol.Change) error {
	e := s.tasks.fresh(c.Subject.ID)
	o, _ := e.ended()
	endless := e.record.cancelled && o == nil && (e.held.Good || e.cancelledHalf())
	if !e.held.There && !e.notice.There && !endless {
		return nil
	}
	if endless {
		if err := endCancelled(s, e, c); err != nil {
			return err
		}
	}
	if e.held.There && c.Reason == protocol.ReasonOperator && c.Hold == protocol.HoldBlocked {
		// Record the release so that workers release the task too: they check the order of a chain themselves.
		err := s.PutOnce(freedFile(e.id), map[string]any{"task_id": e.id, "at": jsonfile.FormatTime(s.Now), "why": c.Why})
		if err != nil {
			return err
		}
	}
	if err := s.show(e); err != nil {
		return err
	}
	if e.held.There {
		s.log.report("task_released", c)
	}
	return nil
}

// releaseQuickly is release for a batch. When steward stops, it does not reread each task but only renames the request
// back. It rereads a cancelled task, because a crash may have cut off its result.
func releaseQuickly(s *state, c protocol.Change) error {
	e := s.tasks.open[c.Subject.ID]
	if c.Reason != protocol.ReasonStopping || e == nil || e.record.cancelled {
		return release(s, c)
	}
	was := s.Has(e.held.path)
	if err := s.show(e); err != nil {
		return err
	}
	if was {
		s.log.enqueue("task_released", c)
	}
	return nil
}

// show is release without the log. It restores the request first and removes the notice second: a crash in between
// leaves a visible task with an old notice, which the next scan removes. If a new request was written meanwhile, the
// new request stays and the held request is archived.
func (s *state) show(e *entry) error {
	if s.Has(e.held.path) {
		to := e.request.path
		if s.Has(to) {
			var err error
			if to, err = s.attempts.nextFree(e.id, "held"); err != nil {
				return err
			}
		}
		if err := s.Root.Rename(e.held.path, to, s.waits...); err != nil {
			return err
		}
	}
	if err := s.Root.Remove(e.notice.path, s.waits...); err != nil && !folder.Missing(err) {
		return err
	}
	return nil
}

// renew extends the lease in the notice (VerbRenew).
func renew(s *state, c protocol.Change) error {
	e := s.tasks.fresh(c.Subject.ID)
	if !e.held.There {
		return folder.Moved("it is no longer held")
	}
	if !e.notice.Good {
		c.Hold = protocol.HoldCapacity
		if k := e.record.last(); k != nil {
			c.Hold, c.Until = protocol.HoldRetry, k.Due
		}
		return s.putNotice(c, s.waits...)
	}
	return s.Update(e.notice.path, maxFile, func(old []byte) ([]byte, error) {
		return jsonfile.Edit(old, set(jsonfile.FormatTime(c.ReleaseBy), "release_by"))
	}, s.waits...)
}
