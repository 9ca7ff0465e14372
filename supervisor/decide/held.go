package decide

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// held reports whether the task is kept from its agent. A retry that a crash cut short has hidden the request but not yet
// taken the result: that goes on as a retry.
func (k *taskJudge) held() bool {
	return k.t.Hold != nil && (k.t.Outcome == nil || !scheduled(k.t) || k.t.Outcome.Succeeded())
}

func heldFor(reason string) func(*taskJudge) bool {
	return func(k *taskJudge) bool { return k.held() && k.t.Hold.Reason == reason }
}

func (k *taskJudge) takeBackHold() {
	k.is(protocol.TaskPending, protocol.ReasonRepair, "a half-made hold is taken back")
	k.change(protocol.Change{Verb: protocol.VerbRelease, Reason: protocol.ReasonRepair, Why: "a crash left the notice without the hold"})
}

// supersededRetry says which newer request asks for what waits for its retry, "" if none does.
func (k *taskJudge) supersededRetry() string {
	if last := k.lastAttempt(); k.t.Hold.Reason != protocol.HoldRetry || last == nil || last.Action != protocol.ActionRetry {
		return ""
	}
	return k.requests.after(k.t)
}

func (k *taskJudge) cancelRetry() {
	why := k.supersededRetry()
	k.is(protocol.TaskFailed, protocol.ReasonSuperseded, "%s", why)
	k.change(protocol.Change{Verb: protocol.VerbCancel, Reason: protocol.ReasonSuperseded, Why: why})
}

func (k *taskJudge) heldForRoom() {
	k.keepLease()
	if k.heldTooLate() {
		k.is(protocol.TaskRunning, protocol.ReasonTooLate, "%s names it; it had read the request when that was held", k.t.Agent)
		k.verdict.NotBefore = k.t.Hold.NotBefore
		return
	}
	k.is(protocol.TaskDeferred, protocol.ReasonCapacity, "held until there is room")
	k.verdict.NotBefore = k.t.Hold.NotBefore
	k.ask(protocol.ReasonRoom)
}

func (k *taskJudge) heldByBlock() {
	k.keepLease()
	switch {
	case k.t.Block != "":
		k.is(protocol.TaskWaiting, protocol.ReasonBlocked, "%s", k.t.Block)
	case k.t.Foreign:
		k.is(protocol.TaskPending, protocol.ReasonDue, "nothing is in its way any more")
		k.change(protocol.Change{Verb: protocol.VerbRelease, Reason: protocol.ReasonDue, Why: k.verdict.Why})
	default:
		k.letIn(protocol.ReasonDue)
	}
}

func (k *taskJudge) heldOtherwise() {
	k.keepLease()
	k.is(protocol.TaskWaiting, protocol.ReasonBlocked, "held: %s", k.t.Hold.Reason)
}

// heldTooLate reports whether the agent works on a task that is held for want of room: it had read the request at the moment
// when steward hid it. Such a task needs no room; it has it. See docs/decisions.md, "A held task that its agent names is in hand".
func (k *taskJudge) heldTooLate() bool {
	h := k.t.Hold
	return h != nil && h.Reason == protocol.HoldCapacity && k.t.Outcome == nil && k.agent != nil && !k.agent.dead() && k.agent.names(k.t.ID)
}

// retryWait asks for room for the next run once it is due. Retries that fell due while the machine slept are issued one by
// one.
func (k *taskJudge) retryWait() {
	k.keepLease()
	h, now := k.t.Hold, k.env.now
	if now.Before(h.NotBefore) && !k.fromTheFuture() {
		k.wait(protocol.TaskWaiting, protocol.ReasonRetry, h.NotBefore, "attempt %d is due at %s", k.t.Attempt(), clock(h.NotBefore))
		return
	}
	if k.overslept() {
		if next := k.lastReissue.Add(reissueEvery); now.Before(next) || k.reissued {
			if k.reissued {
				next = now.Add(reissueEvery)
			}
			k.wait(protocol.TaskWaiting, protocol.ReasonResumed, next, "overdue; reissued one by one after the pause")
			return
		}
		k.reissues = true
	}
	k.letIn(protocol.ReasonDue)
}

// fromTheFuture reports whether the hold was made at a time that has not come yet: the clock was set back since. How much of
// the delay has passed is unknown, and by the present clock the retry would come hours or weeks late. It waits for the grace
// after a resume instead.
func (k *taskJudge) fromTheFuture() bool {
	since := k.t.Hold.Since
	if !since.After(k.env.now.Add(clockPlay)) {
		return false
	}
	if k.env.old.LastLook.After(k.env.now) { // set just now: the loop notices it at its next step
		k.wake(k.env.now.Add(time.Millisecond))
		return false
	}
	if k.env.resuming() {
		k.wake(k.env.resumeUntil)
		return false
	}
	return true
}

// clockPlay is by how much clocks are adjusted routinely.
const clockPlay = time.Minute

// reissueEvery is the pace of the retries that fell due while the machine slept.
const reissueEvery = 5 * time.Second

// overslept reports whether the retry fell due before the machine was awake again.
func (k *taskJudge) overslept() bool {
	h := k.t.Hold
	return h != nil && h.Reason == protocol.HoldRetry && h.NotBefore.Before(k.env.resumeUntil)
}

// letIn asks the capacity policy for room.
func (k *taskJudge) letIn(reason protocol.Reason) {
	k.is(protocol.TaskWaiting, protocol.ReasonDue, "due; waits for room")
	k.ask(reason)
}

// heldWithResult judges a result that arrived while the request was hidden: the agent had read it before. Held between two
// attempts: the previous attempt's result is already recorded, so this one is a late duplicate; file it. Held for another
// reason: the request was visible before, so the result belongs to the present attempt and counts.
// See docs/decisions.md, "A result that arrives during a hold counts by the hold's reason".
func (k *taskJudge) heldWithResult() {
	o := k.t.Outcome
	last := k.lastAttempt()
	if o.Succeeded() || last == nil || last.Ours || k.t.Hold.Reason != protocol.HoldRetry {
		k.is(protocol.TaskRunning, protocol.ReasonFinished, "its result arrived while it was held")
		k.change(protocol.Change{Verb: protocol.VerbRelease, Reason: protocol.ReasonFinished, Why: "its result arrived while it was held"})
		return
	}
	k.is(protocol.TaskWaiting, protocol.ReasonLate, "a second result of the attempt that is judged already")
	k.change(protocol.Change{Verb: protocol.VerbFile, Reason: protocol.ReasonLate, Judged: protocol.Judged{Ref: o.Ref},
		Why: "a second result of an attempt that is judged already"})
}

// lastAttempt is the last attempt whose result was taken, nil if there is none.
func (k *taskJudge) lastAttempt() *protocol.Attempt {
	for i := len(k.t.Attempts) - 1; i >= 0; i-- {
		if k.t.Attempts[i].Committed {
			return &k.t.Attempts[i]
		}
	}
	return nil
}

// leaseOver reports whether a hold that a dead daemon left is to be released, because this is the only scan.
func (k *taskJudge) leaseOver() bool {
	return k.env.view.Once && !k.env.now.Before(k.t.Hold.ReleaseBy) && k.free()
}

func (k *taskJudge) releaseLease() {
	k.is(protocol.TaskPending, protocol.ReasonLease, "its lease is over")
	k.change(protocol.Change{Verb: protocol.VerbRelease, Reason: protocol.ReasonLease, Why: "the hold outlived its lease"})
}

// keepLease has the hold renewed in time.
func (k *taskJudge) keepLease() {
	if k.env.view.Once {
		return
	}
	if renew := k.renewAt(2); k.env.now.Before(renew) {
		k.wake(renew)
	}
	k.renews = !k.env.now.Before(k.renewAt(3))
}

// renewAt is when the given part of the lease is used up: 2 for a half, 3 for a third.
func (k *taskJudge) renewAt(part time.Duration) time.Time {
	lease := k.env.cfg.Tasks.Lease
	return k.t.Hold.ReleaseBy.Add(lease/part - lease)
}

// renewals lists the holds to renew. When half of one lease is used, all holds of its project are renewed that have used a
// third; otherwise each of many holds would cause a decision of its own.
func renewals(leases []*taskJudge) []*taskJudge {
	due := map[string]bool{}
	for _, k := range leases {
		if !k.env.now.Before(k.renewAt(2)) {
			due[k.s.Project] = true
		}
	}
	return slices.DeleteFunc(leases, func(k *taskJudge) bool { return !due[k.s.Project] })
}

// fresh reports whether the request may still be held. Its age counts from the first decision that could hold it: in a flood
// of requests the scan that shows a request may end seconds after the request appeared. A request that lay open for longer
// than [tasks] presume counts as taken. See docs/decisions.md, "A request's age counts from the first decision that could hold it".
func (k *taskJudge) fresh() bool {
	cfg := &k.env.cfg.Tasks
	from := k.next.Judgeable
	if from.Before(k.t.Appeared) {
		if k.env.now.Sub(k.t.Appeared) > max(cfg.Presume, cfg.Judge) {
			return false
		}
		if !k.s.Act || k.s.Busy {
			return true
		}
		k.next.Judgeable, from = k.env.now, k.env.now
	}
	return k.env.now.Sub(from) <= cfg.Judge
}
