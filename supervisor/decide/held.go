package decide

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// held judges a task that is kept from its agent.
func (k *taskLook) held() {
	h := k.t.Hold
	if h.Half {
		k.is(protocol.TaskPending, protocol.ReasonRepair, "a half-made hold is taken back")
		k.change(protocol.Change{Verb: protocol.VerbRelease, Reason: protocol.ReasonRepair, Why: "a crash left the notice without the hold"})
		return
	}
	if k.t.Outcome != nil {
		k.heldWithResult()
		return
	}
	if last := k.lastTaking(); h.Reason == protocol.HoldRetry && last != nil && last.Action == protocol.ActionRetry {
		if why := k.requests.after(k.t); why != "" {
			k.is(protocol.TaskFailed, protocol.ReasonSuperseded, "%s", why)
			k.change(protocol.Change{Verb: protocol.VerbCancel, Reason: protocol.ReasonSuperseded, Why: why})
			return
		}
	}
	if k.lease() {
		return
	}
	switch h.Reason {
	case protocol.HoldCapacity:
		if k.heldTooLate() {
			k.is(protocol.TaskRunning, protocol.ReasonTooLate, "%s names it; it had read the request when that was held", k.t.Agent)
			k.verdict.NotBefore = h.NotBefore
			return
		}
		k.is(protocol.TaskDeferred, protocol.ReasonCapacity, "held until there is room")
		k.verdict.NotBefore = h.NotBefore
		k.release = protocol.ReasonRoom
		k.d.wait(k)
	case protocol.HoldBlocked:
		if k.t.Block != "" {
			k.is(protocol.TaskWaiting, protocol.ReasonBlocked, "%s", k.t.Block)
			return
		}
		if k.t.Foreign {
			k.is(protocol.TaskPending, protocol.ReasonDue, "nothing is in its way any more")
			k.change(protocol.Change{Verb: protocol.VerbRelease, Reason: protocol.ReasonDue, Why: k.verdict.Why})
			return
		}
		k.letIn(protocol.ReasonDue)
	case protocol.HoldRetry:
		k.retryWait()
	default:
		k.is(protocol.TaskWaiting, protocol.ReasonBlocked, "held: %s", h.Reason)
	}
}

// heldTooLate reports whether the agent works on a task that is held for want of room: it had read the request in the
// very moment in which that was put out of sight. Such a task needs no room; it has it.
func (k *taskLook) heldTooLate() bool {
	h := k.t.Hold
	return h != nil && h.Reason == protocol.HoldCapacity && k.t.Outcome == nil && k.agent != nil && !k.agent.dead() && k.agent.names(k.t.ID)
}

// retryWait lets the next run in once it is due. Those that fell due while the machine slept go one by one.
func (k *taskLook) retryWait() {
	h, d := k.t.Hold, k.d
	if d.now.Before(h.NotBefore) && !k.fromTheFuture() {
		k.wait(protocol.TaskWaiting, protocol.ReasonRetry, h.NotBefore, "attempt %d is due at %s", k.t.Attempt(), clock(h.NotBefore))
		return
	}
	if k.overslept() {
		if next := d.plan.Memory.LastReissue.Add(reissueEvery); d.now.Before(next) || d.reissued {
			if d.reissued {
				next = d.now.Add(reissueEvery)
			}
			k.wait(protocol.TaskWaiting, protocol.ReasonResumed, next, "overdue; reissued one by one after the pause")
			return
		}
		d.reissued = true
	}
	k.letIn(protocol.ReasonDue)
}

// fromTheFuture: the hold was made at a time that is yet to come, so the clock was set back since. How much of its delay
// is over nobody can tell any more; by the clock that there is now it would come hours or weeks late. The grace of the
// resume is what it waits.
func (k *taskLook) fromTheFuture() bool {
	since := k.t.Hold.Since
	if !since.After(k.d.now.Add(clockPlay)) {
		return false
	}
	if k.d.old.LastLook.After(k.d.now) { // set just now: the loop has not felt it yet, and does in its next turn
		k.d.wake(k.d.now.Add(time.Millisecond))
		return false
	}
	if k.d.resuming() {
		k.d.wake(k.d.plan.Memory.ResumeUntil)
		return false
	}
	return true
}

// clockPlay is how far clocks are set all the time.
const clockPlay = time.Minute

// reissueEvery is the pace of the retries that fell due while the machine slept.
const reissueEvery = 5 * time.Second

// overslept reports whether a retry fell due before the machine was awake again.
func (k *taskLook) overslept() bool {
	h := k.t.Hold
	return h != nil && h.Reason == protocol.HoldRetry && h.NotBefore.Before(k.d.plan.Memory.ResumeUntil)
}

// letIn asks the capacity policy for room.
func (k *taskLook) letIn(reason protocol.Reason) {
	k.is(protocol.TaskWaiting, protocol.ReasonDue, "due; waits for room")
	k.release = reason
	k.d.wait(k)
}

// heldWithResult judges a result that arrived although the request was out of sight: the agent had it already. What is
// held between two attempts has the last one's result on record, so this is a second one of it. What is held for any
// other reason was in sight before: the result is the present attempt's, and counts.
func (k *taskLook) heldWithResult() {
	o := k.t.Outcome
	last := k.lastTaking()
	if o.Succeeded() || last == nil || last.Ours || k.t.Hold.Reason != protocol.HoldRetry {
		k.is(protocol.TaskRunning, protocol.ReasonFinished, "its result arrived while it was held")
		k.change(protocol.Change{Verb: protocol.VerbRelease, Reason: protocol.ReasonFinished, Why: "its result arrived while it was held"})
		return
	}
	k.is(protocol.TaskWaiting, protocol.ReasonLate, "a second result of the attempt that is judged already")
	k.change(protocol.Change{Verb: protocol.VerbFile, Reason: protocol.ReasonLate, Ref: o.Ref,
		Why: "a second result of an attempt that is judged already"})
}

// lastTaking is the last attempt on record, nil if none.
func (k *taskLook) lastTaking() *protocol.Attempt {
	for i := len(k.t.Attempts) - 1; i >= 0; i-- {
		if k.t.Attempts[i].Committed {
			return &k.t.Attempts[i]
		}
	}
	return nil
}

// lease renews the hold in time, or releases what a dead daemon left when this is a single look. It reports
// whether that settled the task for this turn.
func (k *taskLook) lease() bool {
	h, now := k.t.Hold, k.d.now
	if k.d.view.Once {
		if now.Before(h.ReleaseBy) {
			return false
		}
		k.is(protocol.TaskPending, protocol.ReasonLease, "its lease is over")
		return k.change(protocol.Change{Verb: protocol.VerbRelease, Reason: protocol.ReasonLease, Why: "the hold outlived its lease"})
	}
	if renew := k.renewAt(2); now.Before(renew) {
		k.d.wake(renew)
	}
	if !k.d.now.Before(k.renewAt(3)) {
		k.d.leases = append(k.d.leases, k)
	}
	return false
}

// renewAt is when one part in so many of the lease is used up.
func (k *taskLook) renewAt(part time.Duration) time.Time {
	lease := k.d.cfg.Tasks.Lease
	return k.t.Hold.ReleaseBy.Add(lease/part - lease)
}

// renewals lists the holds to be renewed. With one whose lease is half used go all of its project of which a third is:
// else each of many holds would bring a decision at a moment of its own.
func (d *decision) renewals() []*taskLook {
	due := map[string]bool{}
	for _, k := range d.leases {
		if !d.now.Before(k.renewAt(2)) {
			due[k.s.Project] = true
		}
	}
	return slices.DeleteFunc(d.leases, func(k *taskLook) bool { return !due[k.s.Project] })
}

// fresh reports whether the request may still be held. Its age counts from the first decision that could hold it: in a
// flood of requests the look that shows one may end seconds after it appeared. A request that lay open for longer than
// [tasks] presume counts as taken by then.
func (k *taskLook) fresh() bool {
	cfg := &k.d.cfg.Tasks
	from := k.mem.Judgeable
	if from.Before(k.t.Appeared) {
		if k.d.now.Sub(k.t.Appeared) > max(cfg.Presume, cfg.Judge) {
			return false
		}
		if !k.s.Act || k.s.Busy {
			return true
		}
		k.mem.Judgeable, from = k.d.now, k.d.now
	}
	return k.d.now.Sub(from) <= cfg.Judge
}
