package supervisor

import (
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol"
)

// admit lets waiting tasks of all projects in, in one order, as far as there is room, and renews the leases of
// those that stay held.
func (d *decision) admit() {
	waiters := make([]capacity.Waiter, 0, len(d.waiting))
	looks := make(map[protocol.Subject]*taskLook, len(d.waiting))
	for _, k := range d.waiting {
		waiters = append(waiters, k.waiter())
		looks[k.subject] = k
	}
	verdicts, memory, wake := capacity.Admit(waiters, d.view.Load, d.old.Gate, d.now, d.cfg.Capacity)
	d.plan.Memory.Gate = d.withAbsent(memory)
	d.wake(wake)
	for _, v := range verdicts {
		k := looks[v.Subject]
		if v.Admit {
			k.admitted(v)
		} else {
			k.refused(v)
		}
		d.keep(k)
	}
	for _, k := range d.renew {
		k.change(protocol.Change{Verb: protocol.VerbRenew, Reason: protocol.ReasonLease, Why: "the hold goes on",
			ReleaseBy: d.now.Add(d.cfg.Tasks.Lease)})
	}
	d.alertGate()
}

// withAbsent carries over what the gate remembers of tasks in projects that were not looked at, or where nothing
// may be changed now. They stand in nobody's way.
func (d *decision) withAbsent(gate capacity.Memory) capacity.Memory {
	for subject, held := range d.old.Gate.Held {
		s := d.looked[placeOf(subject)]
		if _, judged := gate.Held[subject]; !judged && (s == nil && d.now.Sub(held.Since) < forgetAfter || s != nil && !s.Act) {
			gate.Held[subject] = held
		}
	}
	return gate
}

// admitted lets the task be seen; one that was never held simply stays where it is.
func (k *taskLook) admitted(v capacity.Verdict) {
	if k.t.Hold == nil {
		k.mem.Judged = true
		k.verdict.Why += "; " + v.Why
		return
	}
	k.is(protocol.TaskPending, "let in: %s", v.Why)
	if k.change(protocol.Change{Verb: protocol.VerbRelease, Reason: k.release, Why: v.Why}) && k.overslept() {
		k.d.plan.Memory.LastReissue = k.d.now
	}
}

// refused holds the task, or keeps it held.
func (k *taskLook) refused(v capacity.Verdict) {
	if k.t.Hold != nil {
		k.verdict.Why = v.Why
		return
	}
	until := k.d.now.Add(v.RetryAfter)
	k.is(protocol.TaskDeferred, "%s", v.Why)
	k.verdict.NotBefore = until
	gate := v.Gate
	k.hold(protocol.HoldCapacity, protocol.ReasonCapacity, v.Why, &gate, until)
}

// alertGate tells the human of a gate that has been shut for long.
func (d *decision) alertGate() {
	for _, shut := range d.plan.Memory.Gate.Closed(d.cfg.Capacity) {
		due := shut.Since.Add(d.cfg.Capacity.AlarmAfter)
		if d.now.Before(due) {
			d.wake(due)
			continue
		}
		subject := protocol.Subject{Kind: protocol.KindMachine, ID: shut.Dimension}
		if shut.Agent.ID != "" {
			subject = shut.Agent
		}
		d.alert(escalate.Alert{Kind: "gate_shut", Code: shut.Dimension, Severity: protocol.High, Subject: subject, Agent: shut.Agent.ID,
			Summary:    fmt.Sprintf("No room for %s since %s: %s", tasks(shut.Waiting), clock(shut.Since), shut.Dimension),
			Detail:     fmt.Sprintf("Tasks have been held back since %s because of %s. %s", shut.Since.UTC().Format(time.RFC3339), shut.Dimension, consumers(d.view.Load.Consumers)),
			Spoken:     fmt.Sprintf("%s, tasks are held back for lack of %s.", d.cfg.Human, shut.Dimension),
			Occurrence: shut.Since.UTC().Format(time.RFC3339)})
	}
}

// consumers names the processes that use most.
func consumers(list []protocol.Consumer) string {
	if len(list) == 0 {
		return ""
	}
	var names []string
	for _, c := range list {
		names = append(names, fmt.Sprintf("%s (pid %d, %.1f cores, %d MiB)", c.Name, c.PID, c.CPU, c.Memory>>20))
	}
	return "Largest consumers: " + strings.Join(names, ", ")
}

func tasks(n int) string {
	if n == 1 {
		return "a task"
	}
	return fmt.Sprintf("%d tasks", n)
}
