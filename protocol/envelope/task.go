package envelope

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// stage is how far a task is (protocol 004, Agent Workflow Sequence).
type stage string

const (
	stageNone         stage = "" // no assignment
	stageAssigned     stage = "assigned"
	stageAcknowledged stage = "acknowledged"
	stageReview       stage = "awaiting review"
	stageRejected     stage = "rejected; to be resubmitted"
	stageApproved     stage = "approved"
)

// task is a task as reconstructed from its messages and from what steward knows of it. Everything else is derived from them.
type task struct {
	id       string
	messages []*message
	known

	stage    stage
	assigned *message // the newest assignment
	// open lists the assignments since the last answer, oldest first, duplicates included. deployed is the newest
	// deployment that was answered in this round.
	open     []*message
	deployed *message
	begun    time.Time
	resumed  time.Time // when its agent was last told how to proceed
	round
	rejections          int // since begun
	submitted, rejected int // over the task's whole life
	blockers            []*message
	reviews             []review
	deliveries          []time.Time // completions by DEVELOPER or INTEGRATIONS
	findings            []protocol.Finding
}

// known is what the messages do not say.
type known struct {
	released time.Time    // when the last held assignment was released
	work     *workRecord  // who has the task; nil if steward knows nothing
	endorsed jsonfile.Sum // the completion that the orchestrator approved
	validate bool         // a completion counts only once it is approved
}

// round is what has happened since the newest assignment.
type round struct {
	taken, end    time.Time // when its agent first answered the assignment; when the task ended
	done          *message  // the newest completion
	validated     bool      // an approval message followed the completion and overrides what it says
	refusal       *message  // the newest rejection, until a completion or an approval supersedes it
	clarification *message  // an acknowledgement that asks for clarification
	stuck         bool      // its agent reported a blocker that is still open
	stopped       bool      // a resolution told its agent to stop
	cancelled     *message  // the resolution that ended the task
}

// replay rebuilds the task's state from its messages, in order.
func (t *task) replay() {
	*t = task{id: t.id, messages: t.messages, known: t.known}
	list := distinct(t.messages)
	for _, m := range list {
		t.noteFindings(m)
		switch m.kind {
		case assigns:
			t.assign(m)
		case acknowledges:
			t.acknowledge(m, list)
		case escalates:
			if !m.answeredBy(list) && !t.work.withdrew(m) {
				t.blockers, t.stuck = append(t.blockers, m), t.stuck || t.mayBeItsAgent(m)
			}
		case resolves:
			if t.stopped = m.answer.stops; !t.stopped {
				t.resumed = m.came()
			}
			if m.answer.question == "" {
				t.settleQuestions()
			}
			if m.answer.cancels && !t.over() {
				t.cancelled, t.end = m, m.at
			}
		case completes:
			t.complete(m)
		case rejects:
			if m.from != sender {
				t.reject(m)
			}
		case approves:
			if t.stage != stageNone && t.answerOpen(m) {
				t.stage, t.end, t.refusal, t.validated = stageApproved, m.at, nil, true
				t.settleQuestions()
			}
		}
	}
	t.addCopies()
}

// distinct sorts a task's messages and drops duplicates: a log line that also exists as a file, and a repeated message.
// Two equal files without a timestamp are two messages.
func distinct(all []*message) []*message {
	order(all)
	files, seen := map[jsonfile.Sum]bool{}, map[jsonfile.Sum]bool{}
	for _, m := range all {
		if !m.inLog() {
			files[m.sum] = true
		}
	}
	list := make([]*message, 0, len(all))
	for _, m := range all {
		if m.inLog() && files[m.sum] || m.stamped && seen[m.sum] {
			continue
		}
		seen[m.sum] = true
		list = append(list, m)
	}
	return list
}

// noteFindings records the findings of a message. A task lists each finding once; messages without a task id list it
// once per message.
func (t *task) noteFindings(m *message) {
	for _, f := range m.findings {
		f.Path = m.file
		known := slices.ContainsFunc(t.findings, func(k protocol.Finding) bool {
			return k.Code == f.Code && k.Field == f.Field && k.Text == f.Text && (t.id != "" || k.Path == f.Path)
		})
		if len(t.findings) < maxFindings && !known {
			t.findings = append(t.findings, f)
		}
	}
}

// assign starts a new round: only the newest assignment counts. After an end, or for another agent, the start time and
// the number of rejections are reset.
func (t *task) assign(m *message) {
	if t.over() || t.assigned == nil || fold(t.assigned.to) != fold(m.to) {
		t.begun, t.rejections = m.at, 0
	}
	if t.stage != stageAssigned {
		t.deployed = nil
	}
	t.stage, t.assigned, t.open, t.round = stageAssigned, m, append(t.open, m), round{}
}

func (t *task) acknowledge(m *message, list []*message) {
	withdrawn := t.work.withdrew(m)
	if t.over() || !withdrawn && !t.answerOpen(m) {
		return // a late acknowledgement, or another agent's
	}
	t.clarification = nil
	if (m.answer.notUnderstood || len(m.answer.clarifications) > 0) && !m.answeredBy(list) {
		t.clarification = m
	}
	if withdrawn {
		return // only its question counts
	}
	if t.taken.IsZero() {
		t.taken = m.at
	}
	if t.stage == stageAssigned || t.stage == stageRejected {
		t.stage = stageAcknowledged
	}
}

func (t *task) complete(m *message) {
	t.submitted++
	switch from := t.worker(m); {
	case isAuditor(from) && (m.output.verdict.word != "" || m.output.verdict.blocking):
		t.reviews = append(t.reviews, review{securityVerdict: m.output.verdict, task: t.id, at: m.at, text: m.output.summary, file: m.file})
	case (from == "DEVELOPER" || from == "INTEGRATIONS") && (t.assigned == nil || !t.assigned.isDeployment()):
		t.deliveries = append(t.deliveries, m.at)
	}
	if !t.answerOpen(m) {
		return
	}
	if t.taken.IsZero() {
		t.taken = m.at
	}
	t.settleQuestions()
	t.done, t.validated, t.stage, t.end = m, false, stageReview, time.Time{}
	done := m.sum == t.endorsed || m.output.lacks == "" && !t.mustValidate()
	if done {
		t.stage, t.refusal = stageApproved, nil
	}
	if done || t.assigned == nil {
		t.end = m.at
	}
}

// worker returns the name of the agent that completed the task. A security approval needs its own from_agent. Any other
// completion without from_agent is attributed to the assignee.
func (t *task) worker(m *message) string {
	if m.from == "" && t.assigned != nil && !isAuditor(t.assigned.to) {
		return agentName(t.assigned.to)
	}
	return agentName(m.from)
}

func (t *task) reject(m *message) {
	t.rejected++
	for i := range t.reviews {
		t.reviews[i].void = true
	}
	if t.answerOpen(m) {
		t.rejections++
		t.stage, t.refusal, t.end = stageRejected, m, time.Time{}
	}
}

// settleQuestions settles every open question of the task's agent.
func (t *task) settleQuestions() { t.blockers, t.clarification, t.stuck = nil, nil, false }

// mustValidate reports whether a completion counts only once the orchestrator approves it. It approves its own work.
func (t *task) mustValidate() bool {
	return t.validate && t.assigned != nil && !isOrchestrator(t.assigned.to)
}

// over reports whether the task is approved or cancelled. A task without an assignment is also over once it is completed.
func (t *task) over() bool {
	return t.stage == stageApproved || t.cancelled != nil || t.assigned == nil && !t.end.IsZero()
}

// project returns the newest assignment's context.project.
func (t *task) project() string { return t.assigned.project() }

// deadline returns the current rejection's deadline if it has one, else the assignment's; zero if none exists.
func (t *task) deadline() time.Time {
	switch {
	case t.refusal != nil && t.refusal.answer.deadline.known():
		return t.refusal.answer.deadline.from(&t.refusal.clock)
	case t.assigned == nil:
		return time.Time{}
	}
	return t.assigned.assignment.deadline.from(&t.assigned.clock)
}

// judged returns the security review that decides the task: the review in its last completion, unless an approval
// message or a new assignment followed; nil if none exists.
func (t *task) judged() *review {
	if t == nil || t.validated || t.done == nil || len(t.reviews) == 0 || t.stage != stageReview && t.stage != stageApproved {
		return nil
	}
	if r := &t.reviews[len(t.reviews)-1]; r.at.Equal(t.done.at) {
		return r
	}
	return nil
}

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
