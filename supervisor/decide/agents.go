package decide

import (
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// agentRuling is all that the rules can say about an agent.
type agentRuling struct {
	ruling
	reap   Reap // what is remembered of its orphans
	joined bool // it fell silent with others, and the one alert about them speaks of it
}

// agentSubject is an agent case and where it stands.
type agentSubject struct {
	*env
	*agentCase
	s       *protocol.Snapshot
	subject protocol.Subject
}

// meetAgents judges the life of every agent of a snapshot.
func meetAgents(e *env, s *protocol.Snapshot) []agentCase {
	clock := e.clock(s)
	clock.Doubt, clock.WaitUntil = e.view.Doubt, e.silence.Until
	if soon := clock.Now.Add(2 * e.cfg.LookEvery); blind(s) && soon.After(clock.WaitUntil) {
		clock.WaitUntil = soon
	}
	inHands := inHands(s, &e.cfg)
	cases := make([]agentCase, len(s.Agents))
	for i := range s.Agents {
		a, c := &s.Agents[i], &cases[i]
		limits, mem := e.cfg.Heartbeat.Of(s.Protocol, a), e.last.Agents.Of(s.Subject(protocol.KindAgent, a.Name))
		c.agent, c.hands = a, inHands[a.Name]
		facts := e.facts(a, mem)
		facts.Task = c.hands.within(limits)
		c.verdict, c.mem = heartbeat.Judge(facts, mem, clock, limits, e.cfg.Heartbeat)
		if heartbeat.Fresh(*a, c.mem, limits) {
			c.used = rounded(a.Used)
		}
	}
	return cases
}

// judgeAgent rules on an agent whose life is judged.
func judgeAgent(a agentSubject) (r agentRuling) {
	r.rescanAt(a.verdict.Deadline, a.now)
	register(a, &r)
	tellAgent(a, &r)
	reapOrphans(a, &r)
	return r
}

// register writes the agent's state into the shared registry when the state changes.
func register(a agentSubject, r *agentRuling) {
	if a.agent.Ref.Path == "" {
		return
	}
	word, reason := "", a.verdict.Reason
	switch {
	case a.dead():
		word = "error"
	case a.verdict.InError && a.agent.Status == "error":
		word, reason = "error", protocol.ReasonError
	case a.alive() && (a.agent.Recorded == "error" || a.agent.Recorded == "unknown") && a.agent.Status != "":
		word, reason = a.agent.Status, protocol.ReasonBeats
	}
	if word != "" && word != a.agent.Recorded {
		r.change(a.s, a.verdict.Cause, protocol.Change{Verb: protocol.VerbMark, Subject: a.subject, Reason: reason,
			Judged: protocol.Judged{Ref: a.agent.Ref, Seen: a.verdict.Heard}, Agent: a.agent.Name, Status: word})
	}
}

// tellAgent tells the user of an agent that is dead, hangs, or is in error. Everything that waits for its work waits in vain.
// See docs/decisions.md, "Only status: error is an incident".
func tellAgent(a agentSubject, r *agentRuling) {
	switch {
	case a.dead():
		tellDead(a, r)
	case a.verdict.State == protocol.AgentHung:
		alert, n := aboutAgent(a, "agent_hung", protocol.PhraseAgentHangs)
		n.Follows = endProcesses(a, r)
		r.tell(alert, n)
		if len(r.ends) > 0 { // lasts until the agent is back, because its keeper may restart it at once
			n.Phrase, n.Task = protocol.PhraseAgentEnded, a.hands.tasks[0].ID
			r.tell(rules.Alert{Kind: "agent_ended", Severity: protocol.Medium, Subject: a.subject, Agent: a.agent.Name, Lasting: true,
				Occurrence: alert.Occurrence}, n)
		}
	case a.verdict.InError && (a.agent.Failed || a.agent.Status == "error"):
		alert, n := aboutAgent(a, "agent_error", protocol.PhraseAgentError)
		n.Text, alert.Occurrence = a.verdict.Error, ""
		r.tell(alert, n)
		r.conditions[len(r.conditions)-1].words = a.verdict.Error
	}
}

// aboutAgent begins an alert about an agent and the tasks that it has in flight.
func aboutAgent(a agentSubject, kind string, p protocol.Phrase) (rules.Alert, rules.Notice) {
	tasks := OpenTasksOf(a.s, a.agent.Name)
	alert := rules.Alert{Kind: kind, Severity: protocol.High, Subject: a.subject, Agent: a.agent.Name, Occurrence: stamp(a.verdict.Since),
		Blocking: len(tasks) > 0, Silent: allSilent(tasks), Options: careOptions()}
	n := rules.Notice{Phrase: p, Cause: a.verdict.Cause, Facts: protocol.Facts{Agent: a.agent.Name}, List: idsOf(tasks)}
	if len(tasks) > 0 {
		n.Task, n.Quote = tasks[0].ID, tasks[0].Directive
	}
	return alert, n
}

func tellDead(a agentSubject, r *agentRuling) {
	tasks := OpenTasksOf(a.s, a.agent.Name)
	if a.agent.Presence == protocol.PresenceGone && lostWith(a.s, a.agent.Name) {
		return // the incident is about its task instead
	}
	if a.agent.Told && len(tasks) == 0 {
		return // the incident of its keeper says more
	}
	known, joins := oneOfMany(a)
	if r.joined = joins; known || joins {
		return
	}
	alert, n := aboutAgent(a, "agent_dead", protocol.PhraseAgentDead)
	switch {
	case len(tasks) == 0:
		alert.Options = nil
	case a.s.Asks():
		n.Follows = protocol.PhraseAsks
		if !led(a.agent, tasks[0]) {
			alert.Options = options(OptionRetry, OptionDone, OptionGiveUp)
		}
	case !a.s.Act:
		n.Follows = protocol.PhraseOnlyObserves
	case a.s.Yield != "":
		n.Follows, n.Text = protocol.PhraseYields, a.s.Yield
	case led(a.agent, tasks[0]):
		n.Follows = protocol.PhrasePutsBack
	default:
		n.Follows = protocol.PhraseIssuesAgain
		alert.Options = options(OptionRetry, OptionWait, OptionGiveUp)
	}
	if len(tasks) > 0 && !a.verdict.Proof {
		n.Phrase = protocol.PhraseAgentSilentIn
	}
	r.tell(alert, n)
}

// lostWith reports whether work of the agent is proved to be lost.
func lostWith(s *protocol.Snapshot, agent string) bool {
	for t := range unsettled(s) {
		if t.Agent == agent && t.Lost != "" {
			return true
		}
	}
	return false
}

// careOptions is offered where steward itself can do nothing: it settles the incident, with the reason that the user gives.
func careOptions() []rules.Option { return options(OptionDone) }

// Reap is what is remembered of processes that outlived their leader.
type Reap struct {
	Seen  time.Time `json:"seen"`
	Asked time.Time `json:"asked,omitzero"` // when they were asked to end
	// Ordered: a person had them ended. That covers SIGKILL for those that remain after SIGTERM.
	Ordered bool `json:"ordered,omitempty"`
}

// Ordered is the memory with what follows from a change that a person ordered; changed says whether anything does.
func (m Memory) Ordered(c protocol.Change, now time.Time) (next Memory, changed bool) {
	if c.Verb != protocol.VerbReap {
		return m, false
	}
	r := m.Reaps.Of(c.Subject)
	r.Asked, r.Ordered = now, true
	m.Reaps = m.Reaps.With(c.Subject, r)
	return m, true
}

// orphanGrace is how long orphans may take to end by themselves, and then after SIGTERM.
const orphanGrace = 10 * time.Second

// reapOrphans ends the processes of an agent that outlived their leader: SIGTERM first, then SIGKILL. The adapter proved
// whose processes they are, and proves it again before each signal. See docs/decisions.md, "Orphans get SIGTERM, and SIGKILL ten seconds later".
func reapOrphans(a agentSubject, r *agentRuling) {
	if len(a.agent.Orphans) == 0 {
		return
	}
	r.reap = a.last.Reaps.Of(a.subject)
	if r.reap.Seen.IsZero() {
		r.reap.Seen = a.now
	}
	signal, due := "SIGTERM", r.reap.Seen.Add(orphanGrace)
	if !r.reap.Asked.IsZero() {
		signal, due = "SIGKILL", r.reap.Asked.Add(orphanGrace)
	}
	if a.resuming() && due.Before(a.resumeUntil) {
		due = a.resumeUntil
	}
	s := a.s
	if r.reap.Ordered {
		ordered := *s
		ordered.Act, s = true, &ordered
	}
	if a.now.Before(due) && (r.reap.Ordered || !s.Asks()) { // a person who is asked need not wait
		r.rescanAt(due, a.now)
	} else if r.change(s, because(protocol.ReasonOrphaned, protocol.Facts{Count: len(a.agent.Orphans)}), protocol.Change{Verb: protocol.VerbReap,
		Subject: a.subject, Agent: a.agent.Name, Status: signal, Processes: a.agent.Orphans}) {
		r.reap.Asked = a.now
	}
}

// judgeLock rules on a lock: one that outlived its holder is released; one that is over its time while its holder lives is
// reported and left alone.
func judgeLock(e *env, s *protocol.Snapshot, l *protocol.Lock, agents map[string]*agentCase) (r ruling, v heartbeat.LockVerdict, next heartbeat.LockMemory) {
	clock := e.clock(s)
	clock.Watched = e.watched(s)
	subject := s.Subject(protocol.KindLock, l.Resource)
	var holder *heartbeat.Verdict
	if a := agents[l.Holder]; a != nil {
		holder = &a.verdict
	}
	v, next = heartbeat.JudgeLock(*l, holder, e.processes[l.Process], e.last.Locks.Of(subject), clock, e.cfg.Locks)
	r.rescanAt(v.Deadline, e.now)
	if v.Release {
		r.change(s, v.Cause, protocol.Change{Verb: protocol.VerbUnlock, Subject: subject, Judged: protocol.Judged{Ref: l.Ref}, Agent: l.Holder})
	}
	// Taking a lock from a living holder would do harm. Without a deadline it is not about to be released.
	if v.Release && !mayChange(s) || !v.Release && v.State == protocol.LockOverdue && v.Deadline.IsZero() {
		r.tell(rules.Alert{Kind: "lock_overdue", Severity: protocol.Medium, Subject: subject, Agent: l.Holder, Occurrence: rfc3339(v.Expires)},
			rules.Notice{Phrase: protocol.PhraseLockOvertime, Cause: v.Cause, Facts: protocol.Facts{Agent: l.Holder, Name: l.Resource, At: v.Expires.UTC()}})
	}
	return r, v, next
}
