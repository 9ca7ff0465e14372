package decide

import (
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// completedVerdict is the verdict on a task that ended well.
var completedVerdict = TaskVerdict{State: protocol.TaskDone, Cause: protocol.Cause{Reason: protocol.ReasonCompleted}}

func completed(c *taskCase) taskRuling {
	r := c.rule(completedVerdict.State, completedVerdict.Cause)
	countLoss(c, &r)
	keepResult(c, &r)
	count(c, &r, true)
	tellDecision(c, &r)
	return r
}

// endedOtherwise judges a task whose result is no success: the retry table says what follows.
func endedOtherwise(c *taskCase) (r taskRuling) {
	t, o := c.t, c.t.Outcome
	byOperator := scheduled(t) && t.Attempts[len(t.Attempts)-1].Rule == RuleOperator
	task := *t
	task.Timeout = c.timeout()
	at := c.local
	if t.Requeue {
		at = c.inLocal(c.endedAt())
	}
	judged := rules.Judge(task, c.s.Protocol, at, c.cfg.Retry)
	why := ruled(protocol.ReasonRule, judged)
	switch {
	case unread(t):
		r = c.rule(protocol.TaskWaiting, because(protocol.ReasonUnreadable, protocol.Facts{}))
	case c.mem.State == protocol.TaskDone && c.mem.Counted == "completed" && !t.Foreign && !c.mem.Wanted && !scheduled(t):
		// The first result could not be recorded when the task completed; the memory still holds that it did.
		r = c.rule(protocol.TaskDone, phrase(protocol.ReasonCompleted, protocol.PhraseLaterResultVoid, protocol.Facts{Name: o.Status}))
	case c.mem.Wanted && t.Ref.Path != "":
		r = onDemand(c, phrase(protocol.ReasonOperator, protocol.PhraseAnotherRun, protocol.Facts{}))
	case byOperator && t.Ref.Path != "" && !t.Cancelled:
		r = onDemand(c, phrase(protocol.ReasonRepair, protocol.PhraseAnotherRunCut, protocol.Facts{}))
	case judged.Action == protocol.ActionRetry || judged.Action == protocol.ActionDefer:
		if not := runsNoMore(c); not != "" {
			judged.Action, judged.Alert = protocol.ActionStop, judged.Alert || not != protocol.PhraseFailedOld
			r = failed(c, judged, phrase(protocol.ReasonFailed, not, protocol.Facts{}))
		} else {
			r = again(c, judged)
		}
	case judged.Action == rules.ActionNone && !t.Cancelled:
		r = c.rule(protocol.TaskDone, why)
		tellDecision(c, &r)
	default:
		r = failed(c, judged, why)
	}
	countLoss(c, &r)
	return r
}

// runsNoMore says why another run is not possible although the retry rule asks for it, "" if it is possible.
func runsNoMore(c *taskCase) protocol.Phrase {
	switch {
	case c.t.Outcome.Sealed:
		return protocol.PhraseSealed
	case c.ancient() && !c.t.Requeue:
		return protocol.PhraseFailedOld
	case c.t.Ref.Path == "":
		return protocol.PhraseRequestGone
	}
	return ""
}

// failed judges a task that does not run again by itself.
func failed(c *taskCase, judged rules.Ruling, why protocol.Cause) taskRuling {
	if why.Reason = protocol.ReasonFailed; judged.Dead {
		why.Reason = protocol.ReasonExhausted
	}
	r := c.rule(protocol.TaskFailed, why)
	if c.t.Buried || judged.Dead {
		r.verdict.State = protocol.TaskDead
	}
	if c.t.Cancelled {
		if c.t.Foreign {
			r.verdict = TaskVerdict{State: protocol.TaskDone, Cause: because(protocol.ReasonCancelled, protocol.Facts{})}
		}
		return r
	}
	if judged.Dead && !c.t.Buried && !c.ancient() && !c.t.Foreign { // the dead letter keeps the result on record as well
		r.order(c, why, protocol.Change{Verb: protocol.VerbBury, Judged: protocol.Judged{Ref: c.t.Outcome.Ref},
			Entry: protocol.Entry{Rule: judged.Rule, Code: judged.Code}})
	}
	keepResult(c, &r)
	count(c, &r, false)
	if judged.Alert { // the alert also says what the result asks: one notice per task
		tellFailure(c, &r, c.t, judged, why)
	} else {
		tellDecision(c, &r)
	}
	return r
}

// keepResult keeps the first terminal result on record, so that no later one replaces it (protocol 000, Retry).
func keepResult(c *taskCase, r *taskRuling) {
	if c.t.Outcome.Unrecorded && !c.t.Cancelled && mayChange(c.s) && !c.ancient() {
		r.order(c, because(protocol.ReasonFinished, protocol.Facts{}), protocol.Change{Verb: protocol.VerbRecord, Judged: protocol.Judged{Ref: c.t.Outcome.Ref}})
	}
}

// again takes the result away so that the task runs once more, as the retry rule says.
func again(c *taskCase, judged rules.Ruling) taskRuling {
	o, state := c.t.Outcome, protocol.TaskWaiting
	if judged.Action == protocol.ActionDefer {
		state = protocol.TaskDeferred
	}
	// Only a retry by steward is superseded by a newer request for the same work; a task that its client deferred is still
	// wanted.
	if by := c.requests.after(c.t); by != "" && judged.Action == protocol.ActionRetry {
		return superseded(c, by, o.Ref)
	}
	if settled := c.endedAt().Add(c.cfg.Tasks.Settle); o.Status == "deferred" && c.now.Before(settled) {
		// The client's own deferral stays readable for its orchestrator before steward lifts it.
		return c.wait(state, settled, because(protocol.ReasonDeferred, protocol.Facts{}))
	}
	if c.agent.names(c.t.ID) && (judged.NeedsProof && !c.agent.dead() || resumed(c)) {
		return unproved(c, judged)
	}
	why := ruled(protocol.ReasonRetry, judged)
	if c.view.Once && c.now.Before(judged.Due) && scheduled(c.t) {
		return c.wait(state, judged.Due, why)
	}
	r := c.rule(state, because(protocol.ReasonBudget, protocol.Facts{}))
	if c.t.Requeue {
		requeue(c, &r, judged, protocol.ReasonRule, false)
		return r
	}
	if judged.Counted && !spend(c, &r) {
		return r
	}
	r.verdict.Cause, r.verdict.NotBefore = why, judged.Due
	r.wakeAt(judged.Due, c.now)
	retry(c, &r, judged)
	if judged.Alert {
		tellFailure(c, &r, c.t, judged, why)
	}
	return r
}

// resumed reports whether the agent has beaten since steward judged the attempt lost, and lives. Steward's result may have
// been written late, on a disk that hung, and the agent may have taken the task again meanwhile.
// See docs/decisions.md, "A lost attempt waits for an agent that names its task again".
func resumed(c *taskCase) bool {
	lost := c.mem.LostAt
	return c.t.Outcome.Ours && c.agent.alive() && !lost.IsZero() && c.agent.verdict.Heard.After(lost)
}

// unproved waits until the agent no longer names the task: the attempt may still run (TIMEOUT: the result may be early).
// See docs/decisions.md, "A lost attempt waits for an agent that names its task again".
func unproved(c *taskCase, judged rules.Ruling) taskRuling {
	facts := judged.Facts
	facts.Base, facts.Agent = judged.Phrase, c.t.Agent
	r := c.rule(protocol.TaskWaiting, phrase(protocol.ReasonStillNamed, protocol.PhraseUntilUnnamed, facts))
	if deadline := c.endedAt().Add(c.timeout()); r.passed(c.env, deadline) {
		r.tellOverrun(c, overdue(c, deadline))
	}
	return r
}

// retry orders the result to be taken and the task to be issued again when the retry rule says.
func retry(c *taskCase, r *taskRuling, judged rules.Ruling) {
	reason := protocol.ReasonRule
	if judged.Action == protocol.ActionDefer {
		reason = protocol.ReasonDeferred
	}
	o := c.t.Outcome
	// Silence alone does not prove that the old run is over.
	twice := o.Twice || judged.NeedsProof && c.agent.names(c.t.ID) && !c.agent.verdict.Proof
	r.order(c, r.verdict.Cause, protocol.Change{Verb: protocol.VerbRetry, Reason: reason, Judged: protocol.Judged{Ref: o.Ref},
		Until: judged.Due, ReleaseBy: c.now.Add(c.cfg.Tasks.Lease), Hold: protocol.HoldRetry, NoHold: c.view.Once,
		Entry: protocol.Entry{Action: judged.Action, Rule: judged.Rule, Code: judged.Code, Attempt: len(c.t.Committed()) + 1, Timeout: judged.Timeout, Twice: twice}})
}

// onDemand issues a task again because the operator asked for it, whatever the rules say.
func onDemand(c *taskCase, why protocol.Cause) taskRuling {
	r := c.rule(protocol.TaskWaiting, why)
	change := ManualRetry(c.t, c.now, c.cfg.Tasks.Lease)
	change.NoHold = c.view.Once
	r.order(c, why, change)
	return r
}

// RuleOperator stands on record in place of a rule's name for a run that the operator ordered.
const RuleOperator = "operator"

// ManualRetry is the change that takes a result away for a run beyond the rules, at once.
func ManualRetry(t *protocol.Task, now time.Time, lease time.Duration) protocol.Change {
	return protocol.Change{Verb: protocol.VerbRetry, Judged: protocol.Judged{Ref: t.Outcome.Ref}, Agent: t.Agent, Until: now,
		Hold: protocol.HoldRetry, ReleaseBy: now.Add(lease),
		Entry: protocol.Entry{Action: protocol.ActionRetry, Rule: RuleOperator, Code: "OPERATOR", Attempt: len(t.Committed()) + 1, Twice: t.Outcome.Twice}}
}

// spend takes one retry from the project's hourly budget, once per run. A retry that is on record already is free.
func spend(c *taskCase, r *taskRuling) bool {
	if scheduled(c.t) || c.mem.Paid {
		return true
	}
	ok, again := rules.Budget(c.retries, c.now, c.cfg.Tasks.RetriesPerHour)
	if !ok {
		r.wakeAt(again, c.now)
		r.tell(rules.Alert{Kind: "retry_budget", Severity: protocol.High, Subject: c.s.Subject(protocol.KindProject, c.s.Project)},
			rules.Notice{Phrase: protocol.PhraseRetriesUsed, Facts: protocol.Facts{Name: c.s.Project, Count: c.cfg.Tasks.RetriesPerHour, Text: "[tasks] retries_per_hour"}})
		return false
	}
	if c.s.Act && !c.s.Busy {
		r.next.Paid, r.spends = true, true
	}
	return true
}

// ruled is the cause of a ruling of the retry table.
func ruled(reason protocol.Reason, judged rules.Ruling) protocol.Cause {
	return phrase(reason, judged.Phrase, judged.Facts)
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

// tellFailure tells the user of a failure that no retry will fix. t is the task with its result.
func tellFailure(c *taskCase, r *taskRuling, t *protocol.Task, judged rules.Ruling, why protocol.Cause) *condition {
	asks := t.Outcome.ForHuman
	a := rules.Alert{Kind: "task_failed", Code: judged.Code, Severity: protocol.High, Lasting: true, Occurrence: t.Outcome.Ref.Sum,
		Blocking: judged.Fatal || judged.Status == "blocked" || t.Blocking || len(asks) > 0, Options: optionsOfFailure(t, mayOffer(c.s))}
	if judged.Fatal {
		a.Severity = protocol.Critical
	}
	if judged.Action == protocol.ActionDefer {
		a.Severity = protocol.Medium
	} else {
		countCall(c, r, t.Outcome)
	}
	told := r.tellTask(c, a, rules.Notice{Phrase: protocol.PhraseTaskFailed, Cause: why, List: asks})
	told.Notice.Failure = &rules.Failure{Task: *t, Ruling: judged}
	// It ends without a result of its own, and may fail again with the same text.
	told.dated = t.Outcome.Ref == t.Ref
	return told
}

// tellDecision tells the user what a result leaves for him to decide (000: next_actions, requires_jesse), after success
// too.
func tellDecision(c *taskCase, r *taskRuling) {
	asks := c.t.Outcome.ForHuman
	if len(asks) == 0 {
		return
	}
	countCall(c, r, c.t.Outcome)
	list := options(OptionDone, OptionRetry)
	if !mayOffer(c.s) {
		list = list[:1]
	}
	r.tellTask(c, rules.Alert{Kind: "decision", Severity: protocol.High, Blocking: true, Lasting: true, Options: list, Occurrence: c.t.Outcome.Ref.Sum},
		rules.Notice{Phrase: protocol.PhraseDecision, Facts: protocol.Facts{Text: asks[0]}, List: asks})
}

// optionsOfFailure are the options that steward offers for a task that failed for good.
// See docs/decisions.md, ""It is done" is an option of its own where work waits for a mark (002)".
func optionsOfFailure(t *protocol.Task, act bool) []rules.Option {
	switch {
	case !act:
		return options(OptionLeave)
	case t.Answers:
		return options(OptionRetry, OptionLeave, OptionComplete)
	}
	return options(OptionRetry, OptionLeave)
}
