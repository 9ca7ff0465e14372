package decide

import (
	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
)

// admit admits waiting tasks of all projects, in one order, as far as there is room, and renews the leases of those that
// stay held.
func (d *decision) admit() {
	waiters := make([]capacity.Waiter, 0, len(d.waiting))
	judges := make(map[protocol.Subject]*taskJudge, len(d.waiting))
	for _, k := range d.waiting {
		waiters = append(waiters, k.waiter())
		judges[k.subject] = k
	}
	d.claims.carryOver(d)
	d.plan.Claims = d.claims.all(d.view.Promised)
	work := capacity.Work{Waiters: waiters, Claims: d.plan.Claims, Ended: d.claims.ended}
	verdicts, memory, wake := capacity.Admit(work, d.view.Load, d.old.Gate, d.now, d.cfg.Capacity)
	d.plan.Memory.Gate = d.withAbsent(memory)
	d.wakeAt(wake)
	for _, v := range verdicts {
		k := judges[v.Subject]
		if v.Admit {
			if k.admitted(v) {
				d.plan.Memory.LastReissue = d.now
			}
			if k.agent != nil && !k.agent.dead() { // a dead agent takes nothing
				d.plan.Claims = append(d.plan.Claims, capacity.Claim{Subject: k.subject, Agent: k.s.Subject(protocol.KindAgent, k.t.Agent), Kind: k.kind(), Since: d.now})
			}
		} else {
			k.refused(v)
		}
		d.keep(k)
	}
	for _, k := range renewals(d.leases) {
		k.change(protocol.Change{Verb: protocol.VerbRenew, Reason: protocol.ReasonLease, Why: "the hold goes on",
			ReleaseBy: d.now.Add(d.cfg.Tasks.Lease)})
		d.merge(k.s, &k.ruling)
	}
	closed := d.plan.Memory.Gate.Closed(d.cfg.Capacity)
	d.alertGate(closed)
	d.alertStarving(closed)
	d.alertExhaustion()
}

// withAbsent carries over what the gate remembers of tasks in projects that were not scanned, or where nothing may be
// changed now. They block no other task.
func (d *decision) withAbsent(gate capacity.Memory) capacity.Memory {
	for subject, held := range d.old.Gate.Held {
		s := d.snapshotOf(subject)
		if _, judged := gate.Held[subject]; !judged && (s == nil && d.now.Sub(held.Since) < forgetAfter || s != nil && !s.Act) {
			gate.Held[subject] = held
		}
	}
	return gate
}

// admitted releases the task; one that was never held simply stays where it is. It reports whether an overdue retry is
// issued with it.
func (k *taskJudge) admitted(v capacity.Verdict) (reissued bool) {
	why := words.Sentence(v.Cause, k.env.now)
	k.next.Admitted = k.env.now
	if k.t.Hold == nil {
		k.next.Judged = true
		k.verdict.Why += "; " + why
		return false
	}
	k.is(protocol.TaskPending, protocol.ReasonRoom, "admitted: %s", why)
	return k.change(protocol.Change{Verb: protocol.VerbRelease, Reason: k.release, Why: why}) && k.overslept()
}

// refused holds the task, or keeps it held.
func (k *taskJudge) refused(v capacity.Verdict) {
	why := words.Sentence(v.Cause, k.env.now)
	if k.t.Hold != nil {
		k.verdict.Reason, k.verdict.Why = protocol.ReasonCapacity, why
		return
	}
	until := k.env.now.Add(v.RetryAfter)
	k.is(protocol.TaskDeferred, protocol.ReasonCapacity, "%s", why)
	k.verdict.NotBefore = until
	gate := v.Gate
	k.hold(protocol.HoldCapacity, protocol.ReasonCapacity, why, &gate, until)
}
