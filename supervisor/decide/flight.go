package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// inFlight says what shows that the agent works on the task, "" if nothing does. An agent that never names its tasks (the
// executor of protocol 000, Task Discovery) is presumed to have taken a task that lay visible to it.
// See docs/decisions.md, "A presumption starts no clock and reserves nothing for absent agents".
func (k *taskJudge) inFlight() string {
	if k.t.Named != "" || k.t.Foreign {
		return k.t.Named
	}
	if !k.next.Running.IsZero() {
		return "seen running"
	}
	if k.agent != nil && !k.agent.agent.Claims && !k.agent.mem.Names && k.agent.works() && k.next.Visible > k.env.cfg.Tasks.Presume {
		return "presumed taken"
	}
	return ""
}

// timeoutOf is the task's own limit, or the configured one, capped; 0 if its protocol sets none.
func timeoutOf(task *protocol.Task, cfg *Config) time.Duration {
	t := task.Timeout
	if t == protocol.NoTimeout {
		return 0
	}
	if t <= 0 {
		t = cfg.Tasks.Timeout
	}
	return min(t, cfg.Tasks.MaxTimeout)
}

func (k *taskJudge) timeout() time.Duration { return timeoutOf(k.t, &k.env.cfg) }

// running judges an attempt in flight: it may be over its time, or its agent gone.
func (k *taskJudge) running() {
	by := k.inFlight()
	if k.next.Running.IsZero() || k.next.Presumed && k.t.Named != "" { // it is taken only now: until now that was a guess
		k.next.Running, k.next.Presumed = k.at, k.t.Named == "" && !k.t.Foreign
		if t := k.t.Started; !t.IsZero() && t.Before(k.at) {
			k.next.Running = plain(t)
		}
	}
	k.next.Judged = true
	started := k.next.Running
	deadline := started.Add(k.timeout())
	timed := k.t.Timeout != protocol.NoTimeout
	overdue := !timed || k.over(deadline) // without a time limit only the silence of its agent counts
	k.is(protocol.TaskRunning, protocol.ReasonInFlight, "in flight (%s) since %s", by, moment(started, k.env.now))
	if k.t.Awaits != "" {
		k.is(protocol.TaskWaiting, protocol.ReasonAwaits, "waits for %s", k.t.Awaits)
	}
	if k.t.Lost == "" && !k.agent.dead() {
		k.next.Alone, k.next.LostAt = time.Time{}, time.Time{}
	}
	switch {
	case len(k.t.Workers) > 0:
		k.worked(overdue, deadline)
	case k.t.Lost != "":
		k.alone()
	case k.agent.dead() && k.agent.agent.Presence != protocol.PresenceUnproved:
		k.is(protocol.TaskRunning, protocol.ReasonGone, "its agent %s is gone; its own protocol may still go on with it", k.t.Agent)
	case k.agent.dead() && k.agent.verdict.Proof:
		k.lost(false, "its agent "+k.t.Agent+" is proved to be gone")
	case k.agent.alive() && k.dropped():
		k.lost(false, "its agent "+k.t.Agent+" beats and no longer names it")
	case k.agent.dead() && overdue && k.at.Before(deadline):
		k.is(protocol.TaskRunning, protocol.ReasonSilent, "its agent %s is silent and the task's time is over", k.t.Agent)
		k.rescan(deadline) // it may have sent a heartbeat since the scan
	case k.agent.dead() && overdue:
		k.lost(true, "its agent "+k.t.Agent+" is silent and the task's time is over; the old attempt may still run")
	case k.agent.dead():
		k.is(protocol.TaskRunning, protocol.ReasonSilent, "its agent %s is silent; issued again after the task's own deadline %s", k.t.Agent, clock(deadline))
	case overdue && timed:
		k.is(protocol.TaskRunning, protocol.ReasonOverdue, "over its time of %s since %s; %s", span(k.timeout()), clock(deadline), k.goesOn())
		k.alertOverrun(deadline)
	}
	k.progress()
}

// progress notices that the updates that the request asked for do not come (000, Progressive Updates). It allows two and a
// half intervals, because the timer of the client and ours are never in step.
func (k *taskJudge) progress() {
	p := k.t.Progress
	if p.Every <= 0 || k.agent.dead() {
		return
	}
	last := k.next.Running
	if p.At.After(last) {
		last = plain(p.At)
	}
	if k.over(last.Add(p.Every * 5 / 2)) {
		k.alertStalled(last)
	}
}

// over reports whether a deadline has passed. Right after a sleep none has: the agent slept, too.
// See docs/decisions.md, "A loss needs a scan after the deadline".
func (k *taskJudge) over(deadline time.Time) bool {
	if k.env.now.Before(deadline) {
		k.wake(deadline)
		return false
	}
	if k.env.resuming() {
		k.wake(k.env.resumeUntil)
		return false
	}
	return true
}

// goesOn says what is known of a task that is over its time.
func (k *taskJudge) goesOn() string {
	if k.agent.alive() {
		return k.t.Agent + " goes on with it"
	}
	state := protocol.AgentUnknown
	if k.agent != nil {
		state = k.agent.verdict.State
	}
	return fmt.Sprintf("%s is %s", k.t.Agent, state)
}

// dropped reports whether the agent named the task in this run and has stopped naming it for a while. The delay is needed
// because agents clear active_tasks a moment before they write the result. Progress since then contradicts it. The task was
// dropped some time before the scan that showed it, so progress slightly older than that scan contradicts it too.
// See docs/decisions.md, "An agent that stops naming a task must beat once more".
func (k *taskJudge) dropped() bool {
	if !k.next.Named || k.next.Unnamed.IsZero() {
		return false
	}
	if at := k.t.Progress.At; !at.IsZero() && !at.Before(k.next.Unnamed.Add(-2*k.env.cfg.LookEvery)) {
		return false
	}
	due := k.next.Unnamed.Add(k.env.cfg.Tasks.Presume)
	if k.env.now.Before(due) {
		k.rescan(due)
		return false
	}
	// A restarted agent may have taken the task again, and can say so only with its next heartbeat.
	if beat := k.agent.mem.Looked.Add(-k.agent.mem.Silent); beat.Before(due) {
		return false
	}
	return slices.Contains(k.agent.mem.Dropped, k.t.ID)
}

// later moves a time unless it is zero.
func later(t time.Time, by time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(by)
}

// awake is the time between two scans as far as scans cover it: a sleep of the machine does not count.
func awake(from, to time.Time, lookEvery time.Duration) time.Duration {
	return min(max(to.Sub(from), 0), 2*lookEvery)
}
