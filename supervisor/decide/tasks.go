package decide

import (
	"cmp"
	"fmt"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
)

// taskCase is all that the rules about a task may read.
type taskCase struct {
	env      *env
	s        *protocol.Snapshot
	t        *protocol.Task
	agent    *agentCase // nil when no agent of that name is known
	agents   map[string]*agentCase
	subject  protocol.Subject
	at       time.Time // of the scan
	was      TaskMemory
	requests *requests
	since    time.Time // of the first look ever at its project
	// retries are those of the project's last hour. lastReissue and reissued say when an overdue retry was issued last, and
	// whether this decision issues one.
	retries     []time.Time
	lastReissue time.Time
	reissued    bool
}

// taskRuling is all that they can say.
type taskRuling struct {
	ruling
	verdict   TaskVerdict
	next      TaskMemory
	tally     Tally           // what it adds to the project's
	asks      bool            // it asks to be admitted
	release   protocol.Reason // why it would be
	renews    bool            // its lease may have to be renewed
	spends    bool            // it takes one of the project's retries
	reissues  bool            // it is an overdue retry, and is issued now
	unsettled bool            // something about it is still to be done
}

// taskJudge applies the rules to one task.
type taskJudge struct {
	taskCase
	taskRuling
}

// newTaskJudge takes up a task and brings what is remembered of it up to date.
func newTaskJudge(c taskCase) taskJudge {
	k := taskJudge{taskCase: c}
	t, m := c.t, c.was
	m.follow(c.env.now)
	if m.FirstSeen.IsZero() {
		m.FirstSeen = c.at
	}
	if n := 1 + len(Committed(t)); m.Run != n {
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
		m.Visible += awake(m.Looked, c.at, c.env.cfg.LookEvery)
	}
	if slept := c.env.slept(); slept > 0 {
		m.Running, m.Unnamed = later(m.Running, slept), later(m.Unnamed, slept)
	}
	if m.Looked = c.at; !t.Visible || t.Appeared.IsZero() {
		m.Open = time.Time{}
	} else {
		m.Open = earliest(earliest(m.Open, t.Appeared), c.at)
	}
	m.News = t.Outcome != nil && (m.News || wasOpen(m.State))
	m.observeHold(&c)
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
	k.next = m
	return k
}

// observeHold notes whether the task is held, and what became of an earlier hold.
func (m *TaskMemory) observeHold(c *taskCase) {
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
}

// wasOpen reports whether a task was seen open; one that was never seen was not.
func wasOpen(s protocol.TaskState) bool { return s != "" && s.Open() }

// taskRule says where a task stands, and what should be done with it.
type taskRule struct {
	name    string
	applies func(*taskJudge) bool
	rule    func(*taskJudge)
}

// taskRules are tried in this order; the first that applies counts.
var taskRules = []taskRule{
	{"a crash cut its requeueing short", (*taskJudge).halfRequeued, (*taskJudge).repair},
	{"a crash cut its hold short", func(k *taskJudge) bool { return k.held() && k.t.Hold.Half }, (*taskJudge).takeBackHold},
	{"held, and its result is there", func(k *taskJudge) bool { return k.held() && k.t.Outcome != nil }, (*taskJudge).heldWithResult},
	{"held, and asked for again", func(k *taskJudge) bool { return k.held() && k.supersededRetry() != "" }, (*taskJudge).cancelRetry},
	{"held beyond its lease", func(k *taskJudge) bool { return k.held() && k.leaseOver() }, (*taskJudge).releaseLease},
	{"held for room", heldFor(protocol.HoldCapacity), (*taskJudge).heldForRoom},
	{"held by a block", heldFor(protocol.HoldBlocked), (*taskJudge).heldByBlock},
	{"held until its retry is due", heldFor(protocol.HoldRetry), (*taskJudge).retryWait},
	{"held for another reason", (*taskJudge).held, (*taskJudge).heldOtherwise},
	{"completed", func(k *taskJudge) bool { return k.t.Outcome != nil && k.t.Outcome.Succeeded() }, (*taskJudge).completed},
	{"failed", func(k *taskJudge) bool { return k.t.Outcome != nil }, (*taskJudge).endedOtherwise},
	{"in flight", func(k *taskJudge) bool { return k.inFlight() != "" }, (*taskJudge).running},
	{"open", func(k *taskJudge) bool { return true }, (*taskJudge).pending},
}

// judge decides where the task stands and what should be done with it.
func (k *taskJudge) judge() {
	k.fileLate()
	k.reopen()
	for _, r := range taskRules {
		if r.applies(k) {
			r.rule(k)
			break
		}
	}
	if !k.t.Foreign {
		k.log()
	}
}

// fileLate puts a result on record that came after another one stood.
func (k *taskJudge) fileLate() {
	if k.t.Late == nil {
		return
	}
	why := "a later result; the first one stands"
	if k.t.Outcome == nil {
		why = "a result of an earlier attempt that was taken for lost; the present attempt goes on"
	}
	if k.t.Foreign {
		why = "what is left over of an ended task is put away"
	}
	k.change(protocol.Change{Verb: protocol.VerbFile, Reason: protocol.ReasonLate, Judged: protocol.Judged{Ref: *k.t.Late}, Why: why})
}

// change orders a change of this task.
func (k *taskJudge) change(c protocol.Change) bool {
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
	return k.ruling.change(k.s, c)
}

// free reports whether a change of the task can be made now.
func (k *taskJudge) free() bool { return !k.s.Busy && mayChange(k.s) && !k.changed }

func (k *taskJudge) is(state protocol.TaskState, reason protocol.Reason, why string, args ...any) {
	if len(args) > 0 { // most tasks ended long ago, in plain words
		why = fmt.Sprintf(why, args...)
	}
	k.verdict = TaskVerdict{State: state, Reason: reason, Why: why}
}

// wait is is for a task that is due at a known time.
func (k *taskJudge) wait(state protocol.TaskState, reason protocol.Reason, until time.Time, why string, args ...any) {
	k.is(state, reason, why, args...)
	k.verdict.NotBefore = until
	k.wake(until)
}

// pending judges a task that no agent has taken yet.
func (k *taskJudge) pending() {
	k.is(protocol.TaskPending, protocol.ReasonUntaken, "waits for %s to take it", cmp.Or(k.t.Agent, "an agent"))
	if k.t.Awaits != "" {
		k.is(protocol.TaskWaiting, protocol.ReasonAwaits, "waits for %s", k.t.Awaits)
		return
	}
	fresh := !k.t.Foreign && !k.next.Judged && k.fresh()
	mayHold := (fresh || k.t.Foreign) && k.t.Visible && !k.next.Judged && !k.env.view.Once
	if k.t.Block != "" && k.t.Visible && !k.env.view.Once && (mayHold || !k.t.Foreign) {
		k.is(protocol.TaskWaiting, protocol.ReasonBlocked, "%s", k.t.Block)
		k.hold(protocol.HoldBlocked, protocol.ReasonBlocked, k.t.Block, nil, time.Time{})
		return
	}
	if k.t.Foreign {
		if k.t.Block != "" && k.next.Judged {
			k.is(protocol.TaskPending, protocol.ReasonOperator, "released by hand, although: %s", k.t.Block)
		} else if k.t.Block != "" {
			k.is(protocol.TaskWaiting, protocol.ReasonBlocked, "%s", k.t.Block)
		}
		return
	}
	if !k.next.Open.IsZero() && k.over(k.next.Open.Add(k.timeout())) {
		k.alertUntaken()
	}
	switch {
	case mayHold:
		k.ask(k.release)
		if before := k.was.State; k.s.Busy && before != "" {
			k.is(before, protocol.ReasonBusy, "its project is being changed in this moment")
		}
	case !k.next.Judged && !fresh:
		// Too late to hold: its agent may have read it already.
		k.next.Judged = true
		k.is(protocol.TaskPending, protocol.ReasonTooLate, "waits for %s to take it (it lay open too long to be held when first judged)", k.t.Agent)
	}
}

// ask asks the capacity policy for room, unless nothing may be changed in the project: there the task would keep others
// from being admitted.
func (k *taskJudge) ask(release protocol.Reason) { k.asks, k.release = k.s.Act, release }

// wake asks for a decision at that moment at the latest, rescan for a scan of the task's project.
func (k *taskJudge) wake(at time.Time) { k.wakeAt(at, k.env.now) }

func (k *taskJudge) rescan(at time.Time) { k.rescanAt(at, k.env.now) }

// waiter describes the task to the capacity policy.
func (k *taskJudge) waiter() capacity.Waiter {
	w := capacity.Waiter{Subject: k.subject, Kind: k.kind(), Priority: k.t.Priority, Since: k.next.FirstSeen, Throttle: rounded(k.t.Throttle),
		Busy: k.s.Busy, Idle: k.agent == nil || k.agent.dead()}
	if k.t.Agent != "" {
		w.Agent = k.s.Subject(protocol.KindAgent, k.t.Agent)
	}
	if k.agent != nil {
		w.AgentUsed = k.agent.used
	}
	if h := k.t.Hold; h != nil {
		// A task that waits for room after its retry fell due is held for capacity, whatever the notice says.
		_, queued := k.env.old.Gate.Held[k.subject]
		w.Held = queued || h.Reason == protocol.HoldCapacity
	}
	return w
}

// hold keeps the task from its agent, by lease.
func (k *taskJudge) hold(reason string, because protocol.Reason, why string, gate *protocol.Gate, until time.Time) {
	k.change(protocol.Change{Verb: protocol.VerbHold, Reason: because, Why: why, Hold: reason, Gate: gate, Until: until,
		ReleaseBy: k.env.now.Add(k.env.cfg.Tasks.Lease)})
}
