package envelope

import (
	"path"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol/jsonfile"
)

// answer removes the open assignments that m answers, and reports whether no open assignment is left. An unanswered
// deployment stays open even if its task was given to another agent: no other agent's message answers it.
func (t *taskState) answer(m *message) bool {
	t.open = slices.DeleteFunc(t.open, func(a *message) bool {
		if a.deploys == deploysSure {
			if !t.speaksFor(m, a) {
				return false
			}
			t.deployed = a
		}
		return true
	})
	return len(t.open) == 0
}

// speaksFor reports whether m can come from the agent of a deployment. Agents sign with many names, so only known
// other agents are excluded: the document's other roles, and other assignees of the task. A message without
// from_agent is attributed to the newest assignee.
func (t *taskState) speaksFor(m, deployment *message) bool {
	if m.from == "" {
		return t.assigned.deploys == deploysSure
	}
	if m.fromDeployer || agentName(m.from) == agentName(deployment.to) || slices.ContainsFunc(deployment.also, func(name string) bool { return agentName(name) == agentName(m.from) }) {
		return true
	}
	return !isOther(m.from) && !slices.ContainsFunc(t.messages, func(a *message) bool {
		return a.kind == assigns && agentName(a.to) == agentName(m.from)
	})
}

// fromItsAgent reports whether m can come from the task's agent. While a deployment is open, only the deployment's
// agent qualifies.
func (t *taskState) fromItsAgent(m *message) bool {
	return !slices.ContainsFunc(t.deployments(), func(a *message) bool { return !t.speaksFor(m, a) })
}

// isOther reports whether the document lists the agent under a role other than the deployer's.
func isOther(name string) bool {
	switch agentName(name) {
	case "ORCHESTRATOR", "DEVELOPER", "INTEGRATIONS", "SECURITY_AUDITOR", "ARCHITECT", "DESIGNER", "TESTING", "DOCUMENTATION", "HUMAN":
		return true
	}
	return false
}

// withCopies adds duplicates of the open assignments. tell skips duplicates, but an agent finds each of their files.
func (t *taskState) withCopies() {
	sums := map[jsonfile.Sum]bool{}
	for _, m := range t.open {
		sums[m.sum] = m.stamped
	}
	for _, m := range t.messages {
		if m.kind == assigns && sums[m.sum] && !m.inLog() && !slices.Contains(t.open, m) {
			t.open = append(t.open, m)
		}
	}
}

// deployments returns the open assignments that are deployments.
func (t *taskState) deployments() []*message {
	var list []*message
	for _, m := range t.open {
		if m.deploys == deploysSure {
			list = append(list, m)
		}
	}
	return list
}

// kept reports whether any message of the task is held, held whether an open assignment is held, and bare whether an
// open assignment lies unheld in the folder, where its agent finds it.
func (t *taskState) kept() bool {
	return slices.ContainsFunc(t.messages, func(m *message) bool { return m.held })
}

func (t *taskState) held() bool {
	return slices.ContainsFunc(t.open, func(m *message) bool { return m.held })
}

func (t *taskState) bare() bool {
	return slices.ContainsFunc(t.open, func(m *message) bool { return !m.held && !m.inLog() })
}

// reassigned returns an open deployment, and an assignment of the same task to another agent: the newest or an open
// one.
func (t *taskState) reassigned() (deployment, other *message) {
	for _, m := range append(t.open[:len(t.open):len(t.open)], t.assigned) {
		if m.deploys == deploysSure {
			deployment = m
		} else {
			other = m
		}
	}
	return deployment, other
}

// adopt names the task of an assignment without a usable task_id after its file. A task without an id cannot be
// tracked, and therefore cannot be held.
func (m *message) adopt(name string) {
	id := strings.TrimSuffix(openName(path.Base(name)), messageExt)
	if m.kind != assigns || m.unusable == "" || !plain(id) {
		return
	}
	m.unusable = ""
	if m.task != "" && plain(m.task) {
		return
	}
	c := &check{kind: "TASK_ASSIGNMENT"}
	problem := "task_id is missing or no text"
	if m.task != "" {
		problem = "task_id cannot be used as a file name"
		m.faults = append(m.faults, problem)
		m.assignment.lacks = m.lacking(m.faults)
	}
	c.note("medium", "schema", "task_id", problem+"; the assignment is tracked under its file's name")
	m.task, m.issues = id, append(m.issues, c.findings...)
}
