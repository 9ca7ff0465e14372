package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
)

// agentCase is an agent together with the verdict on it.
type agentCase struct {
	agent   *protocol.Agent
	verdict heartbeat.Verdict
	mem     heartbeat.Memory
	limits  heartbeat.Limits
	hands   hands
	used    protocol.Share // its own load, while its heartbeat is fresh
}

// names reports whether the agent says that it works on the task.
func (a *agentCase) names(task string) bool {
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

// alive reports whether the agent can take work.
func (a *agentCase) alive() bool {
	if a == nil {
		return false
	}
	return a.verdict.State == protocol.AgentAlive || a.verdict.State == protocol.AgentLate
}

// works reports whether the agent has shown any activity: steward saw a heartbeat, or its process lives. An agent that only
// booted takes no tasks.
func (a *agentCase) works() bool {
	return a.mem.Beats > 0 || a.mem.Signed || a.mem.Process == heartbeat.ProcessAlive
}

func (a *agentCase) dead() bool { return a != nil && a.verdict.State == protocol.AgentDead }

// agentJudge applies the rules to one agent.
type agentJudge struct {
	*agentCase
	env     *env
	s       *protocol.Snapshot
	subject protocol.Subject
	ruling
	reap   Reap // what is remembered of its orphans
	joined bool // it fell silent with others, and the one alert about them speaks of it
}

// agents judges every agent of a snapshot.
func (d *decision) agents(s *protocol.Snapshot, at source, was remembered) map[string]*agentCase {
	cases, block := make(map[string]*agentCase, len(s.Agents)), make([]agentCase, len(s.Agents))
	clock := d.clock(s)
	clock.Doubt, clock.WaitUntil = d.view.Doubt, d.silence.Until
	if soon := clock.Now.Add(2 * d.cfg.LookEvery); blind(s) && soon.After(clock.WaitUntil) {
		clock.WaitUntil = soon
	}
	inHands := inHands(s, &d.cfg)
	known, verdicts := writer[heartbeat.Memory]{old: was.agents, same: (*heartbeat.Memory).Same}, make([]heartbeat.Verdict, 0, len(s.Agents))
	reaps, k := writer[Reap]{old: was.reaps, same: equal[Reap]}, new(agentJudge)
	for i := range s.Agents {
		a := &s.Agents[i]
		limits := d.cfg.Heartbeat.Of(s.Protocol, a)
		mem := known.value(a.Name)
		facts := d.facts(a, mem)
		facts.Task = inHands[a.Name].within(limits)
		verdict, next := heartbeat.Judge(facts, mem, clock, limits, d.cfg.Heartbeat)
		c := &block[i]
		*c = agentCase{agent: a, verdict: verdict, mem: next, limits: limits, hands: inHands[a.Name]}
		if heartbeat.Fresh(*a, next, limits) {
			c.used = rounded(a.Used)
		}
		cases[a.Name] = c
		verdicts = set(verdicts, known.write(a.Name, &next), verdict)
		d.rescanAt(s.Project, verdict.Deadline)
		*k = agentJudge{agentCase: c, env: &d.env, s: s, subject: s.Subject(protocol.KindAgent, a.Name), reap: reaps.value(a.Name)}
		k.judge()
		if len(a.Orphans) > 0 {
			reaps.write(a.Name, &k.reap)
		}
		d.enterAgent(k)
	}
	here, judged := bookKey{at, protocol.KindAgent}, known.done()
	replace(&d.plan.Memory.Agents, &d.own.agents, here, judged)
	replace(&d.plan.Memory.Reaps, &d.own.reaps, here, reaps.done())
	replace(&d.plan.Agents, &d.own.agentVerdicts, here, aligned(judged, verdicts))
	return cases
}

// enterAgent takes over what was ruled on an agent.
func (d *decision) enterAgent(k *agentJudge) {
	for range k.ends {
		for _, t := range k.hands.tasks {
			d.stopped[k.s.Subject(protocol.KindTask, t.ID)] = d.now
		}
	}
	if k.joined {
		m := &d.plan.Memory.Silence
		m.Agents, m.Told = append(slices.Clone(m.Agents), k.subject), m.Since // older Memories share the list
	}
	d.merge(k.s, &k.ruling)
}

func (k *agentJudge) judge() {
	k.register()
	k.alert()
	k.reapOrphans()
}

// register writes the agent's state into the shared registry when the state changes.
func (k *agentJudge) register() {
	a := k.agent
	if a.Ref.Path == "" {
		return
	}
	word, reason := "", k.verdict.Reason
	switch {
	case k.dead():
		word = "error"
	case k.verdict.InError && a.Status == "error":
		word, reason = "error", protocol.ReasonError
	case k.alive() && (a.Recorded == "error" || a.Recorded == "unknown") && a.Status != "":
		word, reason = a.Status, protocol.ReasonBeats
	}
	if word == "" || word == a.Recorded {
		return
	}
	k.change(k.s, protocol.Change{Verb: protocol.VerbMark, Subject: k.subject, Reason: reason,
		Why: words.Sentence(k.verdict.Cause, k.env.now), Judged: protocol.Judged{Ref: a.Ref, Seen: k.verdict.Heard}, Agent: a.Name, Status: word})
}

// alert tells the user of an agent that is dead, hangs, or is in error.
func (k *agentJudge) alert() {
	switch {
	case k.dead():
		if k.agent.Presence == protocol.PresenceGone && lostWith(k.s, k.agent.Name) {
			return // the incident is about its task instead
		}
		tasks := OpenTasksOf(k.s, k.agent.Name)
		if k.agent.Told && len(tasks) == 0 {
			return // the incident of its keeper says more
		}
		if k.oneOfMany() {
			return
		}
		ids := idsOf(tasks)
		a := rules.Alert{Kind: "agent_dead", Severity: protocol.High, Subject: k.subject, Agent: k.agent.Name,
			Summary: k.agent.Name + " is dead", Detail: words.Sentence(k.verdict.Cause, k.env.now), Occurrence: stamp(k.verdict.Since),
			Spoken: fmt.Sprintf("%s, the agent %s is dead.", k.env.cfg.Human, k.agent.Name)}
		if len(tasks) > 0 {
			a.Blocking, a.Silent, a.Options = true, allSilent(tasks), CareOptions()
			a.Summary = fmt.Sprintf("%s is dead, probably in task %s", k.agent.Name, ids[0])
			if !k.verdict.Proof {
				a.Summary = fmt.Sprintf("%s is silent, probably in task %s", k.agent.Name, ids[0])
			}
			a.Detail += fmt.Sprintf(". In flight: %s.%s ", strings.Join(ids, ", "), directive(tasks[0]))
			switch {
			case !k.s.Act:
				a.Detail += "steward only observes here and changes nothing"
			case k.s.Yield != "":
				a.Detail += "steward changes nothing now: " + k.s.Yield
			case led(k.agent, tasks[0]):
				a.Detail += "steward puts it back once nothing has shown work on it for a while"
			default:
				a.Options = ofDeath()
				a.Detail += "'steward retry ID' issues one again now, 'steward cancel ID' gives it up; otherwise it is issued again " +
					"once its attempt is proved over"
			}
		}
		k.tell(condition{Alert: a})
	case k.hung():
		k.alertHung()
	case k.verdict.InError && (k.agent.Failed || k.agent.Status == "error"):
		k.alertError()
	}
}

// alertError tells of an agent that reports an error. Everything that waits for its work waits in vain.
// See docs/decisions.md, "Only status: error is an incident".
func (k *agentJudge) alertError() {
	tasks := OpenTasksOf(k.s, k.agent.Name)
	a := rules.Alert{Kind: "agent_error", Severity: protocol.High, Subject: k.subject, Agent: k.agent.Name,
		Blocking: len(tasks) > 0, Silent: allSilent(tasks), Options: CareOptions(),
		Summary: k.agent.Name + " reports an error", Detail: k.verdict.Error,
		Spoken: fmt.Sprintf("%s, the agent %s reports an error.", k.env.cfg.Human, k.agent.Name)}
	if len(tasks) > 0 {
		a.Detail += fmt.Sprintf("\nIn flight: %s.%s", strings.Join(idsOf(tasks), ", "), directive(tasks[0]))
	}
	k.tell(condition{Alert: a, words: k.verdict.Error})
}

// OpenTasksOf lists the tasks in flight that have no result: the agent's own, and, when the agent is proved to be gone,
// those of its children that wait for it.
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

// led reports whether a child of the agent, which is proved to be gone, has the task.
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

// allSilent reports whether all of these tasks were requested without voice.
func allSilent(tasks []*protocol.Task) bool {
	return len(tasks) > 0 && !slices.ContainsFunc(tasks, func(t *protocol.Task) bool { return !t.Silent })
}

// lostWith reports whether work of the agent is proved to be lost.
func lostWith(s *protocol.Snapshot, agent string) bool {
	return slices.ContainsFunc(s.Tasks, func(t protocol.Task) bool { return t.Agent == agent && t.Lost != "" })
}
