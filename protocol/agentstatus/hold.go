package agentstatus

import (
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// hold hides a request from its agent.
func (p *Project) hold(c protocol.Change) error { return p.holdAll([]protocol.Change{c})[0] }

// holding is one request that is being held.
type holding struct {
	change protocol.Change
	entry  *entry
	err    error
	over   bool // nothing is left to do
}

// holdAll hides requests from their agents, step by step for all of them. It writes the notices first, so that every
// held request has its reason beside it. Once the notices are on disk, it renames the requests. Then it checks
// whether an agent was quicker. Each step waits for the disk once.
func (p *Project) holdAll(changes []protocol.Change) []error {
	list := make([]holding, len(changes))
	var notices []string
	var noticed []*holding
	for i, c := range changes {
		h := &list[i]
		h.change = c
		p.announceHold(h)
		if h.err == nil && !h.over {
			noticed, notices = append(noticed, h), append(notices, h.entry.files.notice)
		}
	}
	if len(noticed) > 0 {
		p.hideAll(noticed, p.syncNotices(notices))
	}
	errs := make([]error, len(list))
	for i := range list {
		errs[i] = list[i].err
	}
	return errs
}

// announceHold writes the notice of a hold, if the request may still be held.
func (p *Project) announceHold(h *holding) {
	e := p.fresh(h.change.Subject.ID)
	h.entry = e
	switch {
	case e.held.There && !e.request.There:
		h.over = true
	case e.held.There:
		h.err = folder.Moved("its request was written anew while it was held")
	case !e.request.Good || string(e.request.Sum) != h.change.Ref.Sum:
		h.err = folder.Moved("the request is not the one that was judged")
	case e.result.There || e.inHand() || e.claim.There:
		h.err = folder.Moved(protocol.AgentFirst)
	default:
		h.err = p.putNotice(h.change, jsonfile.Volatile)
	}
}

// syncNotices syncs the notices and their names to disk.
func (p *Project) syncNotices(files []string) []error {
	errs := p.Root.SyncFiles(files)
	if err := p.Root.SyncFolder(tasksDir); err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

// hideAll renames the requests whose notices are on disk.
func (p *Project) hideAll(list []*holding, synced []error) {
	renamed := false
	for i, h := range list {
		if h.err = synced[i]; h.err == nil {
			h.err = p.hide(h)
		}
		if h.err != nil {
			_ = p.Root.Remove(h.entry.files.notice, jsonfile.Volatile)
		}
		renamed = renamed || h.err == nil
	}
	if !renamed {
		return
	}
	err := p.Root.SyncFolder(tasksDir)
	for _, h := range list {
		switch {
		case h.err != nil:
		case err != nil:
			h.err = err
		default:
			p.settleHold(h)
		}
	}
	p.tellAll()
}

// hide renames one request, unless its agent has started the task since it was judged.
func (p *Project) hide(h *holding) error {
	e := h.entry
	if p.has(e.files.result) || p.begun(e) {
		return folder.Moved(protocol.AgentFirst)
	}
	return p.Root.RenameIf(e.files.request, e.files.held, jsonfile.Sum(h.change.Ref.Sum), jsonfile.Volatile)
}

// settleHold undoes the hold of a request that its agent took at the moment of the rename: a running task is never
// held.
func (p *Project) settleHold(h *holding) {
	since := h.entry.request.Stamp
	e := p.fresh(h.entry.id)
	if !e.result.There && !(e.progress.There && !e.progress.Stamp.ModTime().Before(appeared(since))) {
		p.queueTold("task_deferred", h.change)
		return
	}
	if h.err = p.show(e); h.err == nil {
		h.err = folder.Moved(protocol.AgentFirst)
	}
}

// begun reports whether a progress file of this attempt exists now. It stats the file.
func (p *Project) begun(e *entry) bool {
	st, err := p.Root.Stat(e.files.progress)
	return err == nil && !st.ModTime().Before(appeared(e.request.Stamp))
}

// inHand reports whether the last read found a progress file of this attempt. A progress file of an earlier attempt
// is older than the moment when the request appeared.
func (e *entry) inHand() bool {
	return e.progress.There && !e.progress.Stamp.ModTime().Before(appeared(e.request.Stamp))
}
