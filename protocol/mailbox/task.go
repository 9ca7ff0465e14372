package mailbox

import (
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
)

// clearAfter is how long the messages of a completed task may stay, because its agents may still be about to clear them.
const clearAfter = time.Minute

// task converts one task of queue.json for the policies.
func (p *Project) task(r *record, left map[string]located) protocol.Task {
	t := protocol.Task{ID: r.id, Agent: developer, Source: "tech-lead", Type: r.kind, Title: r.title, Priority: r.priority, Timeout: protocol.NoTimeout,
		Created: p.past(r.created), Appeared: p.past(r.ended()), Foreign: true, Requeue: true, Attempts: p.ledger.Of(r.id),
		Ref: protocol.Ref{Path: p.living().queueFile(), Sum: string(r.sum)}}
	if k, ok := p.lastTaking(r.id); ok {
		t.Appeared = later(t.Appeared, k.Due)
	}
	if t.Appeared.IsZero() {
		t.Appeared = p.sinceOf(r)
	}
	switch r.status {
	case pending:
		t.Visible = true
	case inProgress:
		t.Named, t.Started, t.Lost = "queue.json", p.sinceOf(r), p.nobodyWorks(r)
	case awaitingReview:
		t.Named, t.Awaits, t.Started = "awaiting review", "review", p.sinceOf(r) // its work is done: it is never lost
	case completed:
		t.Outcome = &protocol.Outcome{Status: completed, Agent: developer, Archived: r.archived}
	case rejected:
		reason := r.reason
		if reason == "" {
			reason = "rejected without a reason"
		}
		t.Outcome = &protocol.Outcome{Status: "failed", Agent: developer, Summary: reason,
			Failures: []protocol.Failure{{Code: rejectedCode, Message: reason, Severity: "error"}}}
	}
	if o := t.Outcome; o != nil {
		o.At = p.sinceOf(r)
		o.Appeared, o.Ref = o.At, t.Ref
		if o.Status == completed {
			t.Late = p.lettersLeft(r, left)
		}
	}
	return t
}

// sinceOf returns when the task entered its current state.
func (p *Project) sinceOf(r *record) time.Time {
	if k := p.history.tracks[r.id]; k != nil {
		return k.since
	}
	return p.past(r.ended())
}

// nobodyWorks returns the proof that no process works on a task in progress; "" if there is none. The proof: no
// orchestrator lives, it left no process running, and neither the task nor a working agent has shown a sign of life for as
// long as a developer may be silent.
func (p *Project) nobodyWorks(r *record) string {
	if p.chief.lives() || len(p.chief.children) > 0 {
		return ""
	}
	last := later(p.sinceOf(r), p.past(r.updated))
	b, _ := p.statusBoard()
	for i := range b.Value.roles {
		if k := &b.Value.roles[i]; !k.idle() {
			last = later(last, p.past(k.at))
		}
	}
	if due := last.Add(p.opts.Developer); p.Now.Before(due) {
		p.Patience.RetryAt(due)
		return ""
	}
	return p.unled()
}

// unled says that no orchestrator lives, with the evidence.
func (p *Project) unled() string {
	why := p.chief.evidence
	if p.chief.verdict == unnamed {
		why = "no file names an orchestrator's process"
	}
	return "no orchestrator lives: " + why
}

// lettersLeft returns the mailbox that still contains messages of a completed task although they should have been cleared
// (protocol 003, Clearing Messages).
func (p *Project) lettersLeft(r *record, left map[string]located) *protocol.Ref {
	m, ok := left[r.id]
	if !ok {
		return nil
	}
	end := p.sinceOf(r)
	if end.IsZero() {
		end = m.box.Stamp.ModTime()
	}
	if due := end.Add(clearAfter); p.Now.Before(due) {
		p.Patience.RetryAt(due)
		return nil
	}
	return &protocol.Ref{Path: m.file, Sum: string(m.box.Sum)}
}

// lettersByTask maps each task to the first mailbox that contains a message about it.
func lettersByTask(mail []located) map[string]located {
	left := map[string]located{}
	for _, m := range mail {
		for i := range m.box.Value.letters {
			id := m.box.Value.letters[i].task
			if _, ok := left[id]; !ok && id != "" {
				left[id] = m
			}
		}
	}
	return left
}

// measures returns the project's metrics: the number of rejections, the number of failed builds, and the mean time of a
// review.
func (p *Project) measures(shown []*record, mail []located) []protocol.Measure {
	n, failed := 0, 0
	for _, r := range shown {
		n += p.rejections(r)
	}
	for _, m := range mail {
		for i := range m.box.Value.letters {
			if b := m.box.Value.letters[i].build; b != nil && b.status == buildFailed {
				failed++
			}
		}
	}
	list := []protocol.Measure{{Name: "rejections", Value: float64(n)}, {Name: "build_failures", Value: float64(failed)}}
	if h := &p.history; h.reviews > 0 {
		list = append(list, protocol.Measure{Name: "review_seconds", Value: (h.reviewed / time.Duration(h.reviews)).Seconds()})
	}
	return list
}

// oddIDs reports ids that cannot be used as faults.
func (p *Project) oddIDs(ids []string) (faults []protocol.Fault) {
	now := map[string]protocol.Fault{}
	for _, id := range ids {
		f, known := p.odd[id]
		if _, twice := now[id]; twice {
			continue
		}
		if !known {
			f = protocol.Fault{Path: p.Shown(p.living().queueFile()), Since: p.Now, Hint: "use a plain id for the task",
				Problem: fmt.Sprintf("%q is not an id for a task: it cannot be used as a file name", id)}
		}
		now[id] = f
		faults = append(faults, f)
	}
	p.odd = now
	return faults
}
