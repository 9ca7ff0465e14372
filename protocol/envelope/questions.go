package envelope

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// questions returns a task's open questions: blockers (protocol 004, BLOCKER_ESCALATION), and an acknowledgement that
// asks for clarification.
func (v *view) questions(t *task) (list []protocol.Question) {
	ask := func(m *message, q protocol.Question) {
		q.ID, q.Agent, q.Task, q.Steers, q.Ref = questionID(m), cmp.Or(m.from, "an agent"), m.task, true, m.ref()
		list = append(list, q)
	}
	for _, m := range t.blockers {
		b := m.blocker
		if b.failure != nil {
			continue // the incident about the failed task asks
		}
		ask(m, protocol.Question{Text: cmp.Or(b.text, b.kind, "blocked"), Detail: b.detail, Options: b.options, Blocking: true,
			Severity: b.severity, Due: v.blockerDue(m)})
	}
	if m := t.clarification; m != nil {
		text := "does not understand the task"
		if len(m.answer.clarifications) > 0 {
			text = m.answer.clarifications[0]
		}
		ask(m, protocol.Question{Text: text, Detail: strings.Join(m.answer.clarifications, "\n"), Blocking: m.answer.notUnderstood,
			Severity: protocol.Medium, Due: m.came().Add(v.opts.Clarify)})
	}
	return slices.CompactFunc(list, func(a, b protocol.Question) bool { return a.ID == b.ID })
}

// noTask replaces the task in the id of a question without a task.
const noTask = "blocker"

// blockerDue returns when the operator is asked about a blocker. The ORCHESTRATOR first has time to resolve a blocker
// that is not for a human; a critical one is not delayed (protocol 004, Escalation Targets).
func (v *view) blockerDue(m *message) time.Time {
	if m.blocker.human || m.blocker.severity == protocol.Critical {
		return time.Time{}
	}
	return m.came().Add(v.opts.Escalate)
}

// questionID returns a question's id. It stays the same while its message is unchanged, and distinguishes two blockers
// of one task.
func questionID(m *message) string { return cmp.Or(m.task, noTask) + "-" + string(m.sum[:6]) }

// answeredBy reports whether one of the messages is an operator's resolution of a question. The id of a question without a
// timestamp does not show whether it is asked again in the same words. Its file's time decides then, in whole seconds, as
// an answer stores it.
func (m *message) answeredBy(list []*message) bool {
	id := questionID(m)
	return slices.ContainsFunc(list, func(a *message) bool {
		return a.kind == resolves && a.answer.question == id && (m.stamped || m.at.Unix() <= a.at.Unix())
	})
}

// callsOfTheDay counts the escalations to a human in the last 24 hours.
func (v *view) callsOfTheDay() int {
	v.calls = slices.DeleteFunc(v.calls, func(m *message) bool { return !v.Wait(m.at.Add(day)) })
	return len(v.calls)
}

func (v *view) callFindings(calls int) []protocol.Finding {
	if v.opts.CallsPerDay <= 0 || calls <= v.opts.CallsPerDay {
		return nil
	}
	return []protocol.Finding{finding("escalations", protocol.Low, "%d escalations to a human in a day; more than %d are a failure of the "+
		"project's own rules", calls, v.opts.CallsPerDay)}
}
