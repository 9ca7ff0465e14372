package decide

import (
	"maps"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// Tally counts what the document's success metrics are made of. The goals are those of protocol 000: tasks of other protocols
// do not count.
type Tally struct {
	Completed int           `json:"completed"`
	Failed    int           `json:"failed"`
	Latency   time.Duration `json:"latency"` // sum over Completed and Failed, from request to result
	// ForHuman counts the results that asked for the user, Spoken the spoken messages about tasks.
	ForHuman int `json:"for_human"`
	Spoken   int `json:"spoken,omitempty"`
	// Lost counts the attempts lost with their agents. Overloaded counts those whose agent was lost while the machine was
	// over a limit.
	Lost       int `json:"lost"`
	Overloaded int `json:"overloaded,omitempty"`
	// ByHand counts the orders of a person that carried a task on: a retry, a release, an answer.
	ByHand int `json:"by_hand,omitempty"`
	// Followed counts the tasks of Completed and Failed that steward saw open before they ended.
	Followed int `json:"followed,omitempty"`
}

// plus is the tally with what a decision adds to it.
func (t Tally) plus(more Tally) Tally {
	return Tally{Completed: t.Completed + more.Completed, Failed: t.Failed + more.Failed, Latency: t.Latency + more.Latency,
		ForHuman: t.ForHuman + more.ForHuman, Spoken: t.Spoken + more.Spoken, Lost: t.Lost + more.Lost,
		Overloaded: t.Overloaded + more.Overloaded, Followed: t.Followed + more.Followed, ByHand: t.ByHand + more.ByHand}
}

// Tallied is the memory with more in the tally of a project that it knows.
func (m Memory) Tallied(project string, more Tally) Memory {
	p, known := m.Projects[project]
	if !known {
		return m
	}
	p.Tally = p.Tally.plus(more)
	m.Projects = maps.Clone(m.Projects) // others may share the old one
	m.Projects[project] = p
	return m
}

// stampLag is by how much the stamp of a file may precede its write: the kernel stamps files with a clock that advances once
// per tick, at most every 10 ms.
const stampLag = 20 * time.Millisecond

// counts reports whether a result is steward's to count: not if it came before steward ever looked here.
func counts(c *taskCase, o *protocol.Outcome) bool {
	return !c.t.Foreign && !plain(o.Appeared).Before(c.since.Add(-stampLag))
}

// count adds the result to the project's tally, once. A failed task that completes after all is counted again as completed.
func count(c *taskCase, r *taskRuling, ok bool) {
	m, o := &r.next, c.t.Outcome
	if !counts(c, o) || m.Counted == "completed" || m.Counted == "failed" && !ok {
		return
	}
	switch {
	case m.Counted == "failed":
		r.tally.Failed--
	case m.News:
		r.tally.Followed++
	}
	r.tally.Latency -= m.Latency
	m.Latency = 0
	if from, to := c.t.Created, o.Appeared; !from.IsZero() && to.After(from) {
		m.Latency = max(0, to.Sub(from)-m.Withheld)
	}
	r.tally.Latency += m.Latency
	if ok {
		if m.Counted == "" && m.News {
			sayResult(c, r)
		}
		m.Counted = "completed"
		r.tally.Completed++
	} else {
		m.Counted = "failed"
		r.tally.Failed++
	}
}

// countLoss counts a run that was lost with its agent, once.
func countLoss(c *taskCase, r *taskRuling) {
	o := c.t.Outcome
	if r.next.Lost || !o.Ours || !counts(c, o) || rules.Failed(o).Code != rules.CodeAgentLost {
		return
	}
	r.next.Lost = true
	r.tally.Lost++
	// Memory or open files were over their limit at the agent's last heartbeat, or since.
	if c.agent != nil && !c.full.IsZero() && !c.full.Before(c.agent.heard().Add(-c.cfg.LookEvery)) {
		r.tally.Overloaded++
	}
}

// countCall counts a result that asked for the user, once per run.
func countCall(c *taskCase, r *taskRuling, o *protocol.Outcome) {
	if !r.next.Called && counts(c, o) {
		r.next.Called = true
		r.tally.ForHuman++
	}
}
