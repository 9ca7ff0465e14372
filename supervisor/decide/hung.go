package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
)

// End asks for the end of the processes of a hung agent, as hung_action says. See docs/decisions.md, "Only a recorded process is ever ended".
type End struct {
	Subject protocol.Subject `json:"subject"`
	// Since is when the agent began to hang: its processes are ended once per hang.
	Since time.Time `json:"since"`
	// Roots are its recorded processes that live; with each of them all its descendants are ended.
	Roots []protocol.Identity `json:"roots"`
	Why   string              `json:"why"`
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
	for i := range s.Tasks {
		t := &s.Tasks[i]
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

func (a *agentCase) hung() bool { return a != nil && a.verdict.State == protocol.AgentHung }

// alertHung tells the user of an agent that hangs. Everything that waits for its work waits in vain.
func (k *agentJudge) alertHung() {
	tasks := OpenTasksOf(k.s, k.agent.Name)
	a := rules.Alert{Kind: "agent_hung", Severity: protocol.High, Subject: k.subject, Agent: k.agent.Name,
		Blocking: len(tasks) > 0, Silent: allSilent(tasks), Options: CareOptions(),
		Summary: k.agent.Name + " hangs", Detail: words.Sentence(k.verdict.Cause, k.env.now), Occurrence: stamp(k.verdict.Since),
		Spoken: fmt.Sprintf("%s, the agent %s hangs.", k.env.cfg.Human, k.agent.Name)}
	if len(tasks) > 0 {
		ids := idsOf(tasks)
		a.Summary = fmt.Sprintf("%s hangs in task %s", k.agent.Name, ids[0])
		a.Detail += fmt.Sprintf(". In flight: %s.%s", strings.Join(ids, ", "), directive(tasks[0]))
	}
	if follows := k.endProcesses(); follows != "" {
		a.Detail = strings.TrimSuffix(a.Detail, ".") + ". " + follows
	}
	k.tell(condition{Alert: a})
}

// endProcesses asks for the end of a hung agent's processes where the operator ordered that, and says what follows; "" where
// it is not ordered or nothing may be changed.
func (k *agentJudge) endProcesses() string {
	if k.limits.HungAction != heartbeat.HungEnd || k.env.view.Once || !mayChange(k.s) {
		return ""
	}
	roots, not := k.endable()
	if not == "" && k.endedBefore() {
		not = "they were ended for this work once, and the next ones hang too"
	}
	if not != "" {
		return `Nothing is ended (hung_action = "end"): ` + not + "."
	}
	if !k.s.Busy {
		k.ruling.ends = append(k.ruling.ends, End{Subject: k.subject, Since: k.verdict.Since, Roots: roots, Why: words.Sentence(k.verdict.Cause, k.env.now)})
		k.alertEnded()
	}
	return `Its processes are ended (hung_action = "end").`
}

// endedBefore reports whether an earlier hang with the same work was ended already. Otherwise a keeper that restarts the
// agent and a steward that ends it would alternate forever.
func (k *agentJudge) endedBefore() bool {
	for _, t := range k.hands.tasks {
		if at := k.env.old.Tasks.Of(k.s.Subject(protocol.KindTask, t.ID)).Stopped; at.IsZero() || !k.verdict.Since.After(at) {
			return false
		}
	}
	return true
}

// alertEnded tells that processes were ended. The alert lasts until the agent is back, because its keeper may restart it at
// once.
func (k *agentJudge) alertEnded() {
	name := k.agent.Name
	k.tell(condition{Alert: rules.Alert{Kind: "agent_ended", Severity: protocol.Medium, Subject: k.subject, Agent: name, Lasting: true,
		Summary: fmt.Sprintf("%s hung in task %s, and was ended", name, k.hands.tasks[0].ID), Detail: words.Sentence(k.verdict.Cause, k.env.now),
		Spoken: fmt.Sprintf("%s, the agent %s hung and was ended.", k.env.cfg.Human, name), Occurrence: stamp(k.verdict.Since)}})
}

// endable lists the processes whose end stops the hung work and nothing else, or says why there are none. An agent without a
// task may only rest at its prompt. Workers of one name share a verdict: of each task only the process that its claim names
// is ended, and only below a worker whose processes all stood still.
func (k *agentJudge) endable() (roots []protocol.Identity, not string) {
	if len(k.hands.tasks) == 0 {
		return nil, "it has no task in hand"
	}
	own, named := k.recorded(), false
	for _, t := range k.hands.tasks {
		n := len(t.Workers)
		if n == 0 {
			continue
		}
		named = true
		if last := t.Workers[n-1]; slices.Contains(own, t.Workers[0]) && k.env.processes[last] == heartbeat.ProcessAlive && !slices.Contains(roots, last) {
			roots = append(roots, last)
		}
	}
	alive := func(id protocol.Identity) bool { return k.env.processes[id] == heartbeat.ProcessAlive }
	switch {
	case len(roots) > 0:
		return roots, ""
	case named:
		return nil, "the worker that has its task is none of its processes that live"
	case k.agent.Claims:
		return nil, "no claim names the process that has its task"
	case len(own) > 1:
		return nil, "several processes bear its name, and nothing says which of them has the task"
	case !slices.ContainsFunc(own, alive):
		return nil, "it has no process on record that runs"
	}
	return own, ""
}

// recorded lists the agent's processes that one of steward's own commands recorded and that are not proved to be gone. A
// process that only a file names is not among them, however long it has lived: it may be the shell of a person.
func (k *agentJudge) recorded() []protocol.Identity {
	var list []protocol.Identity
	for _, id := range append([]protocol.Identity{k.agent.Process}, k.agent.Others...) {
		if id.Proves() && id != k.agent.Keeper && k.env.processes[id] != heartbeat.ProcessGone {
			list = append(list, id)
		}
	}
	return list
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
