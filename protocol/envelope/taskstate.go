package envelope

import (
	"slices"
	"time"
)

// state is a task's stage (protocol 004, Agent Workflow Sequence).
type state string

const (
	stateNone         state = "" // no assignment
	stateAssigned     state = "assigned"
	stateAcknowledged state = "acknowledged"
	stateReview       state = "awaiting review"
	stateRejected     state = "rejected; to be resubmitted"
	stateApproved     state = "approved"
)

// taskState is a task as reconstructed from its messages. Everything except id, messages and shown is derived from them.
type taskState struct {
	id       string
	messages []*message
	shown    time.Time // when the task was last released

	state    state
	assigned *message // the newest assignment
	// open lists the assignments since the last answer, oldest first, duplicates included. deployed is the newest
	// deployment that was answered in this round.
	open     []*message
	deployed *message
	begun    time.Time
	taken    time.Time // when its agent first answered this assignment
	resumed  time.Time // when its agent was last told how to proceed
	ack      *message
	done     *message // the newest completion of this assignment
	// validated: an approval message followed the completion and overrides what it says.
	validated bool
	refusal   *message // the newest rejection of this assignment, until a completion or an approval supersedes it
	end       time.Time
	// rejections counts since begun; submitted and everRejected count over the task's whole life.
	rejections, submitted, everRejected int
	blockers                            []*message // the open blockers
	stopped                             bool       // a resolution told its agent to stop
	stuck                               bool       // its agent reported a blocker that is still open
	doubt                               *message   // an acknowledgement that asks for clarification
	reviews                             []review
	deliveries                          []time.Time // completions by DEVELOPER or INTEGRATIONS
	issues                              []issue     // found in its messages
}

// review is a SECURITY_AUDITOR's completion.
type review struct {
	securityVerdict
	task string
	at   time.Time
	void bool   // rejected afterwards
	text string // its summary
	file string
}

// denies reports whether the review forbids every deployment.
func (r *review) denies() bool {
	return r.void || r.blocking || r.contra != "" || r.word != verdictApproved && r.word != verdictConditional
}

// conditional reports whether the review, unless it denies, permits deployments to staging only.
func (r *review) conditional() bool { return r.word == verdictConditional || r.high }

// condition describes a conditional approval.
func (r *review) condition() string {
	name := clean(r.task, maxText)
	if r.counts != "" {
		name += ": " + r.counts
	}
	if r.word == verdictApproved {
		return "approval counts as conditional (" + name + ")"
	}
	return "conditional approval (" + name + ")"
}

// tell rebuilds the task's state from its messages, in order.
func (t *taskState) tell() {
	*t = taskState{id: t.id, messages: t.messages, shown: t.shown}
	list := distinct(t.messages)
	told := replies(list)
	for _, m := range list {
		t.note(m)
		switch m.kind {
		case assigns:
			t.assign(m)
		case acknowledges:
			if t.acknowledge(m); t.doubt == m && told.settle(m) {
				t.doubt = nil
			}
		case escalates:
			if !told.settle(m) {
				t.blockers, t.stuck = append(t.blockers, m), t.stuck || t.fromItsAgent(m)
			}
		case resolves:
			if t.stopped = m.answer.stops; !t.stopped {
				t.resumed = m.came()
			}
			if m.answer.call == "" {
				t.answered()
			}
		case completes:
			t.complete(m)
		case rejects:
			t.reject(m)
		case approves:
			t.approve(m)
		}
	}
	t.withCopies()
}

// note records the problems of a message. A task lists each problem once; messages without a task id list it once per
// message.
func (t *taskState) note(m *message) {
	for _, i := range m.issues {
		i.path = m.file
		known := slices.ContainsFunc(t.issues, func(k issue) bool {
			return k.code == i.code && k.field == i.field && k.text == i.text && (t.id != "" || k.path == i.path)
		})
		if len(t.issues) < maxIssues && !known {
			t.issues = append(t.issues, i)
		}
	}
}

// assign starts a new round: only the newest assignment counts. After an end, or for another agent, the start time and
// the number of rejections are reset.
func (t *taskState) assign(m *message) {
	if t.over() || t.assigned == nil || fold(t.assigned.to) != fold(m.to) {
		t.begun, t.rejections = m.at, 0
	}
	if t.state != stateAssigned {
		t.deployed = nil
	}
	t.state, t.assigned, t.open = stateAssigned, m, append(t.open, m)
	t.taken, t.end = time.Time{}, time.Time{}
	t.ack, t.done, t.refusal, t.doubt, t.stuck, t.validated, t.stopped = nil, nil, nil, nil, false, false, false
}

func (t *taskState) acknowledge(m *message) {
	if t.over() {
		return // a late acknowledgement
	}
	if !t.answer(m) {
		return
	}
	t.take(m)
	t.ack, t.doubt = m, nil
	if m.answer.doubts || len(m.answer.clarifications) > 0 {
		t.doubt = m
	}
	if t.state == stateAssigned {
		t.state = stateAcknowledged
	}
}

// take records the time of the first answer to the assignment.
func (t *taskState) take(m *message) {
	if t.taken.IsZero() {
		t.taken = m.at
	}
}

func (t *taskState) complete(m *message) {
	t.submitted++
	switch from := t.worker(m); {
	case isAuditor(from) && (m.output.verdict.word != "" || m.output.verdict.blocking):
		t.reviews = append(t.reviews, review{securityVerdict: m.output.verdict, task: t.id, at: m.at, text: m.output.summary, file: m.file})
	case (from == "DEVELOPER" || from == "INTEGRATIONS") && (t.assigned == nil || t.assigned.deploys != deploysSure):
		t.deliveries = append(t.deliveries, m.at)
	}
	if !t.answer(m) {
		return
	}
	t.take(m)
	t.done, t.validated = m, false
	t.answered()
	t.state, t.end = stateReview, time.Time{}
	done := m.output.lacks == ""
	if done {
		t.state, t.refusal = stateApproved, nil
	}
	if done || t.assigned == nil {
		t.end = m.at
	}
}

// worker returns the name of the agent that completed the task. A security approval needs its own from_agent. Any other
// completion without from_agent is attributed to the assignee.
func (t *taskState) worker(m *message) string {
	if m.from == "" && t.assigned != nil && !isAuditor(t.assigned.to) {
		return agentName(t.assigned.to)
	}
	return agentName(m.from)
}

func (t *taskState) reject(m *message) {
	t.everRejected++
	for i := range t.reviews {
		t.reviews[i].void = true
	}
	if t.answer(m) {
		t.rejections++
		t.state, t.refusal, t.end = stateRejected, m, time.Time{}
	}
}

func (t *taskState) approve(m *message) {
	if t.state != stateNone && t.answer(m) {
		t.state, t.end, t.refusal, t.validated = stateApproved, m.at, nil, true
		t.answered()
	}
}

// answered settles every open question of the task's agent.
func (t *taskState) answered() { t.blockers, t.doubt, t.stuck = nil, nil, false }

// over reports whether the task is approved. A task without an assignment is also over once it is completed.
func (t *taskState) over() bool {
	return t.state == stateApproved || t.assigned == nil && !t.end.IsZero()
}

// project returns the newest assignment's context.project.
func (t *taskState) project() string { return t.assigned.project() }

// project returns an assignment's context.project.
func (m *message) project() string {
	if m == nil {
		return ""
	}
	return m.assignment.project
}

// deadline returns the current rejection's deadline if it has one, else the assignment's; zero if there is none.
func (t *taskState) deadline() time.Time {
	if t.refusal != nil && t.refusal.answer.deadline.known() {
		return t.refusal.answer.deadline.from(t.refusal)
	}
	if t.assigned == nil {
		return time.Time{}
	}
	return t.assigned.assignment.deadline.from(t.assigned)
}
