// Package decide says what should change in the projects, and why. It takes values and returns values: it reads no file, no
// clock, and starts no goroutine.
//
// Each rule is a function from a case (all that it may read) to a ruling (all that it can say). Decide runs them phase by
// phase and puts the rulings into the plan.
package decide

import (
	"slices"

	"github.com/livhana/steward/protocol"
)

// Decide runs all policies: reap, expire, retry, admit, alert, in that order of precedence. It is pure: the same View,
// Memory and Config give the same Plan anywhere. Where two policies want to change one Subject, the earlier wins. The effect
// of a change reaches another policy only through the files, at the next scan.
func Decide(v View, m Memory, cfg Config) Plan {
	e := newEnv(v, m, cfg)
	p := newPlanner(e)
	var tasks []judgedTask
	for i := range v.Snapshots {
		s := &v.Snapshots[i]
		agents, stopped := judgeAgents(p, s)
		if !s.Gone { // else what is remembered of them stays, for the folder may come back
			judgeLocks(p, s, agents)
			tasks = judgeTasks(p, s, agents, stopped, tasks)
		}
		found := judgeFound(e, s)
		p.merge(s.Project, &found)
	}
	gate := admit(e, tasks)
	p.merge("", &gate.ruling)
	for _, k := range gate.changed {
		p.enterTask(k)
	}
	if p.plan.Claims, p.plan.Memory.Gate = gate.claims, gate.memory; gate.reissue {
		p.plan.Memory.LastReissue = e.now
	}
	judgeConditions(p)
	return p.done()
}

// judgeAgents judges the agents of a snapshot, and returns the tasks whose processes are ended.
func judgeAgents(p *planner, s *protocol.Snapshot) (byName map[string]*agentCase, stopped []string) {
	cases := meetAgents(p.env, s)
	byName = make(map[string]*agentCase, len(cases))
	for i := range cases {
		a := agentSubject{env: p.env, agentCase: &cases[i], s: s, subject: s.Subject(protocol.KindAgent, cases[i].agent.Name)}
		byName[a.agent.Name] = a.agentCase
		r := judgeAgent(a)
		m := &p.plan.Memory
		m.Agents.values[a.subject], p.plan.Agents.values[a.subject] = a.mem, a.verdict
		if r.reap != (Reap{}) {
			m.Reaps.values[a.subject] = r.reap
		}
		if r.joined {
			m.Silence.Agents, m.Silence.Told = append(slices.Clone(m.Silence.Agents), a.subject), m.Silence.Since
		}
		if len(r.ends) > 0 {
			for _, t := range a.hands.tasks {
				stopped = append(stopped, t.ID)
			}
		}
		p.merge(s.Project, &r.ruling)
	}
	return byName, stopped
}

func judgeLocks(p *planner, s *protocol.Snapshot, agents map[string]*agentCase) {
	for i := range s.Locks {
		r, v, m := judgeLock(p.env, s, &s.Locks[i], agents)
		subject := s.Subject(protocol.KindLock, s.Locks[i].Resource)
		p.plan.Memory.Locks.values[subject], p.plan.Locks.values[subject] = m, v
		p.merge(s.Project, &r)
	}
}

// judgeTasks judges the tasks of a snapshot that have not settled, and adds them to the list.
func judgeTasks(p *planner, s *protocol.Snapshot, agents map[string]*agentCase, stopped []string, judged []judgedTask) []judgedTask {
	at, divided := snapshotSource{s.Project, s.Protocol}, s.Divided
	if divided == nil {
		d := s.Divide(nil)
		divided = &d
	}
	done := settle(divided.List, p.last.Tasks, at, plain(s.At))
	if len(divided.Done) > len(done.open) {
		p.plan.Memory.Tasks.settled[at], p.plan.Tasks.settled[at] = done, done
	}
	shared := taskCase{env: p.env, s: s, agents: agents, at: plain(s.At), requests: &requests{s: s}, since: p.plan.Memory.Projects[s.Project].Since}
	judge := func(t *protocol.Task) {
		c := shared
		c.t, c.agent, c.subject = t, agents[t.Agent], s.Subject(protocol.KindTask, t.ID)
		if slices.Contains(stopped, t.ID) {
			c.stopped = p.now
		}
		c.reissued = p.reissued
		c.was, c.retries = p.last.Tasks.Of(c.subject), p.plan.Memory.Projects[s.Project].Retries
		c.mem = observe(&c)
		k := judgedTask{taskCase: c, taskRuling: judgeTask(&c)}
		p.reissued = p.reissued || k.reissues
		p.pay(&k)
		p.enterTask(&k)
		judged = append(judged, k)
	}
	for _, i := range divided.Rest {
		judge(&s.Tasks[i])
	}
	for _, i := range done.open {
		t := &s.Tasks[divided.Done[i]]
		subject := s.Subject(protocol.KindTask, t.ID)
		if m, known := p.last.Tasks.values[subject]; known && m.settledBy(divided.List.Tasks[i]) {
			p.plan.Memory.Tasks.values[subject], p.plan.Tasks.values[subject] = m, completedVerdict
			continue
		}
		judge(t)
	}
	return judged
}

// judgeConditions tells the user of what is wrong beside single agents, locks and tasks, and that it is over.
func judgeConditions(p *planner) {
	m := &p.plan.Memory
	var short, faults, silence ruling
	short, m.Exhaustion = judgeShortage(p.env, m.Gate)
	p.merge("", &short)
	faults, m.Standing = judgeFaults(p.env, m.Standing)
	p.merge("", &faults)
	m.Silence, silence = judgeSilence(p.env, m.Silence, p.plan.Agents, m.Agents)
	p.merge("", &silence)
	p.offerRepairs()
	for _, c := range p.conditions {
		p.tell(c)
	}
	p.resolveIncidents()
}

// settledBy reports whether the task was judged completed by that result, and nothing was left to do about it.
func (m *TaskMemory) settledBy(c protocol.Completion) bool {
	return m.Settled != "" && m.Settled == c.Result && m.Run == c.Run && m.Asked == c.Request
}
