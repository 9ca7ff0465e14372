package decide

import (
	"slices"
	"time"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// End asks for the end of the processes of a hung agent, as hung_action says. See docs/decisions.md, "Only a recorded process is ever ended".
type End struct {
	Subject protocol.Subject `json:"subject"`
	// Since is when the agent began to hang: its processes are ended once per hang.
	Since time.Time `json:"since"`
	// Roots are its recorded processes that live; with each of them all its descendants are ended.
	Roots []protocol.Identity `json:"roots"`
	Why   string              `json:"why"` // the sentence of Cause
	Cause protocol.Cause      `json:"-"`
}

// endProcesses asks for the end of a hung agent's processes where the operator ordered that, and says what follows; "" where
// it is not ordered or nothing may be changed.
func endProcesses(a agentSubject, r *agentRuling) protocol.Phrase {
	if a.cfg.Heartbeat.Of(a.s.Protocol, a.agent).HungAction != heartbeat.HungEnd || a.view.Once || !mayChange(a.s) {
		return ""
	}
	roots, not := endable(a)
	switch {
	case not != "":
		return not
	case endedBefore(a):
		return protocol.PhraseEndedBefore
	case !a.s.Busy:
		r.ends = append(r.ends, End{Subject: a.subject, Since: a.verdict.Since, Roots: roots, Cause: a.verdict.Cause})
	}
	return protocol.PhraseProcessesEnded
}

// endedBefore reports whether an earlier hang with the same work was ended already. Otherwise a keeper that restarts the
// agent and a steward that ends it would alternate forever.
func endedBefore(a agentSubject) bool {
	for _, t := range a.hands.tasks {
		if at := a.last.Tasks.Of(a.s.Subject(protocol.KindTask, t.ID)).Stopped; at.IsZero() || !a.verdict.Since.After(at) {
			return false
		}
	}
	return true
}

// endable lists the processes whose end stops the hung work and nothing else, or says why there are none. An agent without a
// task may only rest at its prompt. Workers of one name share a verdict: of each task only the process that its claim names
// is ended, and only below a worker whose processes all stood still.
func endable(a agentSubject) (roots []protocol.Identity, not protocol.Phrase) {
	if len(a.hands.tasks) == 0 {
		return nil, protocol.PhraseNoTaskInHand
	}
	alive := func(id protocol.Identity) bool { return a.processes[id] == heartbeat.ProcessAlive }
	own, named := recorded(a), false
	for _, t := range a.hands.tasks {
		n := len(t.Workers)
		if n == 0 {
			continue
		}
		named = true
		if last := t.Workers[n-1]; slices.Contains(own, t.Workers[0]) && alive(last) && !slices.Contains(roots, last) {
			roots = append(roots, last)
		}
	}
	switch {
	case len(roots) > 0:
		return roots, ""
	case named:
		return nil, protocol.PhraseWorkerNotIts
	case a.agent.Claims:
		return nil, protocol.PhraseNoClaimNames
	case len(own) > 1:
		return nil, protocol.PhraseSeveralBearName
	case !slices.ContainsFunc(own, alive):
		return nil, protocol.PhraseNoneRuns
	}
	return own, ""
}

// recorded lists the agent's processes that one of steward's own commands recorded and that are not proved to be gone. A
// process that only a file names is not among them, however long it has lived: it may be the shell of a person.
func recorded(a agentSubject) []protocol.Identity {
	var list []protocol.Identity
	for _, id := range append([]protocol.Identity{a.agent.Process}, a.agent.Others...) {
		if id.Proves() && id != a.agent.Keeper && a.processes[id] != heartbeat.ProcessGone {
			list = append(list, id)
		}
	}
	return list
}

// hands are the tasks that one agent has in flight.
type hands struct {
	tasks   []*protocol.Task
	longest time.Duration // the longest timeout
	endless bool          // a task without a timeout is among them
}

// inHands lists the tasks that each agent itself names as its work. A task that is only visible to the agent, or waits for a
// person, says nothing about what the agent should be doing.
func inHands(s *protocol.Snapshot, cfg *Config) map[string]hands {
	var all map[string]hands
	for t := range unsettled(s) {
		heldInHand := t.Hold != nil && t.Hold.Reason == protocol.HoldCapacity // it was held a moment too late, so the agent has it
		if t.Named == "" || t.Agent == "" || t.Outcome != nil || t.Hold != nil && !heldInHand || t.Awaits != "" || t.Lost != "" {
			continue
		}
		if all == nil {
			all = map[string]hands{}
		}
		h, timeout := all[t.Agent], timeoutOf(t, cfg)
		h.tasks = append(h.tasks, t)
		h.longest, h.endless = max(h.longest, timeout), h.endless || timeout == 0
		all[t.Agent] = h
	}
	return all
}

// within is how long the agent may show no activity with these tasks; 0 without tasks.
func (h hands) within(l heartbeat.Limits) time.Duration {
	if h.endless {
		return max(h.longest, l.Hung)
	}
	return h.longest
}

// Beside lists the processes that matter to an agent besides the one that speaks for it.
func Beside(a *protocol.Agent) []protocol.Identity {
	list := a.Others
	if len(list) > 0 && a.Process.Proves() {
		list = append(slices.Clone(list), a.Process)
	}
	if a.Keeper.Proves() {
		list = append(slices.Clone(list), a.Keeper)
	}
	return list
}
