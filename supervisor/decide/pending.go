package decide

import (
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// pending judges a task that no agent has taken yet.
func pending(c *taskCase) taskRuling {
	t := c.t
	untaken := because(protocol.ReasonUntaken, protocol.Facts{Agent: t.Agent})
	if t.Awaits != "" {
		return c.rule(protocol.TaskWaiting, because(protocol.ReasonAwaits, protocol.Facts{Name: t.Awaits}))
	}
	may, judgeable := mayHold(c)
	if t.Block != "" && t.Visible && !c.view.Once && (may || !t.Foreign) {
		r := c.rule(protocol.TaskWaiting, quote(protocol.ReasonBlocked, t.Block))
		r.next.Judgeable = judgeable
		r.hold(c, protocol.HoldBlocked, r.verdict.Cause, nil, time.Time{})
		return r
	}
	switch {
	case t.Foreign && t.Block != "" && c.mem.Judged:
		return c.rule(protocol.TaskPending, phrase(protocol.ReasonOperator, protocol.PhraseReleasedByHand, protocol.Facts{Text: t.Block}))
	case t.Foreign && t.Block != "":
		return c.rule(protocol.TaskWaiting, quote(protocol.ReasonBlocked, t.Block))
	case t.Foreign:
		return c.rule(protocol.TaskPending, untaken)
	}
	r := c.rule(protocol.TaskPending, untaken)
	r.next.Judgeable = judgeable
	if !c.mem.Open.IsZero() && r.passed(c.env, c.mem.Open.Add(c.timeout())) {
		tellUntaken(c, &r)
	}
	switch {
	case may:
		r.ask(c, "")
		if before := c.was.State; c.s.Busy && before != "" {
			r.verdict = TaskVerdict{State: before, Cause: because(protocol.ReasonBusy, protocol.Facts{})}
		}
	case !c.mem.Judged && !fresh(c, judgeable):
		// Too late to hold: its agent may have read it already.
		r.next.Judged = true
		r.verdict.Cause = because(protocol.ReasonTooLate, protocol.Facts{Agent: t.Agent})
	}
	return r
}

// mayHold reports whether the request may still be held, and since when its age counts.
func mayHold(c *taskCase) (may bool, judgeable time.Time) {
	judgeable = c.mem.Judgeable
	if c.t.Foreign || c.mem.Judged {
		return c.t.Foreign && c.t.Visible && !c.mem.Judged && !c.view.Once, judgeable
	}
	if judgeable.Before(c.t.Appeared) && c.s.Act && !c.s.Busy && !openTooLong(c) {
		judgeable = c.now
	}
	return fresh(c, judgeable) && c.t.Visible && !c.view.Once, judgeable
}

// fresh reports whether the request is young enough to be held. Its age counts from the first decision that could hold it: in
// a flood of requests the scan that shows a request may end seconds after the request appeared. A request that lay open for
// longer than [tasks] presume counts as taken. See docs/decisions.md, "A request's age counts from the first decision that could hold it".
func fresh(c *taskCase, judgeable time.Time) bool {
	if judgeable.Before(c.t.Appeared) {
		return !openTooLong(c)
	}
	return c.now.Sub(judgeable) <= c.cfg.Tasks.Judge
}

func openTooLong(c *taskCase) bool {
	return c.now.Sub(c.t.Appeared) > max(c.cfg.Tasks.Presume, c.cfg.Tasks.Judge)
}

// hold keeps the task from its agent, by lease.
func (r *taskRuling) hold(c *taskCase, reason string, why protocol.Cause, gate *protocol.Gate, until time.Time) {
	r.order(c, why, protocol.Change{Verb: protocol.VerbHold, Hold: reason, Gate: gate, Until: until, ReleaseBy: c.now.Add(c.cfg.Tasks.Lease)})
}

// tellUntaken notes a task that no agent took within its own time.
func tellUntaken(c *taskCase, r *taskRuling) {
	n := rules.Notice{Phrase: protocol.PhraseUntakenLong}
	n.At, n.Limit = c.mem.Open, c.timeout()
	if c.agent != nil {
		n.Agent, n.Name = c.t.Agent, string(c.agent.verdict.State)
	}
	r.tellTask(c, rules.Alert{Kind: "untaken", Severity: protocol.Medium, Occurrence: c.mem.Open.Format(time.RFC3339)}, n)
}
