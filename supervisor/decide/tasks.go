package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
)

// taskLook is one task under judgement.
type taskLook struct {
	d         *decision
	s         *protocol.Snapshot
	t         *protocol.Task
	agent     *agentLook // nil when nobody of that name is known
	agents    map[string]*agentLook
	subject   protocol.Subject
	at        time.Time // of the look
	before    time.Time // of the look before; zero if none
	mem       TaskMemory
	verdict   TaskVerdict
	requests  *requests
	release   protocol.Reason // why it would be admitted
	since     time.Time       // of the first look ever at its project
	unsettled bool            // something about it is still to be done
}

// look takes up a task and brings what is remembered of it up to date.
func (d *decision) look(k *taskLook, s *protocol.Snapshot, t *protocol.Task, agents map[string]*agentLook, m TaskMemory) {
	*k = taskLook{d: d, s: s, t: t, agent: agents[t.Agent], agents: agents, subject: s.Subject(protocol.KindTask, t.ID), at: plain(s.At)}
	m.follow(d.now)
	k.before = m.Looked
	if m.FirstSeen.IsZero() {
		m.FirstSeen = k.at
	}
	if n := 1 + len(Committed(t)); m.Run != n {
		m = TaskMemory{FirstSeen: m.FirstSeen, State: m.State, Run: n, Counted: m.Counted, Latency: m.Latency, Withheld: m.Withheld}
	}
	if again := m.Asked != "" && m.Asked != t.Ref.Sum || (m.State == protocol.TaskDone || m.State == protocol.TaskFailed) && t.Outcome == nil; t.Foreign && again {
		// Asked for anew under the same name: what was found out about the last time says nothing about this one.
		m = TaskMemory{FirstSeen: m.FirstSeen, State: m.State, Run: m.Run, Counted: m.Counted, Latency: m.Latency, Withheld: m.Withheld}
	}
	if m.Asked = ""; t.Foreign {
		m.Asked = t.Ref.Sum
	}
	if t.Visible && k.agent.alive() && !m.Looked.IsZero() {
		m.Visible += awake(m.Looked, k.at, d.cfg.LookEvery)
	}
	if slept := d.slept(); slept > 0 {
		m.Running, m.Unnamed = later(m.Running, slept), later(m.Unnamed, slept)
	}
	if m.Looked = k.at; !t.Visible || t.Appeared.IsZero() {
		m.Open = time.Time{}
	} else {
		m.Open = earliest(earliest(m.Open, t.Appeared), k.at)
	}
	m.News = t.Outcome != nil && (m.News || wasOpen(m.State))
	// Someone released it. What only outlived its lease, with nobody there to renew it, is no such word on a gate.
	if m.Held && t.Hold == nil && (!t.Foreign || t.Block != "" && k.at.Before(m.Lease)) {
		m.Judged = true
		m.ByHand = m.Admitted.IsZero() && k.at.Before(m.Lease)
	}
	if m.Held && t.Hold != nil && t.Hold.Reason != protocol.HoldRetry && k.at.After(k.before) {
		m.Withheld += k.at.Sub(k.before)
	}
	if m.Held = t.Hold != nil && !t.Hold.Half; m.Held {
		m.Lease = plain(t.Hold.ReleaseBy)
		if !s.Busy { // else it may be released in this moment
			m.Admitted = time.Time{}
		}
	}
	if m.Claimed && len(t.Workers) == 0 && t.Outcome == nil {
		m.Running, m.Presumed, m.Named, m.Unnamed = time.Time{}, false, false, time.Time{} // it was given back untouched
	}
	m.Claimed = len(t.Workers) > 0
	switch {
	case t.Named == "active_tasks":
		m.Named, m.Unnamed = true, time.Time{}
	case m.Named && m.Unnamed.IsZero():
		m.Unnamed = k.at
	}
	k.mem = m
}

// wasOpen tells a task that was seen open from one that was never seen.
func wasOpen(s protocol.TaskState) bool { return s != "" && s.Open() }

// judge decides where the task stands and what should be done with it.
func (k *taskLook) judge() {
	if k.t.Late != nil {
		why := "a later result; the first one stands"
		if k.t.Outcome == nil {
			why = "a result of an earlier attempt that was taken for lost; the present attempt goes on"
		}
		if k.t.Foreign {
			why = "what is left over of an ended task is put away"
		}
		k.change(protocol.Change{Verb: protocol.VerbFile, Reason: protocol.ReasonLate, Ref: *k.t.Late, Why: why})
	}
	k.reopen()
	// A retry that a crash cut short has hidden the request but not yet taken the result: it goes on from there.
	halfRetried := k.t.Outcome != nil && scheduled(k.t) && !k.t.Outcome.Succeeded()
	switch {
	case k.repair():
	case k.t.Hold != nil && !halfRetried:
		k.held()
	case k.t.Outcome != nil:
		k.ended()
	case k.inFlight() != "":
		k.running()
	default:
		k.pending()
	}
	if k.t.Cancelled {
		k.d.cancelled[k.subject] = true
	}
	if !k.t.Foreign {
		k.log()
	}
}

// change adds a Change about this task.
func (k *taskLook) change(c protocol.Change) bool {
	k.unsettled = true
	c.Subject = k.subject
	if c.Ref == (protocol.Ref{}) {
		c.Ref = k.t.Ref
	}
	if c.Agent == "" {
		c.Agent = k.t.Agent
	}
	if c.Verb == protocol.VerbRecord || c.Verb == protocol.VerbBury {
		c.Asked, c.Created = k.t.Ref, k.t.Created
	}
	return k.d.change(k.s, c)
}

func (k *taskLook) is(state protocol.TaskState, reason protocol.Reason, why string, args ...any) {
	if len(args) > 0 { // most tasks ended long ago, in plain words
		why = fmt.Sprintf(why, args...)
	}
	k.verdict = TaskVerdict{State: state, Reason: reason, Why: why}
}

// wait is is() for a task that is due at a known time.
func (k *taskLook) wait(state protocol.TaskState, reason protocol.Reason, until time.Time, why string, args ...any) {
	k.is(state, reason, why, args...)
	k.verdict.NotBefore = until
	k.d.wake(until)
}

// inFlight says what shows that the agent works on the task, "" if nothing does. An agent that never names
// its tasks (the executor of protocol 000, Task Discovery) is presumed to have taken what lay visible to it.
func (k *taskLook) inFlight() string {
	if k.t.Named != "" || k.t.Foreign {
		return k.t.Named
	}
	if !k.mem.Running.IsZero() {
		return "seen running"
	}
	if k.agent != nil && !k.agent.agent.Claims && !k.agent.mem.Names && k.agent.works() && k.mem.Visible > k.d.cfg.Tasks.Presume {
		return "presumed taken"
	}
	return ""
}

// timeout is the task's own limit, or the configured one, capped; 0 if its protocol sets none.
func (k *taskLook) timeout() time.Duration {
	t := k.t.Timeout
	if t == protocol.NoTimeout {
		return 0
	}
	if t <= 0 {
		t = k.d.cfg.Tasks.Timeout
	}
	return min(t, k.d.cfg.Tasks.MaxTimeout)
}

// running judges an attempt that is in flight: over its time, or its agent gone.
func (k *taskLook) running() {
	by := k.inFlight()
	if k.mem.Running.IsZero() || k.mem.Presumed && k.t.Named != "" { // taken only now: until then it was a guess
		k.mem.Running, k.mem.Presumed = k.at, k.t.Named == "" && !k.t.Foreign
		if t := k.t.Started; !t.IsZero() && t.Before(k.at) {
			k.mem.Running = plain(t)
		}
	}
	k.mem.Judged = true
	started := k.mem.Running
	deadline := started.Add(k.timeout())
	timed := k.t.Timeout != protocol.NoTimeout
	overdue := !timed || k.over(deadline) // without a limit, the silence of its agent is all there is to go by
	k.is(protocol.TaskRunning, protocol.ReasonInFlight, "in flight (%s) since %s", by, moment(started, k.d.now))
	if k.t.Awaits != "" {
		k.is(protocol.TaskWaiting, protocol.ReasonAwaits, "waits for %s", k.t.Awaits)
	}
	if k.t.Lost == "" && !k.agent.dead() {
		k.mem.Alone = time.Time{}
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
		k.d.lookAgain(k.s.Project, deadline) // it may have beaten since the look
	case k.agent.dead() && overdue:
		k.lost(true, "its agent "+k.t.Agent+" is silent and the task's time is over; the old attempt may still run")
	case k.agent.dead():
		k.is(protocol.TaskRunning, protocol.ReasonSilent, "its agent %s is silent; issued again after the task's own deadline %s", k.t.Agent, clock(deadline))
	case overdue && timed:
		k.is(protocol.TaskRunning, protocol.ReasonOverdue, "over its time of %s since %s; %s", span(k.timeout()), clock(deadline), k.goesOn())
		k.alertOverrun(deadline)
	}
	k.progress()
	k.remarkProgress()
}

// progress notices that the updates that the request asked for stay away (000, Progressive Updates). Half an interval
// more than two is given: a client's timer and ours are never in step.
func (k *taskLook) progress() {
	p := k.t.Progress
	if p.Every <= 0 || k.agent.dead() {
		return
	}
	last := k.mem.Running
	if p.At.After(last) {
		last = plain(p.At)
	}
	if k.over(last.Add(p.Every * 5 / 2)) {
		k.alertStalled(last)
	}
}

// over reports whether a deadline has passed. Right after a sleep none has: the agent slept, too.
func (k *taskLook) over(deadline time.Time) bool {
	if k.d.now.Before(deadline) {
		k.d.wake(deadline)
		return false
	}
	if k.d.resuming() {
		k.d.wake(k.d.plan.Memory.ResumeUntil)
		return false
	}
	return true
}

// goesOn says what is known of a task over its time.
func (k *taskLook) goesOn() string {
	if k.agent.alive() {
		return k.t.Agent + " goes on with it"
	}
	state := protocol.AgentUnknown
	if k.agent != nil {
		state = k.agent.verdict.State
	}
	return fmt.Sprintf("%s is %s", k.t.Agent, state)
}

// dropped reports whether the agent named the task in this run and has not done so for a while. The while is there
// because agents clear active_tasks a moment before they write the result. Progress since then speaks against it; as
// it was dropped some time before the look that showed it, so does progress a little older than that look.
func (k *taskLook) dropped() bool {
	if !k.mem.Named || k.mem.Unnamed.IsZero() {
		return false
	}
	if at := k.t.Progress.At; !at.IsZero() && !at.Before(k.mem.Unnamed.Add(-2*k.d.cfg.LookEvery)) {
		return false
	}
	due := k.mem.Unnamed.Add(k.d.cfg.Tasks.Presume)
	if k.d.now.Before(due) {
		k.d.lookAgain(k.s.Project, due)
		return false
	}
	// An agent that was started again may have taken the task anew, and can say so only with its next beat.
	if beat := k.agent.mem.Looked.Add(-k.agent.mem.Silent); beat.Before(due) {
		return false
	}
	return slices.Contains(k.agent.mem.Dropped, k.t.ID)
}

// pending judges a task that nobody has taken yet.
func (k *taskLook) pending() {
	k.is(protocol.TaskPending, protocol.ReasonUntaken, "waits for %s to take it", cmp.Or(k.t.Agent, "somebody"))
	if k.t.Awaits != "" {
		k.is(protocol.TaskWaiting, protocol.ReasonAwaits, "waits for %s", k.t.Awaits)
		return
	}
	fresh := !k.t.Foreign && !k.mem.Judged && k.fresh()
	mayHold := (fresh || k.t.Foreign) && k.t.Visible && !k.mem.Judged && !k.d.view.Once
	if k.t.Block != "" && k.t.Visible && !k.d.view.Once && (mayHold || !k.t.Foreign) {
		k.is(protocol.TaskWaiting, protocol.ReasonBlocked, "%s", k.t.Block)
		k.hold(protocol.HoldBlocked, protocol.ReasonBlocked, k.t.Block, nil, time.Time{})
		return
	}
	if k.t.Foreign {
		if k.t.Block != "" && k.mem.Judged {
			k.is(protocol.TaskPending, protocol.ReasonOperator, "released by hand, although: %s", k.t.Block)
		} else if k.t.Block != "" {
			k.is(protocol.TaskWaiting, protocol.ReasonBlocked, "%s", k.t.Block)
		}
		return
	}
	if !k.mem.Open.IsZero() && k.over(k.mem.Open.Add(k.timeout())) {
		k.alertUntaken()
	}
	switch {
	case mayHold:
		k.d.wait(k)
		if before := k.d.old.Tasks.Of(k.subject).State; k.s.Busy && before != "" {
			k.is(before, protocol.ReasonBusy, "its project is being changed in this moment")
		}
	case !k.mem.Judged && !fresh:
		// Too late to hold: its agent may have read it already.
		k.mem.Judged = true
		k.is(protocol.TaskPending, protocol.ReasonTooLate, "waits for %s to take it (it lay open too long to be held when first judged)", k.t.Agent)
	}
}

// wait puts the task into the queue, unless nothing may be changed in its project: there it would stand in the way
// of others for ever.
func (d *decision) wait(k *taskLook) {
	if k.s.Act {
		d.waiting = append(d.waiting, k)
	}
}

// waiter describes the task to the capacity policy.
func (k *taskLook) waiter() capacity.Waiter {
	w := capacity.Waiter{Subject: k.subject, Kind: k.kind(), Priority: k.t.Priority, Since: k.mem.FirstSeen, Throttle: rounded(k.t.Throttle),
		Busy: k.s.Busy, Idle: k.agent == nil || k.agent.dead()}
	if k.t.Agent != "" {
		w.Agent = k.s.Subject(protocol.KindAgent, k.t.Agent)
	}
	if k.agent != nil {
		w.AgentUsed = k.agent.used
	}
	if h := k.t.Hold; h != nil {
		// One that waits for room after its time had come is held for capacity, too, whatever the notice says.
		_, queued := k.d.old.Gate.Held[k.subject]
		w.Held = queued || h.Reason == protocol.HoldCapacity
	}
	return w
}

// hold keeps the task from its agent, by lease.
func (k *taskLook) hold(reason string, because protocol.Reason, why string, gate *protocol.Gate, until time.Time) {
	k.change(protocol.Change{Verb: protocol.VerbHold, Reason: because, Why: why, Hold: reason, Gate: gate, Until: until,
		ReleaseBy: k.d.now.Add(k.d.cfg.Tasks.Lease)})
}

// later moves a time that is known.
func later(t time.Time, by time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(by)
}

// awake is the time between two looks as far as looks cover it: what the machine slept through does not count.
func awake(from, to time.Time, lookEvery time.Duration) time.Duration {
	return min(max(to.Sub(from), 0), 2*lookEvery)
}

// clock is a time of day for people.
func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// datedAfter is how long ago a moment must be to be told with its date.
const datedAfter = 20 * time.Hour

// moment is clock with the date where it is another day's.
func moment(t, now time.Time) string {
	if now.Sub(t) > datedAfter {
		return t.UTC().Format("2006-01-02 15:04 UTC")
	}
	return clock(t)
}

// span is a length of time for people.
func span(d time.Duration) string {
	if d >= 2*time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d.Round(time.Second)/time.Second)
}
