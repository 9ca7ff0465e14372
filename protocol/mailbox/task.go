package mailbox

import (
	"cmp"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// tasks lists the tasks of queue.json.
func (v *queueView) tasks() []protocol.Task {
	list := make([]protocol.Task, 0, len(v.shown))
	for _, r := range v.shown {
		list = append(list, v.task(r))
	}
	return list
}

// rejectedCode is the code of a rejected task's failure, and of the attempt that its requeue records.
const rejectedCode = "REJECTED"

// task converts one task of queue.json for the policies.
func (v *queueView) task(r *record) protocol.Task {
	since := v.since(r)
	t := protocol.Task{Request: protocol.Request{
		ID: r.id, Agent: developer, Source: "tech-lead", Type: r.kind, Title: r.title, Priority: r.priority, Timeout: protocol.NoTimeout,
		Created: v.Past(r.created),
		Ref:     protocol.Ref{Path: v.used.queueFile(), Sum: string(r.sum)},
	}, Appeared: v.Past(r.ended()), Handling: protocol.Handling{Foreign: true, Requeue: true}, Record: protocol.Record{Attempts: v.attempts.Of(r.id)}}
	if k := lastAttempt(v.attempts, r.id); k != nil {
		t.Appeared = folder.Later(t.Appeared, k.Due)
	}
	if t.Appeared.IsZero() {
		t.Appeared = since
	}
	o := &protocol.Outcome{Agent: developer, At: since, Appeared: since, Ref: t.Ref}
	switch r.status {
	case pending:
		t.Visible = true
		if who, _ := v.turn(r); who == lead && !v.orchestrator.lives() {
			t.Agent = lead
		}
	case inProgress:
		v.fly(&t, r)
	case awaitingReview:
		t.Named, t.Awaits, t.Started = "awaiting review", "review", since // its work is done: it is never lost
	case completed:
		o.Status, o.Archived = completed, r.archived
		t.Outcome, t.Late = o, v.leftMessages(r)
	case rejected:
		o.Status, o.Summary = "failed", cmp.Or(r.reason, "rejected without a reason")
		o.Failures = []protocol.Failure{{Code: rejectedCode, Message: o.Summary, Severity: "error"}}
		t.Outcome = o
	}
	return t
}

// since returns when the task entered its current state.
func (v *queueView) since(r *record) time.Time {
	if k := v.history.tracks[r.id]; k != nil {
		return k.since
	}
	return v.Past(r.ended())
}

// due returns the team lead's names if a task waits for it and no orchestrator starts it.
func (v *queueView) due() []string {
	if v.orchestrator.lives() || !slices.ContainsFunc(v.queue.tasks, func(r record) bool { who, _ := v.turn(&r); return who == lead }) {
		return nil
	}
	return []string{"team-lead", lead}
}

// fly fills in the evidence that work on a task in progress goes on, or is over.
func (v *queueView) fly(t *protocol.Task, r *record) {
	claim := v.claimTo(r)
	switch {
	case v.reported(r) && !v.orchestrator.lives():
		t.Named, t.Awaits, t.Started = "awaiting review", "review", v.since(r) // only its status is missing
		return
	case claim != nil && claim.Waiting: // assigned: the developer has not accepted it yet
		t.Visible = true
		return
	}
	t.Named, t.Started = "queue.json", v.since(r)
	if claim != nil {
		t.Agent = claim.Agent
	}
	if claim == nil || !claim.Worker.Proves() {
		t.Lost = v.lost(r)
		return
	}
	t.Workers, t.Claim = []protocol.Identity{claim.Worker}, string(v.claims[r.id].Sum)
}

// lost returns the proof that no process works on a task in progress; "" if none exists. The proof: no orchestrator
// lives, and it left no process running. If its end is not proved, or if a sign of life of the task or of a working agent is
// later, all of them must also have been silent for as long as a developer may be.
func (v *queueView) lost(r *record) string {
	o := &v.orchestrator
	if o.lives() || len(o.children) > 0 {
		return ""
	}
	last := folder.Later(v.since(r), v.Past(r.updated))
	for i := range v.status.Value.roles {
		if k := &v.status.Value.roles[i]; !k.idle() {
			last = folder.Later(last, v.Past(k.at))
		}
	}
	atOnce := v.claimTo(r) == nil && (o.verdict == gone && !last.After(o.since) || v.abandoned())
	if !atOnce && v.Wait(last.Add(v.opts.Developer)) {
		return ""
	}
	return v.absence()
}

// abandoned reports whether the orchestrator ended by itself and left work in progress: after an agent has failed, the
// program goes on, counts a failure in lastCycle, clears current and exits with code 0. If a person stops it, current stays.
// See docs/decisions.md, "A 003 orchestrator that exits with code 0 may have crashed".
func (r *reader) abandoned() bool {
	used, _ := r.inUse()
	b, q := &r.status().Value, &used.queue.Value
	if !b.there || b.running || b.failed == 0 || q.current != "" || r.orchestrator.lives() {
		return false
	}
	return slices.ContainsFunc(q.tasks, func(t record) bool { return t.status == inProgress && r.claimTo(&t) == nil && !r.reported(&t) })
}

// absence says that no orchestrator lives, with the evidence.
func (r *reader) absence() string {
	switch {
	case r.abandoned():
		return "no orchestrator lives: it ended after one of its agents had failed"
	case r.orchestrator.verdict == unnamed:
		return "no orchestrator lives: no file names an orchestrator's process"
	}
	return "no orchestrator lives: " + r.orchestrator.evidence
}

// clearAfter is how long the messages of a completed task may stay, because its agents may still be about to clear them.
const clearAfter = time.Minute

// leftMessages returns the mailbox that still contains messages of a completed task although they should have been cleared
// (protocol 003, Clearing Messages).
func (v *queueView) leftMessages(r *record) *protocol.Ref {
	m, ok := v.firstBox[r.id]
	if !ok {
		return nil
	}
	end := v.since(r)
	if end.IsZero() {
		end = m.Stamp.ModTime()
	}
	if v.Wait(end.Add(clearAfter)) {
		return nil
	}
	return &protocol.Ref{Path: m.file, Sum: string(m.Sum)}
}

// rejections returns how often a task was rejected: the highest count among the file, the recorded attempts and steward's own
// observations.
func (v *queueView) rejections(r *record) int {
	recorded := 0
	for _, k := range v.attempts.Of(r.id) {
		if k.Code == rejectedCode {
			recorded++
		}
	}
	if k := lastAttempt(v.attempts, r.id); r.status == rejected && (k == nil || k.Committed || k.Code != rejectedCode) {
		recorded++
	}
	if t := v.history.tracks[r.id]; t != nil {
		recorded = max(recorded, t.rejections)
	}
	return max(recorded, r.rejections)
}

// measures returns the project's metrics: the number of rejections, the number of failed builds, and the mean time of a
// review.
func (v *queueView) measures() []protocol.Measure {
	if !v.used.queue.Good {
		return nil
	}
	n, failed := 0, 0
	for _, r := range v.shown {
		n += v.rejections(r)
	}
	for _, l := range allMessages(v.mail) {
		if l.build != nil && l.build.status == buildFailed {
			failed++
		}
	}
	list := []protocol.Measure{{Name: "rejections", Value: float64(n)}, {Name: "build_failures", Value: float64(failed)}}
	if h := v.history; h.reviews > 0 {
		list = append(list, protocol.Measure{Name: "review_seconds", Value: (h.reviewed / time.Duration(h.reviews)).Seconds()})
	}
	return list
}
