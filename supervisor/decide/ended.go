package decide

import (
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
)

func (k *taskJudge) completed() {
	k.countLoss()
	k.is(protocol.TaskDone, protocol.ReasonCompleted, "completed")
	k.record()
	k.count(true)
	k.alertForHuman()
}

// endedOtherwise judges a task whose result is no success: the retry table says what follows.
func (k *taskJudge) endedOtherwise() {
	o := k.t.Outcome
	k.countLoss()
	if k.unread() {
		return
	}
	if k.next.State == protocol.TaskDone && k.next.Counted == "completed" && !k.t.Foreign && !k.next.Wanted && !scheduled(k.t) {
		// The first result could not be recorded when the task completed; the memory still holds that it did.
		k.is(protocol.TaskDone, protocol.ReasonCompleted, "completed; the later result (%s) does not count", o.Status)
		return
	}
	task := *k.t
	task.Timeout = k.timeout()
	at := k.env.local
	if k.t.Requeue {
		at = k.env.inLocal(k.endedAt())
	}
	r := rules.Judge(task, k.s.Protocol, at, k.env.cfg.Retry)
	switch {
	case k.next.Wanted && k.t.Ref.Path != "":
		k.onDemand(protocol.ReasonOperator, "you asked for another run")
	case scheduled(k.t) && k.t.Attempts[len(k.t.Attempts)-1].Rule == RuleOperator && k.t.Ref.Path != "" && !k.t.Cancelled:
		k.onDemand(protocol.ReasonRepair, "you asked for another run, and a crash cut its way short")
	case k.runsAgain(&r):
		k.again(r)
	case r.Action == rules.ActionNone && !k.t.Cancelled:
		k.is(protocol.TaskDone, protocol.ReasonRule, "%s", words.Sentence(r.Cause, k.env.now))
		k.alertForHuman()
	default:
		k.failed(r)
	}
}

// unread reports whether a record of the task cannot be read: of an earlier attempt (its rule, and how many attempts that
// rule has left) or of the first result (whether this result counts). Judging the result without it would be wrong for good.
// See docs/decisions.md, "No verdict without a readable record".
func (k *taskJudge) unread() bool {
	if o := k.t.Outcome; (o == nil || !o.Unread) && !slices.ContainsFunc(k.t.Attempts, func(t protocol.Attempt) bool { return t.Unread }) {
		return false
	}
	k.is(protocol.TaskWaiting, protocol.ReasonUnreadable, "a record of it cannot be read for the moment")
	return true
}

// runsAgain reports whether the retry rule asks for another run that is possible.
func (k *taskJudge) runsAgain(r *rules.Ruling) bool {
	if r.Action != protocol.ActionRetry && r.Action != protocol.ActionDefer {
		return false
	}
	switch {
	case k.t.Outcome.Sealed:
		r.Phrase, r.Alert = protocol.PhraseSealed, true
	case k.old() && !k.t.Requeue:
		r.Phrase = protocol.PhraseFailedOld
	case k.t.Ref.Path == "":
		r.Phrase, r.Alert = protocol.PhraseRequestGone, true
	default:
		return true
	}
	r.Action = protocol.ActionStop
	return false
}

// failed judges a task that does not run again by itself.
func (k *taskJudge) failed(r rules.Ruling) {
	reason := protocol.ReasonFailed
	if r.Dead {
		reason = protocol.ReasonExhausted
	}
	k.is(protocol.TaskFailed, reason, "%s", words.Sentence(r.Cause, k.env.now))
	if k.t.Buried || r.Dead {
		k.verdict.State = protocol.TaskDead
	}
	if k.t.Cancelled {
		if k.t.Foreign {
			k.is(protocol.TaskDone, protocol.ReasonCancelled, "cancelled")
		}
		return
	}
	if r.Dead && !k.t.Buried && !k.old() && !k.t.Foreign { // the dead letter keeps the result on record as well
		k.change(protocol.Change{Verb: protocol.VerbBury, Reason: protocol.ReasonExhausted, Judged: protocol.Judged{Ref: k.t.Outcome.Ref}, Entry: protocol.Entry{Rule: r.Rule, Code: r.Code}, Why: words.Sentence(r.Cause, k.env.now)})
	}
	k.record()
	k.count(false)
	if r.Alert { // it tells what the result asks as well: one call for one task
		k.alertFailure(r)
		return
	}
	k.alertForHuman()
}

// record keeps the first terminal result on record, so that no later one replaces it (protocol 000, Retry).
func (k *taskJudge) record() {
	if k.t.Outcome.Unrecorded && !k.t.Cancelled && mayChange(k.s) && !k.old() {
		k.change(protocol.Change{Verb: protocol.VerbRecord, Reason: protocol.ReasonFinished, Judged: protocol.Judged{Ref: k.t.Outcome.Ref}, Why: "its result stands"})
	}
}

// reopen removes the record of a result that a client or a person deleted. The task must have been seen open before: a
// client may remove a file in order to write it again.
func (k *taskJudge) reopen() {
	if k.t.Reopened && wasOpen(k.next.State) && mayChange(k.s) {
		k.change(protocol.Change{Verb: protocol.VerbRecord, Reason: protocol.ReasonFinished, Why: "its result was removed, so the task is open again"})
	}
}

// again takes the result away so that the task runs once more, as the retry rule says.
func (k *taskJudge) again(r rules.Ruling) {
	o, now := k.t.Outcome, k.env.now
	state := protocol.TaskWaiting
	if r.Action == protocol.ActionDefer {
		state = protocol.TaskDeferred
	}
	// Only a retry by steward is superseded by a newer request for the same work; a task that its client deferred is still
	// wanted.
	if why := k.requests.after(k.t); why != "" && r.Action == protocol.ActionRetry {
		k.is(protocol.TaskFailed, protocol.ReasonSuperseded, "%s", why)
		k.change(protocol.Change{Verb: protocol.VerbCancel, Reason: protocol.ReasonSuperseded, Judged: protocol.Judged{Ref: o.Ref}, Why: why})
		return
	}
	if settled := k.endedAt().Add(k.env.cfg.Tasks.Settle); o.Status == "deferred" && now.Before(settled) {
		// The client's own deferral stays readable for its orchestrator before steward lifts it.
		k.wait(state, protocol.ReasonDeferred, settled, "deferred by its client")
		return
	}
	if k.agent.names(k.t.ID) && (r.NeedsProof && !k.agent.dead() || k.resumed()) {
		k.unproved(r)
		return
	}
	if k.env.view.Once && now.Before(r.Due) && scheduled(k.t) {
		k.wait(state, protocol.ReasonRetry, r.Due, "%s", words.Sentence(r.Cause, k.env.now))
		return
	}
	if k.t.Requeue {
		k.requeue(r, protocol.ReasonRule, false)
		return
	}
	k.is(state, protocol.ReasonBudget, "the project's retries of this hour are used up")
	if r.Counted && !k.spend() {
		return
	}
	k.wait(state, protocol.ReasonRetry, r.Due, "%s", words.Sentence(r.Cause, k.env.now))
	k.retry(r, r.Due)
	if r.Alert {
		k.alertFailure(r)
	}
}

// endedAt is when the present result came, as far as anybody has seen.
func (k *taskJudge) endedAt() time.Time {
	if k.t.Outcome.Appeared.IsZero() {
		return time.Time{}
	}
	return earliest(earliest(k.next.Waits, k.t.Outcome.Appeared), k.env.now)
}

// waitsSince is when the result appeared that something must still follow. In observe mode nothing follows. A pause ends,
// and what has waited already keeps waiting, because its disk may only hang.
func (k *taskJudge) waitsSince() time.Time {
	if k.t.Outcome == nil || !wasOpen(k.next.State) {
		return time.Time{}
	}
	if paused := k.env.view.Paused[k.s.Project] != ""; !mayChange(k.s) && !paused && k.next.Waits.IsZero() {
		return time.Time{}
	}
	return k.endedAt()
}

// resumed reports whether the agent has beaten since steward judged the attempt lost, and lives. Steward's result may have
// been written late, on a disk that hung, and the agent may have taken the task again meanwhile.
// See docs/decisions.md, "A lost attempt waits for an agent that names its task again".
func (k *taskJudge) resumed() bool {
	lost := k.next.LostAt
	return k.t.Outcome.Ours && k.agent.alive() && !lost.IsZero() && k.agent.verdict.Heard.After(lost)
}

// unproved waits until the agent no longer names the task: the attempt may still run (TIMEOUT: the result may be early).
// See docs/decisions.md, "A lost attempt waits for an agent that names its task again".
func (k *taskJudge) unproved(r rules.Ruling) {
	k.is(protocol.TaskWaiting, protocol.ReasonStillNamed, "%s It waits until %s no longer names the task.", words.Sentence(r.Cause, k.env.now), k.t.Agent)
	if deadline := k.endedAt().Add(k.timeout()); k.over(deadline) {
		k.alertOverrun(deadline)
	}
}

// retry orders the result to be taken and the task to be issued again at the given time.
func (k *taskJudge) retry(r rules.Ruling, due time.Time) {
	reason := protocol.ReasonRule
	if r.Action == protocol.ActionDefer {
		reason = protocol.ReasonDeferred
	}
	o := k.t.Outcome
	// Silence alone does not prove that the old run is over.
	twice := o.Twice || r.NeedsProof && k.agent.names(k.t.ID) && !k.agent.verdict.Proof
	k.change(protocol.Change{Verb: protocol.VerbRetry, Reason: reason, Judged: protocol.Judged{Ref: o.Ref}, Why: words.Sentence(r.Cause, k.env.now), Until: due,
		ReleaseBy: k.env.now.Add(k.env.cfg.Tasks.Lease), Hold: protocol.HoldRetry, Entry: protocol.Entry{
			Action: r.Action, Rule: r.Rule, Code: r.Code,
			Attempt: len(Committed(k.t)) + 1, Timeout: r.Timeout, Twice: twice,
		}, NoHold: k.env.view.Once})
}

// onDemand issues a task again because the operator asked for it, whatever the rules say.
func (k *taskJudge) onDemand(reason protocol.Reason, why string) {
	k.is(protocol.TaskWaiting, reason, "%s", why)
	c := ManualRetry(k.t, k.env.now, k.env.cfg.Tasks.Lease)
	c.Reason, c.Why, c.NoHold = reason, k.verdict.Why, k.env.view.Once
	k.change(c)
}

// RuleOperator stands on record in place of a rule's name for a run that the operator ordered.
const RuleOperator = "operator"

// ManualRetry is the change that takes a result away for a run beyond the rules, at once.
func ManualRetry(t *protocol.Task, now time.Time, lease time.Duration) protocol.Change {
	return protocol.Change{Verb: protocol.VerbRetry, Judged: protocol.Judged{Ref: t.Outcome.Ref}, Agent: t.Agent, Entry: protocol.Entry{
		Action: protocol.ActionRetry, Rule: RuleOperator,
		Code: "OPERATOR", Attempt: len(Committed(t)) + 1,
		Twice: t.Outcome.Twice,
	}, Until: now, Hold: protocol.HoldRetry, ReleaseBy: now.Add(lease)}
}

// spend takes one retry from the project's hourly budget, once per run. A retry that is on record already is free.
func (k *taskJudge) spend() bool {
	if scheduled(k.t) || k.next.Paid {
		return true
	}
	ok, again := rules.Budget(k.retries, k.env.now, k.env.cfg.Tasks.RetriesPerHour)
	if !ok {
		k.wake(again)
		k.alertBudget()
		return false
	}
	if k.s.Act && !k.s.Busy {
		k.next.Paid, k.spends = true, true
	}
	return true
}

// recent keeps the times of the last hour.
func recent(times []time.Time, now time.Time) []time.Time {
	var kept []time.Time
	for _, t := range times {
		if now.Sub(t) < time.Hour {
			kept = append(kept, t)
		}
	}
	return kept
}

// Committed lists the attempts whose result was taken away.
func Committed(t *protocol.Task) []protocol.Attempt {
	n := len(t.Attempts)
	if n == 0 || t.Attempts[n-1].Committed {
		return t.Attempts // only the newest can lack its commit
	}
	return t.Attempts[:n-1]
}

// scheduled reports whether a retry of the present result stands on record without having been carried out.
func scheduled(t *protocol.Task) bool {
	n := len(t.Attempts)
	return n > 0 && !t.Attempts[n-1].Committed
}

// completed is the verdict on a task that ended well.
var completed = TaskVerdict{State: protocol.TaskDone, Reason: protocol.ReasonCompleted, Why: "completed"}

// settles reports whether the result that lies there completed the task and nothing was left to do about it. Most tasks of a
// project are settled, and each costs a decision no more than this. Once a day a settled task is judged all the same, so
// that the memory holds when it was last seen.
func (m *TaskMemory) settles(t *protocol.Task, at time.Time) bool {
	return m != nil && m.Settled != "" && at.Sub(m.Looked) < 24*time.Hour && t.Outcome != nil && t.Outcome.Ref.Sum == m.Settled && t.Hold == nil && t.Late == nil && !t.Reopened &&
		!t.Cancelled && !t.Outcome.Unrecorded && m.Run == 1+len(Committed(t)) && (!t.Foreign || m.Asked == t.Ref.Sum)
}

// settledBy is the sum of the result that settles the task, "" while something is still to be done about it.
func (k *taskJudge) settledBy() string {
	o := k.t.Outcome
	if k.verdict != completed || k.unsettled || o == nil || !o.Succeeded() || len(o.ForHuman) > 0 || k.t.Cancelled || k.t.Late != nil || k.t.Hold != nil {
		return ""
	}
	return o.Ref.Sum
}

// requests indexes the newest requests of one snapshot. The index is built when a rule first asks.
type requests struct {
	s        *protocol.Snapshot
	payloads map[string]time.Time
	related  map[string]time.Time
}

// after says whether the orchestrator has asked for the same work again, "" if not.
func (r *requests) after(t *protocol.Task) string {
	if r.payloads == nil {
		r.count()
	}
	switch {
	case t.Payload != "" && r.payloads[t.Payload].After(t.Created):
		return "a newer request asks for the same"
	case r.related[t.ID].After(t.Created):
		return "a newer request refers to it"
	}
	return ""
}

func (r *requests) count() {
	r.payloads, r.related = map[string]time.Time{}, map[string]time.Time{}
	note := func(newest map[string]time.Time, key string, at time.Time) {
		if key != "" && at.After(newest[key]) {
			newest[key] = at
		}
	}
	for i := range r.s.Tasks {
		t := &r.s.Tasks[i]
		if t.Ref.Path == "" || t.Cancelled {
			continue
		}
		note(r.payloads, t.Payload, t.Created)
		for _, id := range t.Related {
			if id != t.ID {
				note(r.related, id, t.Created)
			}
		}
	}
}
