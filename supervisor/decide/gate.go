package decide

import (
	"slices"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
)

// judgedTask is a task with what was ruled on it.
type judgedTask struct {
	taskCase
	taskRuling
}

// admission is what the gate rules.
type admission struct {
	claims  []capacity.Reservation
	memory  capacity.Memory
	changed []*judgedTask // tasks whose ruling the gate changed; its memory and verdict are to be stored again
	reissue bool          // an overdue retry is issued
	ruling
}

// admit admits waiting tasks of all projects, in one order, as far as there is room, and renews the leases of those that
// stay held.
func admit(e *env, tasks []judgedTask) (g admission) {
	var waiters []capacity.Waiter
	waiting := map[protocol.Subject]*judgedTask{}
	for i := range tasks {
		if k := &tasks[i]; k.asks {
			waiters = append(waiters, waiter(k))
			waiting[k.subject] = k
		}
	}
	reserved := reservations(e, tasks)
	g.claims = reserved.list
	work := capacity.Work{Waiters: waiters, Reservations: g.claims, Ended: reserved.ended}
	verdicts, memory, wake := capacity.Admit(work, e.view.Load, e.last.Gate, e.now, e.cfg.Capacity)
	g.memory = withAbsent(e, memory)
	g.wakeAt(wake, e.now)
	for _, v := range verdicts {
		k := waiting[v.Subject]
		k.ruling = ruling{changed: k.changed}
		if !v.Admit {
			refused(k, v)
		} else {
			g.reissue = admitted(k, v) || g.reissue
			if k.agent != nil && !k.agent.dead() { // a dead agent takes nothing
				g.claims = append(g.claims, capacity.Reservation{Subject: k.subject, Agent: k.s.Subject(protocol.KindAgent, k.t.Agent), Kind: costKind(&k.taskCase), Since: e.now})
			}
		}
		k.next = remember(&k.taskCase, &k.taskRuling)
		g.changed = append(g.changed, k)
	}
	g.changed = append(g.changed, renewals(e, tasks)...)
	return g
}

// waiter describes a task to the capacity policy.
func waiter(k *judgedTask) capacity.Waiter {
	w := capacity.Waiter{Subject: k.subject, Kind: costKind(&k.taskCase), Priority: k.t.Priority, Since: k.next.FirstSeen, Throttle: rounded(k.t.Throttle),
		Busy: k.s.Busy, Idle: k.agent == nil || k.agent.dead()}
	if k.t.Agent != "" {
		w.Agent = k.s.Subject(protocol.KindAgent, k.t.Agent)
	}
	if k.agent != nil {
		w.AgentUsed = k.agent.used
	}
	if h := k.t.Hold; h != nil {
		// A task that waits for room after its retry fell due is held for capacity, whatever the notice says.
		_, queued := k.last.Gate.Held[k.subject]
		w.Held = queued || h.Reason == protocol.HoldCapacity
	}
	return w
}

// withAbsent carries over what the gate remembers of tasks in projects that were not scanned, or where nothing may be
// changed now. They block no other task.
func withAbsent(e *env, gate capacity.Memory) capacity.Memory {
	for subject, held := range e.last.Gate.Held {
		s := e.snapshotOf(subject)
		if _, judged := gate.Held[subject]; !judged && (s == nil && e.now.Sub(held.Since) < forgetAfter || s != nil && !s.Act) {
			gate.Held[subject] = held
		}
	}
	return gate
}

// admitted releases a task; one that was never held simply stays where it is. It reports whether an overdue retry is issued
// with it.
func admitted(k *judgedTask, v capacity.Verdict) (reissued bool) {
	k.next.Admitted = k.now
	facts := v.Facts
	facts.Base = v.Phrase
	if k.t.Hold == nil {
		k.next.Judged = true
		p := protocol.PhraseUntakenRoom
		if k.verdict.Reason == protocol.ReasonBusy {
			p = protocol.PhraseBusyRoom
		}
		facts.Agent = k.t.Agent
		k.verdict.Cause = phrase(k.verdict.Reason, p, facts)
		return false
	}
	k.verdict = TaskVerdict{State: protocol.TaskPending, Cause: phrase(protocol.ReasonRoom, protocol.PhraseAdmitted, facts)}
	return k.order(&k.taskCase, v.Cause, protocol.Change{Verb: protocol.VerbRelease, Reason: k.release}) && k.overslept()
}

// refused holds a task, or keeps it held.
func refused(k *judgedTask, v capacity.Verdict) {
	why := v.Cause
	why.Reason = protocol.ReasonCapacity
	k.verdict.Cause = why
	if k.t.Hold != nil {
		return
	}
	until, gate := k.now.Add(v.RetryAfter), v.Gate
	k.verdict.State, k.verdict.NotBefore = protocol.TaskDeferred, until
	k.hold(&k.taskCase, protocol.HoldCapacity, why, &gate, until)
}

// renewals orders the holds to be renewed, except those that are released. When half of one lease is used, all holds of its
// project are renewed that have used a third; otherwise each of many holds would cause a decision of its own.
func renewals(e *env, tasks []judgedTask) (renewed []*judgedTask) {
	due := map[string]bool{}
	for i := range tasks {
		if k := &tasks[i]; k.renews && !k.now.Before(renewAt(&k.taskCase, 2)) {
			due[k.s.Project] = true
		}
	}
	for i := range tasks {
		if k := &tasks[i]; k.renews && due[k.s.Project] {
			k.order(&k.taskCase, phrase(protocol.ReasonLease, protocol.PhraseHoldGoesOn, protocol.Facts{}),
				protocol.Change{Verb: protocol.VerbRenew, ReleaseBy: e.now.Add(e.cfg.Tasks.Lease)})
			if !slices.Contains(renewed, k) {
				renewed = append(renewed, k)
			}
		}
	}
	return renewed
}
