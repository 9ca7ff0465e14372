package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// agentLook is an agent together with the verdict on it.
type agentLook struct {
	agent   *protocol.Agent
	verdict heartbeat.Verdict
	mem     heartbeat.Memory
	limits  heartbeat.Limits
	hands   hands
	used    protocol.Share // its own load, while its beat is fresh
}

// names reports whether the agent says that it works on the task.
func (a *agentLook) names(task string) bool {
	if a == nil {
		return false
	}
	for _, id := range a.agent.Tasks {
		if id == task {
			return true
		}
	}
	return false
}

// alive reports whether the agent is there to take work.
func (a *agentLook) alive() bool {
	if a == nil {
		return false
	}
	return a.verdict.State == protocol.AgentAlive || a.verdict.State == protocol.AgentLate
}

// works reports whether anything has shown that the agent runs at all: it beats in our sight, or its process lives. An
// agent that was only booted takes no tasks.
func (a *agentLook) works() bool {
	return a.mem.Beats > 0 || a.mem.Signed || a.mem.Process == heartbeat.ProcessAlive
}

func (a *agentLook) dead() bool { return a != nil && a.verdict.State == protocol.AgentDead }

// agents judges every agent of a snapshot and brings the registry into line.
func (d *decision) agents(s *protocol.Snapshot, at source, was remembered) map[string]*agentLook {
	looks, block := make(map[string]*agentLook, len(s.Agents)), make([]agentLook, len(s.Agents))
	clock := d.clock(s)
	clock.Doubt, clock.WaitUntil = d.view.Doubt, d.plan.Memory.Silence.Until
	if soon := clock.Now.Add(2 * d.cfg.LookEvery); blind(s) && soon.After(clock.WaitUntil) {
		clock.WaitUntil = soon
	}
	inHands := d.inHands(s)
	known, verdicts := writer[heartbeat.Memory]{old: was.agents, same: (*heartbeat.Memory).Same}, make([]heartbeat.Verdict, 0, len(s.Agents))
	d.reaps = writer[Reap]{old: was.reaps, same: equal[Reap]}
	for i := range s.Agents {
		a := &s.Agents[i]
		limits := d.cfg.Heartbeat.Of(s.Protocol, a)
		mem := known.value(a.Name)
		facts := d.facts(a, mem)
		facts.Task = inHands[a.Name].within(limits)
		verdict, next := heartbeat.Judge(facts, mem, clock, limits, d.cfg.Heartbeat)
		look := &block[i]
		*look = agentLook{agent: a, verdict: verdict, mem: next, limits: limits, hands: inHands[a.Name]}
		if heartbeat.Fresh(*a, next, limits) {
			look.used = rounded(a.Used)
		}
		looks[a.Name] = look
		verdicts = set(verdicts, known.write(a.Name, &next), verdict)
		d.lookAgain(s.Project, verdict.Deadline)
		d.register(s, look)
		d.alertAgent(s, look)
		d.reap(s, look)
	}
	here, judged := bookKey{at, protocol.KindAgent}, known.done()
	replace(&d.plan.Memory.Agents, &d.own.agents, here, judged)
	replace(&d.plan.Memory.Reaps, &d.own.reaps, here, d.reaps.done())
	replace(&d.plan.Agents, &d.own.agentVerdicts, here, aligned(judged, verdicts))
	return looks
}

// facts are what this look showed of an agent and its processes.
func (d *decision) facts(a *protocol.Agent, mem heartbeat.Memory) heartbeat.Facts {
	f := heartbeat.Facts{Agent: d.speaking(a)}
	f.Process, f.Identity = d.process(&f.Agent, mem)
	f.Keeper = d.processes[a.Keeper]
	f.Activity = d.activity(a, f.Identity)
	return f
}

// register writes the agent's state into the shared registry, on a change of state only.
func (d *decision) register(s *protocol.Snapshot, l *agentLook) {
	a := l.agent
	if a.Ref.Path == "" {
		return
	}
	word, reason := "", l.verdict.Reason
	switch {
	case l.dead():
		word = "error"
	case l.verdict.InError && a.Status == "error":
		word, reason = "error", protocol.ReasonError
	case l.alive() && (a.Recorded == "error" || a.Recorded == "unknown") && a.Status != "":
		word, reason = a.Status, protocol.ReasonBeats
	}
	if word == "" || word == a.Recorded {
		return
	}
	d.change(s, protocol.Change{Verb: protocol.VerbMark, Subject: s.Subject(protocol.KindAgent, a.Name), Reason: reason,
		Why: l.verdict.Why, Ref: a.Ref, Agent: a.Name, Status: word, Seen: l.verdict.Heard})
}

// alertAgent tells the human of an agent that is dead, hangs or is in error.
func (d *decision) alertAgent(s *protocol.Snapshot, l *agentLook) {
	subject := s.Subject(protocol.KindAgent, l.agent.Name)
	switch {
	case l.dead():
		if l.agent.Presence == protocol.PresenceGone && lostWith(s, l.agent.Name) {
			return // the incident is about its task
		}
		tasks := OpenTasksOf(s, l.agent.Name)
		if l.agent.Told && len(tasks) == 0 {
			return // its keeper's incident says more
		}
		if d.oneOfMany(subject, l.verdict) {
			return
		}
		ids := idsOf(tasks)
		a := rules.Alert{Kind: "agent_dead", Severity: protocol.High, Subject: subject, Agent: l.agent.Name,
			Summary: l.agent.Name + " is dead", Detail: l.verdict.Why, Occurrence: stamp(l.verdict.Since),
			Spoken: fmt.Sprintf("%s, the agent %s is dead.", d.cfg.Human, l.agent.Name)}
		if len(tasks) > 0 {
			a.Blocking, a.Silent, a.Options = true, allSilent(tasks), CareOptions()
			a.Summary = fmt.Sprintf("%s is dead, probably in task %s", l.agent.Name, ids[0])
			if !l.verdict.Proof {
				a.Summary = fmt.Sprintf("%s is silent, probably in task %s", l.agent.Name, ids[0])
			}
			a.Detail += fmt.Sprintf(". In flight: %s.%s ", strings.Join(ids, ", "), directive(tasks[0]))
			switch {
			case !s.Act:
				a.Detail += "steward only observes here and changes nothing"
			case s.Yield != "":
				a.Detail += "steward changes nothing now: " + s.Yield
			case led(l.agent, tasks[0]):
				a.Detail += "steward puts it back once nothing has shown work on it for a while"
			default:
				a.Options = ofDeath()
				a.Detail += "'steward retry ID' issues one again now, 'steward cancel ID' gives it up; otherwise it is issued again " +
					"once its attempt is proved over"
			}
		}
		d.alert(a)
	case l.hung():
		d.alertHung(s, l)
	case l.verdict.InError && (l.agent.Failed || l.agent.Status == "error"):
		d.alertError(s, l)
	}
}

// alertError tells of an agent that says it is in error. Who waits for its work waits in vain.
func (d *decision) alertError(s *protocol.Snapshot, l *agentLook) {
	tasks := OpenTasksOf(s, l.agent.Name)
	a := rules.Alert{Kind: "agent_error", Severity: protocol.High, Subject: s.Subject(protocol.KindAgent, l.agent.Name), Agent: l.agent.Name,
		Blocking: len(tasks) > 0, Silent: allSilent(tasks), Options: CareOptions(),
		Summary: l.agent.Name + " reports an error", Detail: l.verdict.Error,
		Spoken: fmt.Sprintf("%s, the agent %s reports an error.", d.cfg.Human, l.agent.Name)}
	if len(tasks) > 0 {
		a.Detail += fmt.Sprintf("\nIn flight: %s.%s", strings.Join(idsOf(tasks), ", "), directive(tasks[0]))
	}
	a.Key = KeyOf(a)
	a.Occurrence = occurrence(d.stands(a, time.Time{}).Since, l.verdict.Error)
	d.alert(a)
}

// OpenTasksOf lists the tasks in flight that have no result: the agent's own, and those of its children that wait for
// it to come back when it is proved to be gone.
func OpenTasksOf(s *protocol.Snapshot, agent string) []*protocol.Task {
	var open []*protocol.Task
	a, _ := s.Agent(agent)
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if (t.Agent == agent || led(a, t)) && t.Outcome == nil && t.Hold == nil && t.Named != "" {
			open = append(open, t)
		}
	}
	return open
}

// led reports whether the task is in the hands of a child of the agent, which is proved to be gone.
func led(a *protocol.Agent, t *protocol.Task) bool {
	return a != nil && a.Presence == protocol.PresenceGone && t.Agent != a.Name && slices.Contains(a.Tasks, t.ID)
}

func idsOf(tasks []*protocol.Task) []string {
	ids := make([]string, 0, len(tasks))
	for _, t := range tasks {
		ids = append(ids, t.ID)
	}
	return ids
}

// allSilent reports whether all of the work was asked for without voice.
func allSilent(tasks []*protocol.Task) bool {
	return len(tasks) > 0 && !slices.ContainsFunc(tasks, func(t *protocol.Task) bool { return !t.Silent })
}

// lostWith reports whether work of the agent is proved to be lost.
func lostWith(s *protocol.Snapshot, agent string) bool {
	return slices.ContainsFunc(s.Tasks, func(t protocol.Task) bool { return t.Agent == agent && t.Lost != "" })
}

// speaking is the agent with the process in front that speaks for it: of several, the first that is not gone.
func (d *decision) speaking(a *protocol.Agent) protocol.Agent {
	if len(a.Others) == 0 || d.processes[a.Process] != heartbeat.ProcessGone {
		return *a
	}
	chosen := *a
	for _, id := range a.Others {
		if d.processes[id] != heartbeat.ProcessGone {
			chosen.Process = id
			break
		}
	}
	return chosen
}
