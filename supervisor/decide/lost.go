package decide

import (
	"fmt"
	"slices"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// lose handles a task whose agent is gone. A protocol that puts work back in one step does so; otherwise steward writes the
// result that the agent cannot write, and the retry table judges it at the next scan.
func lose(c *taskCase, r *taskRuling, twice bool, why protocol.Cause) {
	if r.next.LostAt.IsZero() {
		r.next.LostAt = c.now
	}
	// If the incident about the agent's death names the task, no second incident is needed.
	if told := c.agent.dead() && c.agent.agent.Presence != protocol.PresenceGone || leaderDead(c); !mayChange(c.s) && c.t.Foreign && !told {
		list := careOptions()
		if c.s.Asks() && c.t.Answers {
			list = options(OptionRetry, OptionComplete, OptionDone)
		}
		r.tellTask(c, rules.Alert{Kind: "task_lost", Severity: protocol.High, Blocking: c.t.Blocking, Options: list},
			rules.Notice{Phrase: protocol.PhraseTaskLost, Cause: why})
	}
	switch {
	case c.t.Requeue:
		requeueLost(c, r, twice, why)
	case !c.t.Visible && c.t.Lost == "":
		// A file that cannot be read lies in the place of the result, and must not be replaced.
	default:
		r.order(c, why, protocol.Change{Verb: protocol.VerbConclude, Reason: protocol.ReasonLost,
			Entry: protocol.Entry{Code: rules.CodeAgentLost, Twice: twice}, Judged: protocol.Judged{Claim: c.t.Claim}})
	}
}

// leaderDead reports whether the leader of the task's agent is dead: the incident about the leader names the task.
func leaderDead(c *taskCase) bool {
	return slices.ContainsFunc(c.s.Agents, func(a protocol.Agent) bool { return led(&a, c.t) && c.agents[a.Name].dead() })
}

// requeueLost rules on lost work as if its agent had written AGENT_LOST.
func requeueLost(c *taskCase, r *taskRuling, twice bool, why protocol.Cause) {
	if r.next.Alone.IsZero() {
		r.next.Alone = c.at
	}
	if unread(c.t) {
		r.verdict = TaskVerdict{State: protocol.TaskWaiting, Cause: because(protocol.ReasonUnreadable, protocol.Facts{})}
		return
	}
	t, ended := *c.t, r.next.Alone
	t.Timeout = c.timeout()
	t.Outcome = &protocol.Outcome{Status: "failed", Agent: t.Agent, At: ended, Appeared: ended, Ours: true, Twice: twice,
		Ref:      protocol.Ref{Path: t.Ref.Path, Sum: fmt.Sprint("lost ", t.ID, " ", len(t.Committed())+1)},
		Failures: []protocol.Failure{{Code: rules.CodeAgentLost, Severity: "error"}}}
	judged := rules.Judge(t, c.s.Protocol, c.inLocal(ended), c.cfg.Retry)
	if judged.Action == protocol.ActionRetry {
		requeue(c, r, judged, protocol.ReasonLost, twice)
		return
	}
	r.verdict = TaskVerdict{State: protocol.TaskDead, Cause: ruled(protocol.ReasonExhausted, judged)}
	tellFailure(c, r, &t, judged, r.verdict.Cause).Notice.Failure.Lost = why
}

// requeue puts work back where agents find it, once the delay of the retry rule is over.
func requeue(c *taskCase, r *taskRuling, judged rules.Ruling, reason protocol.Reason, twice bool) {
	why := ruled(protocol.ReasonRetry, judged)
	r.verdict = TaskVerdict{State: protocol.TaskWaiting, Cause: why}
	if c.now.Before(judged.Due) && !c.s.Asks() { // a person who is asked need not wait
		r.verdict.NotBefore = judged.Due
		r.rescanAt(judged.Due, c.now)
		return
	}
	if c.s.Asks() {
		r.verdict.Cause = because(protocol.ReasonAwaits, protocol.Facts{Name: "your answer"})
	}
	if judged.Counted && !spend(c, r) {
		r.verdict.Cause = because(protocol.ReasonBudget, protocol.Facts{})
		return
	}
	r.order(c, why, protocol.Change{Verb: protocol.VerbRequeue, Reason: reason, Judged: protocol.Judged{Claim: c.t.Claim},
		Entry: protocol.Entry{Action: protocol.ActionRetry, Rule: judged.Rule, Code: judged.Code, Attempt: len(c.t.Committed()) + 1, Twice: twice}})
}

// halfRequeued reports whether a crash cut a requeueing short: its entry stands on record, and nothing says yet that the work
// was moved.
func halfRequeued(c *taskCase) bool { return c.t.Requeue && scheduled(c.t) && c.free() }

func finishRequeue(c *taskCase) taskRuling {
	last := c.t.Attempts[len(c.t.Attempts)-1]
	r := c.rule(protocol.TaskWaiting, phrase(protocol.ReasonRepair, protocol.PhraseRequeueCut, protocol.Facts{}))
	r.order(c, r.verdict.Cause, protocol.Change{Verb: protocol.VerbRequeue, Agent: last.Agent,
		Entry: protocol.Entry{Action: last.Action, Rule: last.Rule, Code: last.Code, Attempt: last.N, Twice: last.Twice}})
	return r
}

// unread reports whether a record of the task cannot be read: of an earlier attempt (its rule, and how many attempts that
// rule has left) or of the first result (whether this result counts). Judging the result without it would be wrong for good.
// See docs/decisions.md, "No verdict without a readable record".
func unread(t *protocol.Task) bool {
	return t.Outcome != nil && t.Outcome.Unread || slices.ContainsFunc(t.Attempts, func(a protocol.Attempt) bool { return a.Unread })
}
