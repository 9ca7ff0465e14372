package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// End asks for the end of a hung agent's processes, as its hung_action says.
type End struct {
	Subject protocol.Subject `json:"subject"`
	// Since is when the agent began to hang: one hanging is ended once.
	Since time.Time `json:"since"`
	// Roots are its processes that live, each of them recorded; with each goes all that descends from it.
	Roots []protocol.Identity `json:"roots"`
	Why   string              `json:"why"`
}

// activity sums up what the trees of processes do that speak for an agent. Unless all of them that live were seen lately,
// nobody can say.
func (d *decision) activity(a *protocol.Agent, id protocol.Identity) heartbeat.Activity {
	sum, known := d.seen(id)
	if !known {
		return heartbeat.Activity{}
	}
	for _, other := range Beside(a) {
		if other == id || other == a.Keeper || d.processes[other] == heartbeat.ProcessGone {
			continue
		}
		more, known := d.seen(other)
		if !known {
			return heartbeat.Activity{}
		}
		sum.CPU, sum.Written, sum.Tree = sum.CPU+more.CPU, sum.Written+more.Written, sum.Tree+" "+more.Tree
	}
	return sum
}

// seen is what the tree below one process does, by a scan not older than two looks. Where neither its processor time nor
// its processes can be read, nobody can say.
func (d *decision) seen(id protocol.Identity) (heartbeat.Activity, bool) {
	u := d.tree(id)
	if u == nil || u.CPU == 0 && u.Tree == "" || d.now.Sub(plain(u.At)) > 2*d.cfg.LookEvery || d.now.Before(plain(u.At).Add(-2*d.cfg.LookEvery)) {
		return heartbeat.Activity{}, false
	}
	return heartbeat.Activity{Known: true, CPU: u.CPU, Tree: u.Tree, Written: u.Written}, true
}

// tree is what the processes below one take by the last scan, nil if that is not known.
func (d *decision) tree(id protocol.Identity) *capacity.Usage {
	if d.trees == nil && len(d.view.Usage) > 0 {
		d.trees = make(map[protocol.Identity]*capacity.Usage, len(d.view.Usage))
		for i := range d.view.Usage {
			d.trees[d.view.Usage[i].Identity] = &d.view.Usage[i]
		}
	}
	return d.trees[id]
}

// hands is what one agent has in flight.
type hands struct {
	tasks   []*protocol.Task
	longest time.Duration // of the timeouts
	endless bool          // one has none
}

// inHands finds what each agent itself names as being worked on. What only lies in its sight, or waits for somebody
// else, says nothing of what it should be doing.
func (d *decision) inHands(s *protocol.Snapshot) map[string]hands {
	var all map[string]hands
	for i := range s.Tasks {
		t := &s.Tasks[i]
		heldInHand := t.Hold != nil && t.Hold.Reason == protocol.HoldCapacity // it was held a moment too late
		if t.Named == "" || t.Agent == "" || t.Outcome != nil || t.Hold != nil && !heldInHand || t.Awaits != "" || t.Lost != "" {
			continue
		}
		if all == nil {
			all = map[string]hands{}
		}
		h, timeout := all[t.Agent], (&taskLook{d: d, t: t}).timeout()
		h.tasks = append(h.tasks, t)
		h.longest, h.endless = max(h.longest, timeout), h.endless || timeout == 0
		all[t.Agent] = h
	}
	return all
}

// within is how long nothing may move in an agent with that in its hands; 0: it has nothing there.
func (h hands) within(l heartbeat.Limits) time.Duration {
	if h.endless {
		return max(h.longest, l.Hung)
	}
	return h.longest
}

func (a *agentLook) hung() bool { return a != nil && a.verdict.State == protocol.AgentHung }

// alertHung tells the human of an agent that hangs. Who waits for its work waits in vain.
func (d *decision) alertHung(s *protocol.Snapshot, l *agentLook) {
	tasks := OpenTasksOf(s, l.agent.Name)
	a := rules.Alert{Kind: "agent_hung", Severity: protocol.High, Subject: s.Subject(protocol.KindAgent, l.agent.Name), Agent: l.agent.Name,
		Blocking: len(tasks) > 0, Silent: allSilent(tasks), Options: CareOptions(),
		Summary: l.agent.Name + " hangs", Detail: l.verdict.Why, Occurrence: stamp(l.verdict.Since),
		Spoken: fmt.Sprintf("%s, the agent %s hangs.", d.cfg.Human, l.agent.Name)}
	if len(tasks) > 0 {
		ids := idsOf(tasks)
		a.Summary = fmt.Sprintf("%s hangs in task %s", l.agent.Name, ids[0])
		a.Detail += fmt.Sprintf(". In flight: %s.%s", strings.Join(ids, ", "), directive(tasks[0]))
	}
	if follows := d.ends(s, l); follows != "" {
		a.Detail = strings.TrimSuffix(a.Detail, ".") + ". " + follows
	}
	d.alert(a)
}

// ends asks for the end of a hung agent's processes where its operator has said so, and says what becomes of that; "" where
// nobody has said so, or nothing may be changed.
func (d *decision) ends(s *protocol.Snapshot, l *agentLook) string {
	if l.limits.HungAction != heartbeat.HungEnd || d.view.Once || !mayChange(s) {
		return ""
	}
	roots, not := d.endable(l)
	if not == "" && d.endedBefore(s, l) {
		not = "they were ended for this work once, and the next ones hang too"
	}
	if not != "" {
		return `Nothing is ended (hung_action = "end"): ` + not + "."
	}
	if !s.Busy {
		d.plan.Ends = append(d.plan.Ends, End{Subject: s.Subject(protocol.KindAgent, l.agent.Name), Since: l.verdict.Since, Roots: roots, Why: l.verdict.Why})
		for _, t := range l.hands.tasks {
			d.stopped[s.Subject(protocol.KindTask, t.ID)] = d.now
		}
		d.alertEnded(s, l)
	}
	return `Its processes are ended (hung_action = "end").`
}

// endedBefore reports whether an earlier hanging with the same work was ended already. A keeper that starts the agent again
// and a steward that ends it again would go on for ever.
func (d *decision) endedBefore(s *protocol.Snapshot, l *agentLook) bool {
	for _, t := range l.hands.tasks {
		if at := d.old.Tasks.Of(s.Subject(protocol.KindTask, t.ID)).Stopped; at.IsZero() || !l.verdict.Since.After(at) {
			return false
		}
	}
	return true
}

// alertEnded tells that processes were ended, and goes on to when the agent is back: its keeper may start it again at once.
func (d *decision) alertEnded(s *protocol.Snapshot, l *agentLook) {
	name := l.agent.Name
	d.alert(rules.Alert{Kind: "agent_ended", Severity: protocol.Medium, Subject: s.Subject(protocol.KindAgent, name), Agent: name, Lasting: true,
		Summary: fmt.Sprintf("%s hung in task %s, and was ended", name, l.hands.tasks[0].ID), Detail: l.verdict.Why,
		Spoken: fmt.Sprintf("%s, the agent %s hung and was ended.", d.cfg.Human, name), Occurrence: stamp(l.verdict.Since)})
}

// endable lists the processes whose end would end what hangs, and nothing else; or says why there are none. Without a task
// in hand an agent may only rest at its prompt. Workers of one name share a verdict: of each task only the process goes that
// its claim names, and only below a worker whose processes were all seen to stand still.
func (d *decision) endable(l *agentLook) (roots []protocol.Identity, not string) {
	if len(l.hands.tasks) == 0 {
		return nil, "it has no task in hand"
	}
	own, named := d.recorded(l), false
	for _, t := range l.hands.tasks {
		n := len(t.Workers)
		if n == 0 {
			continue
		}
		named = true
		if last := t.Workers[n-1]; slices.Contains(own, t.Workers[0]) && d.processes[last] == heartbeat.ProcessAlive && !slices.Contains(roots, last) {
			roots = append(roots, last)
		}
	}
	alive := func(id protocol.Identity) bool { return d.processes[id] == heartbeat.ProcessAlive }
	switch {
	case len(roots) > 0:
		return roots, ""
	case named:
		return nil, "the worker that has its task is none of its processes that live"
	case l.agent.Claims:
		return nil, "no claim names the process that has its task"
	case len(own) > 1:
		return nil, "several processes bear its name, and nothing says which of them has the task"
	case !slices.ContainsFunc(own, alive):
		return nil, "it has no process on record that runs"
	}
	return own, ""
}

// recorded lists the processes of the agent that one of our own commands recorded, and that are not proved to be gone. One
// that a file named is not among them, however long it has lived with the agent: it may be the shell in which somebody works.
func (d *decision) recorded(l *agentLook) []protocol.Identity {
	var list []protocol.Identity
	for _, id := range append([]protocol.Identity{l.agent.Process}, l.agent.Others...) {
		if id.Proves() && id != l.agent.Keeper && d.processes[id] != heartbeat.ProcessGone {
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
