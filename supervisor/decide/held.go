package decide

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// held reports whether the task is kept from its agent. A retry that a crash cut short has hidden the request but not yet
// taken the result: that goes on as a retry.
func held(c *taskCase) bool {
	return c.t.Hold != nil && (c.t.Outcome == nil || !scheduled(c.t) || c.t.Outcome.Succeeded())
}

func heldFor(reason string) func(*taskCase) bool {
	return func(c *taskCase) bool { return held(c) && c.t.Hold.Reason == reason }
}

func takeBackHold(c *taskCase) taskRuling {
	r := c.rule(protocol.TaskPending, phrase(protocol.ReasonRepair, protocol.PhraseHoldTakenBack, protocol.Facts{}))
	r.order(c, phrase(protocol.ReasonRepair, protocol.PhraseHalfHold, protocol.Facts{}), protocol.Change{Verb: protocol.VerbRelease})
	return r
}

// heldWithResult judges a result that arrived while the request was hidden: the agent had read it before. Held between two
// attempts: the previous attempt's result is already recorded, so this one is a late duplicate; file it. Held for another
// reason: the request was visible before, so the result belongs to the present attempt and counts.
// See docs/decisions.md, "A result that arrives during a hold counts by the hold's reason".
func heldWithResult(c *taskCase) taskRuling {
	o, last := c.t.Outcome, lastAttempt(c.t)
	if o.Succeeded() || last == nil || last.Ours || c.t.Hold.Reason != protocol.HoldRetry {
		r := c.rule(protocol.TaskRunning, phrase(protocol.ReasonFinished, protocol.PhraseResultWhileHeld, protocol.Facts{}))
		r.order(c, r.verdict.Cause, protocol.Change{Verb: protocol.VerbRelease})
		return r
	}
	r := c.rule(protocol.TaskWaiting, because(protocol.ReasonLate, protocol.Facts{}))
	r.order(c, phrase(protocol.ReasonLate, protocol.PhraseSecondResult, protocol.Facts{}), protocol.Change{Verb: protocol.VerbFile, Judged: protocol.Judged{Ref: o.Ref}})
	return r
}

// lastAttempt is the last attempt whose result was taken, nil if none exists.
func lastAttempt(t *protocol.Task) *protocol.Attempt {
	if list := t.Committed(); len(list) > 0 {
		return &list[len(list)-1]
	}
	return nil
}

// supersededRetry says which newer request asks for what waits for its retry, "" if none does.
func supersededRetry(c *taskCase) protocol.Phrase {
	if last := lastAttempt(c.t); c.t.Hold.Reason != protocol.HoldRetry || last == nil || last.Action != protocol.ActionRetry {
		return ""
	}
	return c.requests.after(c.t)
}

func cancelRetry(c *taskCase) taskRuling { return superseded(c, supersededRetry(c), protocol.Ref{}) }

// superseded gives up a retry because a newer request asks for the same work.
func superseded(c *taskCase, by protocol.Phrase, result protocol.Ref) taskRuling {
	r := c.rule(protocol.TaskFailed, phrase(protocol.ReasonSuperseded, by, protocol.Facts{}))
	r.order(c, r.verdict.Cause, protocol.Change{Verb: protocol.VerbCancel, Judged: protocol.Judged{Ref: result}})
	return r
}

// leaseOver reports whether to release a hold that a dead daemon left, because this is the only scan.
func leaseOver(c *taskCase) bool {
	return c.view.Once && !c.now.Before(c.t.Hold.ReleaseBy) && c.free()
}

func releaseLease(c *taskCase) taskRuling {
	r := c.rule(protocol.TaskPending, because(protocol.ReasonLease, protocol.Facts{}))
	r.order(c, phrase(protocol.ReasonLease, protocol.PhraseOutlivedLease, protocol.Facts{}), protocol.Change{Verb: protocol.VerbRelease})
	return r
}

func heldForRoom(c *taskCase) taskRuling {
	r := c.rule(protocol.TaskDeferred, because(protocol.ReasonCapacity, protocol.Facts{}))
	if c.heldTooLate() {
		r = c.rule(protocol.TaskRunning, phrase(protocol.ReasonTooLate, protocol.PhraseReadBeforeHold, protocol.Facts{Agent: c.t.Agent}))
	} else {
		r.ask(c, protocol.ReasonRoom)
	}
	r.verdict.NotBefore = c.t.Hold.NotBefore
	r.keepLease(c)
	return r
}

func heldByBlock(c *taskCase) (r taskRuling) {
	switch {
	case c.t.Block != "":
		r = c.rule(protocol.TaskWaiting, quote(protocol.ReasonBlocked, c.t.Block))
	case c.t.Foreign:
		r = c.rule(protocol.TaskPending, phrase(protocol.ReasonDue, protocol.PhraseNothingInWay, protocol.Facts{}))
		r.order(c, r.verdict.Cause, protocol.Change{Verb: protocol.VerbRelease})
	default:
		r = due(c)
	}
	r.keepLease(c)
	return r
}

func heldOtherwise(c *taskCase) taskRuling {
	r := c.rule(protocol.TaskWaiting, phrase(protocol.ReasonBlocked, protocol.PhraseHeldFor, protocol.Facts{Text: c.t.Hold.Reason}))
	r.keepLease(c)
	return r
}

// heldForRetry asks for room for the next run once it is due. Retries that fell due while the machine slept are issued one by
// one.
func heldForRetry(c *taskCase) taskRuling {
	h := c.t.Hold
	future, wake := fromTheFuture(c)
	r := due(c)
	switch {
	case c.now.Before(h.NotBefore) && !future:
		r = c.wait(protocol.TaskWaiting, h.NotBefore, because(protocol.ReasonRetry, protocol.Facts{Count: c.t.Attempt(), Until: h.NotBefore}))
		r.wakeAt(wake, c.now)
	case c.overslept():
		next := c.lastReissue.Add(reissueEvery)
		if c.reissued {
			next = c.now.Add(reissueEvery)
		}
		if c.reissued || c.now.Before(next) {
			r = c.wait(protocol.TaskWaiting, next, because(protocol.ReasonResumed, protocol.Facts{}))
		} else {
			r.reissues = true
		}
	}
	r.keepLease(c)
	return r
}

// fromTheFuture reports whether the hold was made at a time that has not come yet: the clock was set back since. How much of
// the delay has passed is unknown, and by the present clock the retry would come hours or weeks late. It waits for the grace
// after a resume instead; wake is when to decide again.
func fromTheFuture(c *taskCase) (future bool, wake time.Time) {
	switch {
	case !c.t.Hold.Since.After(c.now.Add(clockPlay)):
		return false, wake
	case c.last.LastLook.After(c.now): // set just now: the loop notices it at its next step
		return false, c.now.Add(time.Millisecond)
	case c.resuming():
		return false, c.resumeUntil
	}
	return true, wake
}

// clockPlay is by how much clocks are adjusted routinely.
const clockPlay = time.Minute

// reissueEvery is the pace of the retries that fell due while the machine slept.
const reissueEvery = 5 * time.Second

// due asks the capacity policy for room.
func due(c *taskCase) taskRuling {
	r := c.rule(protocol.TaskWaiting, because(protocol.ReasonDue, protocol.Facts{}))
	r.ask(c, protocol.ReasonDue)
	return r
}

// keepLease has the hold renewed in time.
func (r *taskRuling) keepLease(c *taskCase) {
	if c.view.Once {
		return
	}
	r.wakeAt(renewAt(c, 2), c.now)
	r.renews = !c.now.Before(renewAt(c, 3))
}

// renewAt is when the given part of the lease is used up: 2 for a half, 3 for a third.
func renewAt(c *taskCase, part time.Duration) time.Time {
	lease := c.cfg.Tasks.Lease
	return c.t.Hold.ReleaseBy.Add(lease/part - lease)
}
