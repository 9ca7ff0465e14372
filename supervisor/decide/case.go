package decide

import (
	"slices"
	"time"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// agentCase is an agent together with the verdict on it.
type agentCase struct {
	agent   *protocol.Agent
	verdict heartbeat.Verdict
	mem     heartbeat.Memory
	hands   hands
	used    protocol.Share // its own load, while its heartbeat is fresh
}

// names reports whether the agent says that it works on the task.
func (a *agentCase) names(task string) bool { return a != nil && slices.Contains(a.agent.Tasks, task) }

// alive reports whether the agent can take work.
func (a *agentCase) alive() bool {
	return a != nil && (a.verdict.State == protocol.AgentAlive || a.verdict.State == protocol.AgentLate)
}

func (a *agentCase) dead() bool { return a != nil && a.verdict.State == protocol.AgentDead }

// works reports whether the agent has shown any activity: steward saw a heartbeat, or its process lives. An agent that only
// booted takes no tasks.
func (a *agentCase) works() bool {
	return a.mem.Beats > 0 || a.mem.Signed || a.mem.Process == heartbeat.ProcessAlive
}

// state is what is known of the agent.
func (a *agentCase) state() protocol.AgentState {
	if a == nil {
		return protocol.AgentUnknown
	}
	return a.verdict.State
}

// heard is when the agent gave its last heartbeat.
func (a *agentCase) heard() time.Time { return a.mem.Looked.Add(-a.mem.Silent) }

// taskCase is all that the rules about a task may read.
type taskCase struct {
	*env
	s        *protocol.Snapshot
	t        *protocol.Task
	agent    *agentCase // nil when no agent of that name is known
	agents   map[string]*agentCase
	subject  protocol.Subject
	at       time.Time  // of the scan
	was      TaskMemory // as the last decision left it
	mem      TaskMemory // with what this scan shows
	requests *requests
	since    time.Time // of the first look ever at its project
	stopped  time.Time // when the processes of its agent were ended, if this decision ends them
	// retries are those of the project's last hour. reissued: this decision issues an overdue retry already.
	retries  []time.Time
	reissued bool
	// taken: an earlier rule changes the task already.
	taken bool
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

// rule begins a ruling with a verdict.
func (c *taskCase) rule(state protocol.TaskState, why protocol.Cause) taskRuling {
	return taskRuling{next: c.mem, verdict: TaskVerdict{State: state, Cause: why}}
}

// wait begins a ruling on a task that is due at a known time.
func (c *taskCase) wait(state protocol.TaskState, until time.Time, why protocol.Cause) taskRuling {
	r := c.rule(state, why)
	r.verdict.NotBefore = until
	r.wakeAt(until, c.now)
	return r
}

// ask asks the capacity policy for room, unless nothing may be changed in the project: there the task would keep others
// from being admitted.
func (r *taskRuling) ask(c *taskCase, release protocol.Reason) { r.asks, r.release = c.s.Act, release }

// order orders a change of the task.
func (r *taskRuling) order(c *taskCase, why protocol.Cause, change protocol.Change) bool {
	r.unsettled = true
	change.Subject = c.subject
	if change.Ref == (protocol.Ref{}) {
		change.Ref = c.t.Ref
	}
	if change.Agent == "" {
		change.Agent = c.t.Agent
	}
	if change.Verb == protocol.VerbRecord || change.Verb == protocol.VerbBury {
		change.Asked, change.Created = c.t.Ref, c.t.Created
	}
	r.changed = r.changed || c.taken
	return r.change(c.s, why, change)
}

// free reports whether a change of the task can be made now.
func (c *taskCase) free() bool { return !c.s.Busy && mayChange(c.s) && !c.taken }

func (c *taskCase) timeout() time.Duration { return timeoutOf(c.t, &c.cfg) }

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

// ancient reports whether the result came long before the first scan of the project.
func (c *taskCase) ancient() bool {
	o := c.t.Outcome
	return o != nil && !c.mem.News && o.Appeared.Before(c.since.Add(-c.cfg.Tasks.History))
}

// inFlight says what shows that the agent works on the task, "" if nothing does. An agent that never names its tasks (the
// executor of protocol 000, Task Discovery) is presumed to have taken a task that lay visible to it.
// See docs/decisions.md, "A presumption starts no clock and reserves nothing for absent agents".
func (c *taskCase) inFlight() string {
	switch a := c.agent; {
	case c.t.Named != "" || c.t.Foreign:
		return c.t.Named
	case !c.mem.Running.IsZero():
		return "seen running"
	case a != nil && !a.agent.Claims && !a.mem.Names && a.works() && c.mem.Visible > c.cfg.Tasks.Presume:
		return "presumed taken"
	}
	return ""
}

// heldTooLate reports whether the agent works on a task that is held for want of room: it had read the request at the moment
// when steward hid it. Such a task needs no room; it has it. See docs/decisions.md, "A held task that its agent names is in hand".
func (c *taskCase) heldTooLate() bool {
	h := c.t.Hold
	return h != nil && h.Reason == protocol.HoldCapacity && c.t.Outcome == nil && c.agent != nil && !c.agent.dead() && c.agent.names(c.t.ID)
}

// endedAt is when the present result came, as far as anybody has seen.
func (c *taskCase) endedAt() time.Time {
	if c.t.Outcome.Appeared.IsZero() {
		return time.Time{}
	}
	return earliest(earliest(c.mem.Waits, c.t.Outcome.Appeared), c.now)
}

// scheduled reports whether a retry of the present result stands on record without having been carried out.
func scheduled(t *protocol.Task) bool {
	n := len(t.Attempts)
	return n > 0 && !t.Attempts[n-1].Committed
}

// overslept reports whether the retry fell due before the machine was awake again.
func (c *taskCase) overslept() bool {
	h := c.t.Hold
	return h != nil && h.Reason == protocol.HoldRetry && h.NotBefore.Before(c.resumeUntil)
}

// requests finds the newest requests of one snapshot by what they ask for. The index is built when a rule first asks.
type requests struct {
	s        *protocol.Snapshot
	payloads map[string]time.Time
	related  map[string]time.Time
}

// after says whether the orchestrator has asked for the same work again; the phrase is "" if not.
func (r *requests) after(t *protocol.Task) protocol.Phrase {
	if r.payloads == nil {
		r.index()
	}
	switch {
	case t.Payload != "" && r.payloads[t.Payload].After(t.Created):
		return protocol.PhraseNewerAsks
	case r.related[t.ID].After(t.Created):
		return protocol.PhraseNewerRefers
	}
	return ""
}

func (r *requests) index() {
	r.payloads, r.related = map[string]time.Time{}, map[string]time.Time{}
	enter := func(newest map[string]time.Time, key string, at time.Time) {
		if key != "" && at.After(newest[key]) {
			newest[key] = at
		}
	}
	for i := range r.s.Tasks {
		t := &r.s.Tasks[i]
		if t.Ref.Path == "" || t.Cancelled {
			continue
		}
		enter(r.payloads, t.Payload, t.Created)
		for _, id := range t.Related {
			if id != t.ID {
				enter(r.related, id, t.Created)
			}
		}
	}
}
