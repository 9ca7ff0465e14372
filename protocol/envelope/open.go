package envelope

import (
	"path"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol/jsonfile"
)

// answer takes away the open assignments that m answers, and reports whether the task goes on with it. A deployment
// that is not answered stays one, whoever else was given its task: nothing that others say moves it.
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

// speaksFor reports whether m can come from the agent that a deployment is for. Agents sign in many ways, so only
// those count as others that are known to be: the document's roles, and to whom else the task was given. A message
// without from_agent is the newest assignee's.
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

// fromItsAgent reports whether m can come from the agent that has the task: from nobody else where a deployment is open.
func (t *taskState) fromItsAgent(m *message) bool {
	return !slices.ContainsFunc(t.deployments(), func(a *message) bool { return !t.speaksFor(m, a) })
}

// isOther reports whether the document knows the agent under another role than that of the deployer.
func isOther(name string) bool {
	switch agentName(name) {
	case "ORCHESTRATOR", "DEVELOPER", "INTEGRATIONS", "SECURITY_AUDITOR", "ARCHITECT", "DESIGNER", "TESTING", "DOCUMENTATION", "HUMAN":
		return true
	}
	return false
}

// withCopies adds the copies of what is open: they are left out of the telling, but an agent finds each of them.
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

// deployments lists the open assignments that are deployments.
func (t *taskState) deployments() []*message {
	var list []*message
	for _, m := range t.open {
		if m.deploys == deploysSure {
			list = append(list, m)
		}
	}
	return list
}

// kept reports whether any message of the task is held, held whether an open assignment is, and bare whether one lies
// in the folder for its agent to find.
func (t *taskState) kept() bool {
	return slices.ContainsFunc(t.messages, func(m *message) bool { return m.held })
}

func (t *taskState) held() bool {
	return slices.ContainsFunc(t.open, func(m *message) bool { return m.held })
}

func (t *taskState) bare() bool {
	return slices.ContainsFunc(t.open, func(m *message) bool { return !m.held && !m.inLog() })
}

// reassigned finds an open deployment, and an assignment of the same task to somebody else: the newest, or an open one.
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

// adopt gives an assignment that names no usable task one after its file: what cannot be tracked could not be held.
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
