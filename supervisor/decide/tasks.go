package decide

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// taskRule says where a task stands, and what should be done with it.
type taskRule struct {
	applies func(*taskCase) bool
	rule    func(*taskCase) taskRuling
}

// taskRules are tried in this order; the first that applies counts.
var taskRules = []taskRule{
	{halfRequeued, finishRequeue}, // a crash cut its requeueing short
	{func(c *taskCase) bool { return held(c) && c.t.Hold.Half }, takeBackHold},           // a crash cut its hold short
	{func(c *taskCase) bool { return held(c) && c.t.Outcome != nil }, heldWithResult},    // held, and its result is there
	{func(c *taskCase) bool { return held(c) && supersededRetry(c) != "" }, cancelRetry}, // held, and asked for again
	{func(c *taskCase) bool { return held(c) && leaseOver(c) }, releaseLease},            // held beyond its lease
	{heldFor(protocol.HoldCapacity), heldForRoom},                                        // held for room
	{heldFor(protocol.HoldBlocked), heldByBlock},                                         // held by a block
	{heldFor(protocol.HoldRetry), heldForRetry},                                          // held until its retry is due
	{held, heldOtherwise}, // held for another reason
	{func(c *taskCase) bool { return c.t.Outcome != nil && c.t.Outcome.Succeeded() }, completed}, // completed
	{func(c *taskCase) bool { return c.t.Outcome != nil }, endedOtherwise},                       // failed
	{func(c *taskCase) bool { return c.inFlight() != "" }, running},                              // in flight
	{func(*taskCase) bool { return true }, pending},                                              // open
}

// judgeTask decides where a task stands and what should be done with it. What earlier runs left over goes first; the life
// events follow from the verdict.
func judgeTask(c *taskCase) taskRuling {
	left := leftOver(c)
	c.taken = left.changed
	var r taskRuling
	for _, rule := range taskRules {
		if rule.applies(c) {
			r = rule.rule(c)
			break
		}
	}
	r.changes, r.waiting = append(left.changes, r.changes...), append(left.waiting, r.waiting...)
	r.unsettled = r.unsettled || left.unsettled
	if !c.t.Foreign {
		logEvents(c, &r)
	}
	r.next = remember(c, &r)
	return r
}

// leftOver puts a result on record that came after another one stood, and removes the record of a result that a client or a
// person deleted. For that the task must have been seen open before: a client may remove a file in order to write it again.
func leftOver(c *taskCase) (r taskRuling) {
	if c.t.Late != nil {
		p := protocol.PhraseLaterResult
		switch {
		case c.t.Foreign:
			p = protocol.PhraseLeftOver
		case c.t.Outcome == nil:
			p = protocol.PhraseEarlierResult
		}
		r.order(c, phrase(protocol.ReasonLate, p, protocol.Facts{}), protocol.Change{Verb: protocol.VerbFile, Judged: protocol.Judged{Ref: *c.t.Late}})
	}
	if c.t.Reopened && wasOpen(c.mem.State) && mayChange(c.s) {
		r.order(c, phrase(protocol.ReasonFinished, protocol.PhraseReopened, protocol.Facts{}), protocol.Change{Verb: protocol.VerbRecord})
	}
	return r
}

// remember is the memory of a task with what the verdict adds to it.
func remember(c *taskCase, r *taskRuling) TaskMemory {
	m := r.next
	m.State = r.verdict.State
	if !c.stopped.IsZero() {
		m.Stopped = c.stopped
	}
	o := c.t.Outcome
	// Settled is the sum of the result, unless something is still to be done about it.
	m.Settled = ""
	if r.verdict == completedVerdict && !r.unsettled && o != nil && o.Succeeded() && len(o.ForHuman) == 0 && !c.t.Cancelled && c.t.Late == nil && c.t.Hold == nil {
		m.Settled = o.Ref.Sum
	}
	// Waits is when the result appeared that something must still follow. In observe mode nothing follows. A pause ends, and
	// what has waited already keeps waiting, because its disk may only hang.
	m.Waits = time.Time{}
	if paused := c.view.Paused[c.s.Project] != ""; o != nil && wasOpen(m.State) && (mayChange(c.s) || paused || !c.mem.Waits.IsZero()) {
		m.Waits = c.endedAt()
	}
	return m
}

// observe is what is remembered of a task, with what this scan shows of it.
func observe(c *taskCase) TaskMemory {
	t, m := c.t, c.was
	m.follow(c.now)
	if m.FirstSeen.IsZero() {
		m.FirstSeen = c.at
	}
	if n := 1 + len(t.Committed()); m.Run != n {
		m = TaskMemory{TaskHistory: m.TaskHistory, Run: n}
	}
	if again := m.Asked != "" && m.Asked != t.Ref.Sum || (m.State == protocol.TaskDone || m.State == protocol.TaskFailed) && t.Outcome == nil; t.Foreign && again {
		// Asked for again under the same name: what is known of the last time says nothing about this one.
		m = TaskMemory{TaskHistory: m.TaskHistory, Run: m.Run}
	}
	if m.Asked = ""; t.Foreign {
		m.Asked = t.Ref.Sum
	}
	if t.Visible && c.agent.alive() && !m.Looked.IsZero() {
		m.Visible += awake(m.Looked, c.at, c.cfg.LookEvery)
	}
	if slept := c.slept(); slept > 0 {
		m.Running, m.Unnamed = later(m.Running, slept), later(m.Unnamed, slept)
	}
	if m.Looked = c.at; !t.Visible || t.Appeared.IsZero() {
		m.Open = time.Time{}
	} else {
		m.Open = earliest(earliest(m.Open, t.Appeared), c.at)
	}
	m.News = t.Outcome != nil && (m.News || wasOpen(m.State))
	m = observeHold(c, m)
	if m.Claimed && len(t.Workers) == 0 && t.Outcome == nil {
		m.Running, m.Presumed, m.Named, m.Unnamed = time.Time{}, false, false, time.Time{} // it was given back untouched
	}
	m.Claimed = len(t.Workers) > 0
	switch {
	case t.Named == "active_tasks":
		m.Named, m.Unnamed = true, time.Time{}
	case m.Named && m.Unnamed.IsZero():
		m.Unnamed = c.at
	}
	return m
}

// observeHold notes whether the task is held, and what became of an earlier hold.
func observeHold(c *taskCase, m TaskMemory) TaskMemory {
	t := c.t
	// Someone released the hold: treat the task as admitted. For a gate that blocks it that is not enough: a lease that ran
	// out is no release.
	if m.Held && t.Hold == nil && (!t.Foreign || t.Block != "" && c.at.Before(m.Lease)) {
		m.Judged = true
		m.ByHand = m.Admitted.IsZero() && c.at.Before(m.Lease)
	}
	if m.Held && t.Hold != nil && t.Hold.Reason != protocol.HoldRetry && c.at.After(c.was.Looked) {
		m.Withheld += c.at.Sub(c.was.Looked)
	}
	if m.Held = t.Hold != nil && !t.Hold.Half; m.Held {
		m.Lease = plain(t.Hold.ReleaseBy)
		if !c.s.Busy { // else it may be released at this moment
			m.Admitted = time.Time{}
		}
	}
	return m
}

// wasOpen reports whether a task was seen open; one that was never seen was not.
func wasOpen(s protocol.TaskState) bool { return s != "" && s.Open() }

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

// The life events of a task in the shared log (protocol 000, Coordination Log Schema).
const (
	eventCreated   = "task_created"
	eventStarted   = "task_started"
	eventCompleted = "task_completed"
	eventFailed    = "task_failed"
	eventCalled    = "escalation"
)

// logEvents orders the life events that the client has not logged itself within LogAfter. Events before the first scan ever
// are not logged. See docs/decisions.md, "Lines of the shared log (000) stand in the order of writing".
func logEvents(c *taskCase, r *taskRuling) {
	t, m := c.t, &r.next
	if t.Ref.Path != "" {
		at := t.Appeared
		if at.IsZero() || m.Run > 1 || t.Hold != nil || m.FirstSeen.Before(at) {
			at = m.FirstSeen
		}
		logEvent(c, r, eventCreated, at, phrase("", protocol.PhraseTaskCreated, protocol.Facts{Agent: t.Agent}))
	}
	if !m.Running.IsZero() && m.Run == 1 {
		logEvent(c, r, eventStarted, m.Running, phrase("", protocol.PhraseTaskStarted, protocol.Facts{Agent: t.Agent}))
	}
	// A cancellation has its own line, and a status outside the protocol's list means nothing.
	if o := t.Outcome; o != nil && t.Hold == nil && !t.Cancelled && m.Counted != "" {
		switch r.verdict.State {
		case protocol.TaskDone:
			logEvent(c, r, eventCompleted, o.Appeared, phrase("", protocol.PhraseTaskCompleted, protocol.Facts{Agent: o.Agent}))
		case protocol.TaskFailed, protocol.TaskDead:
			logEvent(c, r, eventFailed, o.Appeared, r.verdict.Cause)
		}
	}
}

func logEvent(c *taskCase, r *taskRuling, event string, at time.Time, why protocol.Cause) {
	at = plain(at)
	if c.t.HasLogged(event) || !at.After(c.since) || !c.s.LogSince.IsZero() && !at.After(plain(c.s.LogSince).Add(time.Second)) {
		return // the part of the log that was not read may have the line
	}
	due := at.Add(c.cfg.Tasks.LogAfter)
	if c.now.Before(due) {
		r.unsettled = true
		r.wakeAt(due, c.now)
		return
	}
	r.order(c, why, protocol.Change{Verb: protocol.VerbLog, Reason: protocol.ReasonSeen, Entry: protocol.Entry{Event: event}, Until: at})
}
