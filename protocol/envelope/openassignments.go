package envelope

import (
	"slices"

	"github.com/livhana/steward/protocol/jsonfile"
)

// answerOpen removes the open assignments that m answers, and reports whether no open assignment is left. An unanswered
// deployment stays open even if its task was given to another agent: no other agent's message answers it.
func (t *task) answerOpen(m *message) bool {
	t.open = slices.DeleteFunc(t.open, func(a *message) bool {
		if !a.isDeployment() {
			return true
		}
		answered := t.mayBeDeployer(m, a)
		if answered {
			t.deployed = a
		}
		return answered
	})
	return len(t.open) == 0
}

// mayBeDeployer reports whether m can come from the agent of a deployment. Agents sign with many names, so only known
// other agents are excluded: the document's other roles, and other assignees of the task. A message without
// from_agent is attributed to the newest assignee.
func (t *task) mayBeDeployer(m, deployment *message) bool {
	if m.from == "" {
		return t.assigned.isDeployment()
	}
	from := agentName(m.from)
	sent := func(name string) bool { return agentName(name) == from }
	if m.fromDeployer || sent(deployment.to) || slices.ContainsFunc(deployment.also, sent) {
		return true
	}
	return !slices.Contains(otherRoles, from) && !slices.ContainsFunc(t.messages, func(a *message) bool { return a.kind == assigns && sent(a.to) })
}

// otherRoles are the document's roles other than the deployer's.
var otherRoles = []string{"ORCHESTRATOR", "DEVELOPER", "INTEGRATIONS", "SECURITY_AUDITOR", "ARCHITECT", "DESIGNER", "TESTING",
	"DOCUMENTATION", "HUMAN"}

// mayBeItsAgent reports whether m can come from the task's agent. While a deployment is open, only the deployment's
// agent qualifies.
func (t *task) mayBeItsAgent(m *message) bool {
	return !slices.ContainsFunc(t.deployments(), func(a *message) bool { return !t.mayBeDeployer(m, a) })
}

// addCopies adds duplicates of the open assignments. replay skips duplicates, but an agent finds each of their files.
func (t *task) addCopies() {
	stamped := map[jsonfile.Sum]bool{}
	for _, m := range t.open {
		stamped[m.sum] = m.stamped
	}
	for _, m := range t.messages {
		if m.kind == assigns && stamped[m.sum] && !m.inLog() && !slices.Contains(t.open, m) {
			t.open = append(t.open, m)
		}
	}
}

// deployments returns the open assignments that are deployments.
func (t *task) deployments() []*message {
	var list []*message
	for _, m := range t.open {
		if m.isDeployment() {
			list = append(list, m)
		}
	}
	return list
}

// anyHeld reports whether any message of the task is held, held whether an open assignment is held, and visible whether
// an open assignment lies unheld in the folder, where its agent finds it.
func (t *task) anyHeld() bool {
	return slices.ContainsFunc(t.messages, func(m *message) bool { return m.held })
}

func (t *task) held() bool {
	return slices.ContainsFunc(t.open, func(m *message) bool { return m.held })
}

func (t *task) visible() bool {
	return slices.ContainsFunc(t.open, func(m *message) bool { return !m.held && !m.inLog() })
}

// files returns the paths of the task's open assignments, without the extension of a held file.
func (t *task) files() []string {
	var list []string
	for _, m := range t.open {
		if !m.inLog() {
			list = append(list, openName(m.file))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
