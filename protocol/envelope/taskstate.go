package envelope

import (
	"slices"
	"time"
)

// state is where a task stands (protocol 004, Agent Workflow Sequence).
type state string

const (
	stateNone         state = "" // nobody assigned it
	stateAssigned     state = "assigned"
	stateAcknowledged state = "acknowledged"
	stateReview       state = "awaiting review"
	stateRejected     state = "rejected; to be resubmitted"
	stateApproved     state = "approved"
)

// taskState is a task as its messages tell it. All but id, messages and shown follows from the messages alone.
type taskState struct {
	id       string
	messages []*message
	shown    time.Time // when steward let it be seen again

	state    state
	assigned *message // the newest assignment
	// open are the assignments since the last answer, oldest first, copies included. deployed is the newest deployment
	// that was answered in this round.
	open     []*message
	deployed *message
	begun    time.Time
	taken    time.Time // when its agent first answered this assignment
	resumed  time.Time // when its agent was last told how to go on
	ack      *message
	done     *message // the newest completion of this assignment
	// validated: an approval message followed, which counts more than what the completion says.
	validated bool
	refusal   *message // the newest rejection of this assignment, while it stands
	end       time.Time
	// rejections of this assignment; submitted and everRejected count over the task's whole life.
	rejections, submitted, everRejected int
	blockers                            []*message // open ones
	stopped                             bool       // an answer told its agent not to go on
	stuck                               bool       // its agent met a blocker since the assignment, and nobody answered
	doubt                               *message   // an acknowledgement that asks for clarification
	reviews                             []review
	deliveries                          []time.Time // completions by DEVELOPER or INTEGRATIONS
	issues                              []issue     // of its messages
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

// denies reports whether the review lets nothing be deployed.
func (r *review) denies() bool {
	return r.void || r.blocking || r.contra != "" || r.word != verdictApproved && r.word != verdictConditional
}

// conditional reports whether the review, if it does not deny, lets a deployment pass as far as staging only.
func (r *review) conditional() bool { return r.word == verdictConditional || r.high }

// condition names a conditional approval.
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

// tell follows the messages from the first to the last.
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

// note keeps what is wrong with a message. Of a task's messages each thing is kept once; of messages that name no task
// each message is named.
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

// assign begins anew: the newest assignment is what counts. After an end, or for another agent, nothing of the past
// is held against it.
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
		return // a straggler
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

// take notes the first answer to the assignment.
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

// worker is who completed the task. A security approval needs its own from_agent; other completions are their
// assignee's when they do not say.
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

// answered settles whatever the task's agent has asked.
func (t *taskState) answered() { t.blockers, t.doubt, t.stuck = nil, nil, false }

// over reports whether the task is approved. A task that nobody assigned is over with its completion too.
func (t *taskState) over() bool {
	return t.state == stateApproved || t.assigned == nil && !t.end.IsZero()
}

// project is the newest assignment's context.project.
func (t *taskState) project() string { return t.assigned.project() }

// project is an assignment's context.project.
func (m *message) project() string {
	if m == nil {
		return ""
	}
	return m.assignment.project
}

// deadline is the rejection's while one stands, else the assignment's; zero when there is none.
func (t *taskState) deadline() time.Time {
	if t.refusal != nil && t.refusal.answer.deadline.known() {
		return t.refusal.answer.deadline.from(t.refusal)
	}
	if t.assigned == nil {
		return time.Time{}
	}
	return t.assigned.assignment.deadline.from(t.assigned)
}
