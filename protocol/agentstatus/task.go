package agentstatus

import (
	"path"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// task builds what policies may know about a task. ok is false while no readable file names the task.
func (p *Project) task(e *entry, known directory, agents map[string]*sitting) (protocol.Task, bool) {
	r, ref := e.asked()
	o, resultRef := e.ended()
	if ref.Path == "" && (o == nil || p.Patience.Passing(e.files.request) || p.Patience.Passing(e.files.held)) {
		return protocol.Task{}, false
	}
	t := protocol.Task{ID: e.id, Agent: known.canonical(r.target), Source: r.source, Type: r.kind, Title: r.title,
		Priority: r.priority, Timeout: r.timeout, Throttle: r.throttle, Created: p.capped(e.created()),
		Related: r.related, Payload: r.payload, Directive: r.directive, Silent: r.silent, Blocking: r.blocking,
		Attempts: e.record.takings, Buried: e.record.buried, Cancelled: e.record.cancelled,
		CancelReason: e.record.reason, CancelWhy: e.record.why, Ref: ref}
	t.Visible = e.request.Good && !e.result.There && o == nil
	if e.request.Good {
		t.Appeared = p.capped(appeared(e.request.Stamp))
	}
	if o != nil {
		t.Outcome = p.outcomeOf(e, o, resultRef)
		if t.Agent == "" {
			t.Agent = known.canonical(o.Agent)
		}
	}
	e.agent = t.Agent
	if e.stray && p.Now.Before(e.strayDue) {
		p.Patience.RetryAt(e.strayDue)
	} else if e.result.Good && (e.late() || e.stray) {
		t.Late = &protocol.Ref{Path: e.files.result, Sum: string(e.result.Sum)}
	}
	if _, present := e.present(); e.overruled {
		t.Late = &present
	}
	t.Reopened = e.reopened()
	t.Hold = p.holdOf(e, o)
	if o == nil && len(r.after) > 0 {
		t.Block = p.block(e.id, r)
	}
	p.evidence(e, &t, agents)
	if l := p.log.tasks[e.id]; l != nil {
		t.Logged = l.events
	}
	return t, true
}

// capped limits a time to the present: clocks differ, and no policy may wait for a time in the future.
func (p *Project) capped(t time.Time) time.Time {
	if t.After(p.Now) {
		return p.Now
	}
	return t
}

// appeared is when a file got its present name or content. It uses the change time, because a rename keeps the time
// of the last write.
func appeared(st jsonfile.Stamp) time.Time {
	if st.CtimeNs == 0 {
		return st.ModTime().UTC()
	}
	return time.Unix(0, st.CtimeNs).UTC()
}

func (p *Project) outcomeOf(e *entry, o *outcome, ref protocol.Ref) *protocol.Outcome {
	out := o.Outcome
	out.Ref = ref
	out.Archived = path.Dir(ref.Path) == archiveDir
	stamp := e.result.Stamp
	if out.Archived {
		stamp = e.archivedResult.Stamp
	}
	appeared, f := stamp.ModTime().UTC(), &e.record.first
	if out.Unrecorded = e.unrecorded(o); !out.Unrecorded && !o.Ours && (e.overruled || stamp.ModTime().After(f.recorded)) {
		appeared = f.at // the file is a restored copy
	}
	unread := f.there && f.damaged && !o.Ours
	out.Unread, out.Sealed = unread && f.passing, unread && !f.passing
	if out.Appeared, out.At = p.capped(appeared), p.capped(out.At); o.zoneless {
		out.At = out.Appeared
	}
	return &out
}

// holdOf describes how the task is held. Half marks a state that a crash leaves between two steps and that must be
// repaired: a notice without a held request, a request beside a held request, or a cancelled task without its result.
func (p *Project) holdOf(e *entry, o *outcome) *protocol.Hold {
	unfinished := e.cancelledInVain(o)
	if !e.held.There && !e.notice.There && !unfinished {
		return nil
	}
	h := e.notice.Value
	if !e.notice.Good {
		h = protocol.Hold{Reason: protocol.HoldCapacity}
		if len(e.record.takings) > 0 {
			h.Reason = protocol.HoldRetry
		}
	}
	if k := e.record.last(); k != nil && k.Committed && h.Reason == protocol.HoldRetry && !k.Due.IsZero() {
		h.NotBefore = k.Due // the ledger takes precedence over the notice
	}
	h.Half = !e.held.There || e.request.There || e.record.cancelled
	return &h
}

// cancelledInVain reports whether a crash came between the record of a cancellation and the result that ends the task
// for its agent. A request that appeared after the record is a new request of the orchestrator.
func (e *entry) cancelledInVain(o *outcome) bool {
	return e.record.cancelled && o == nil && e.request.Good && !appeared(e.request.Stamp).After(e.record.cancelledAt)
}

// evidence finds what shows that an agent works on the present attempt. Only evidence newer than the moment when the
// request appeared counts.
func (p *Project) evidence(e *entry, t *protocol.Task, agents map[string]*sitting) {
	since := t.Appeared
	current := e.progress.There && (!t.Visible || !e.progress.Stamp.ModTime().Before(since))
	if current && e.progress.Good {
		t.Progress = e.progress.Value.Progress
		t.Progress.At = p.capped(e.progress.Value.stated.Seen(e.progress.Stamp.ModTime()))
	}
	r, _ := e.asked()
	t.Progress.Every = r.every
	if !t.Visible {
		return
	}
	if l := p.log.tasks[e.id]; l != nil && l.startedIn(since, len(e.record.takings) > 0) {
		t.Named, t.Started = "task_started", p.capped(l.started)
	}
	if current {
		t.Named = "progress"
	}
	if e.claim.Good {
		t.Named, t.Workers, t.Claim = "claim", e.claim.Value.processes(), string(e.claim.Sum)
		t.Started = p.capped(e.claim.Value.At)
		return
	}
	if s := agents[t.Agent]; s != nil {
		if at, named := s.named[e.id]; named && !at.Before(since) {
			t.Named = "active_tasks"
		}
	}
}
