package supervisor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// agentLook is an agent together with the verdict on it.
type agentLook struct {
	agent   *protocol.Agent
	verdict heartbeat.Verdict
	mem     heartbeat.Memory
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

func (a *agentLook) dead() bool { return a != nil && a.verdict.State == protocol.AgentDead }

// agents judges every agent of a snapshot and brings the registry into line.
func (d *decision) agents(s *protocol.Snapshot) map[string]*agentLook {
	looks := make(map[string]*agentLook, len(s.Agents))
	clock := d.clock(s)
	for i := range s.Agents {
		a := &s.Agents[i]
		subject := s.Subject(protocol.KindAgent, a.Name)
		limits := d.cfg.Heartbeat.Of(s.Protocol, a)
		mem := d.old.Agents[subject]
		facts := heartbeat.Facts{Agent: *a}
		facts.Process, facts.Identity = d.process(a, mem)
		verdict, next := heartbeat.Judge(facts, mem, clock, limits, d.cfg.Heartbeat)
		look := &agentLook{agent: a, verdict: verdict, mem: next}
		if heartbeat.Fresh(*a, next, limits) {
			look.used = rounded(a.Used)
		}
		looks[a.Name] = look
		d.plan.Memory.Agents[subject] = next
		d.plan.Agents[subject] = verdict
		d.lookAgain(s.Project, verdict.Deadline)
		d.register(s, look)
		d.alertAgent(s, look)
		d.reap(s, look)
	}
	return looks
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
		Why: l.verdict.Why, Ref: a.Ref, Agent: a.Name, Status: word})
}

// alertAgent tells the human of an agent that is dead or in error.
func (d *decision) alertAgent(s *protocol.Snapshot, l *agentLook) {
	subject := s.Subject(protocol.KindAgent, l.agent.Name)
	switch {
	case l.dead():
		if l.agent.Presence == protocol.PresenceGone && lostWith(s, l.agent.Name) {
			return // the incident is about its task
		}
		tasks := openTasksOf(s, l.agent.Name)
		a := escalate.Alert{Kind: "agent_dead", Severity: protocol.High, Subject: subject, Agent: l.agent.Name,
			Summary: l.agent.Name + " is dead", Detail: l.verdict.Why, Occurrence: l.verdict.Since.UTC().Format("20060102T150405.000Z"),
			Spoken: fmt.Sprintf("%s, the agent %s is dead.", d.cfg.Human, l.agent.Name)}
		if len(tasks) > 0 {
			a.Blocking = true
			a.Summary = fmt.Sprintf("%s is dead, probably in task %s", l.agent.Name, tasks[0])
			if !l.verdict.Proof {
				a.Summary = fmt.Sprintf("%s is silent, probably in task %s", l.agent.Name, tasks[0])
			}
			a.Detail += fmt.Sprintf(". In flight: %s. ", strings.Join(tasks, ", "))
			switch {
			case !s.Act:
				a.Detail += "steward only observes here and changes nothing"
			case s.Yield != "":
				a.Detail += "steward changes nothing now: " + s.Yield
			default:
				a.Options = ofDeath()
				a.Detail += "'steward retry ID' issues one again now, 'steward cancel ID' gives it up; otherwise it is issued again " +
					"once its attempt is proved over"
			}
		}
		d.alert(a)
	case l.verdict.InError && l.agent.Status == "error":
		d.alert(escalate.Alert{Kind: "agent_error", Severity: protocol.High, Subject: subject, Agent: l.agent.Name,
			Summary: l.agent.Name + " reports an error", Detail: l.verdict.Error, Occurrence: l.verdict.Error,
			Spoken: fmt.Sprintf("%s, the agent %s reports an error.", d.cfg.Human, l.agent.Name)})
	}
}

// openTasksOf lists the tasks that the agent named and that have no result.
func openTasksOf(s *protocol.Snapshot, agent string) []string {
	var ids []string
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if t.Agent == agent && t.Outcome == nil && t.Hold == nil && t.Named != "" {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// lostWith reports whether work of the agent is proved to be lost.
func lostWith(s *protocol.Snapshot, agent string) bool {
	return slices.ContainsFunc(s.Tasks, func(t protocol.Task) bool { return t.Agent == agent && t.Lost != "" })
}
