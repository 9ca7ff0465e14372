package envelope

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// pleas returns a task's open questions: blockers (protocol 004, BLOCKER_ESCALATION), and an acknowledgement that asks
// for clarification.
func (p *Project) pleas(t *taskState) []protocol.Question {
	var list []protocol.Question
	for _, m := range t.blockers {
		b := m.blocker
		list = append(list, protocol.Question{ID: pleaID(m), Agent: cmp.Or(m.from, nameless), Task: m.task, Text: cmp.Or(b.text, b.kind, "blocked"), Detail: b.detail,
			Options: b.options, Blocking: true, Severity: b.severity, Due: p.pleaDue(m), Steers: true, Ref: p.refOf(m)})
	}
	if m := t.doubt; m != nil {
		text := "does not understand the task"
		if len(m.answer.clarifications) > 0 {
			text = m.answer.clarifications[0]
		}
		list = append(list, protocol.Question{ID: pleaID(m), Agent: cmp.Or(m.from, nameless), Task: m.task, Text: text, Detail: strings.Join(m.answer.clarifications, "\n"),
			Blocking: m.answer.doubts, Severity: protocol.Medium, Due: m.came().Add(p.opts.Clarify), Steers: true, Ref: p.refOf(m)})
	}
	return slices.CompactFunc(list, func(a, b protocol.Question) bool { return a.ID == b.ID })
}

// nameless replaces the asking agent of a message without from_agent.
const nameless = "an agent"

// nobody replaces the task in the id of a question without a task.
const nobody = "blocker"

// pleaDue returns when the operator is asked about a blocker. The ORCHESTRATOR first has time to resolve a blocker that
// is not for a human; a critical one is not delayed (protocol 004, Escalation Targets).
func (p *Project) pleaDue(m *message) time.Time {
	if m.blocker.human || m.blocker.severity == protocol.Critical {
		return time.Time{}
	}
	return m.came().Add(p.opts.Escalate)
}

// pleaID returns a question's id. It stays the same while its message is unchanged, and distinguishes two blockers of one
// task.
func pleaID(m *message) string { return cmp.Or(m.task, nobody) + "-" + string(m.sum[:6]) }

// refOf returns a message's location. The sum is the file's, or the message's own for a log line.
func (p *Project) refOf(m *message) protocol.Ref {
	if s := p.slotOf(m); s != nil {
		return protocol.Ref{Path: m.file, Sum: string(s.reading.Sum)}
	}
	return protocol.Ref{Path: m.file, Sum: string(m.sum)}
}

func (p *Project) slotOf(m *message) *slot {
	if m.inLog() {
		return nil
	}
	return p.shelf.slots[strings.TrimPrefix(m.file, p.opts.Messages+"/")]
}

// callsOfTheDay counts the escalations to a human in the last 24 hours.
func (p *Project) callsOfTheDay() int {
	n := 0
	for m := range p.humans {
		if p.Now.Sub(m.at) >= day {
			delete(p.humans, m)
			continue
		}
		p.Patience.RetryAt(m.at.Add(day))
		n++
	}
	return n
}

func (p *Project) callFindings(calls int) []protocol.Finding {
	if p.opts.CallsPerDay <= 0 || calls <= p.opts.CallsPerDay {
		return nil
	}
	return []protocol.Finding{{Subject: p.place(), Code: "escalations", Severity: protocol.Low,
		Text: fmt.Sprintf("%d escalations to a human in a day; more than %d are a failure of the project's own rules", calls, p.opts.CallsPerDay)}}
}

// measures returns the project's figures (protocol 004, Monitoring: task completion times, rejection rates).
func (p *Project) measures(calls int) []protocol.Measure {
	f := p.figures
	if f.messages == 0 {
		return nil
	}
	var list []protocol.Measure
	if f.approved > 0 {
		list = append(list, protocol.Measure{Name: "completion_seconds", Value: (f.spent / time.Duration(f.approved)).Seconds()})
	}
	list = append(list, protocol.Measure{Name: "human_escalations_24h", Value: float64(calls)})
	if f.submitted > 0 {
		list = append(list, protocol.Measure{Name: "rejection_rate", Value: float64(f.rejected) / float64(f.submitted)})
	}
	return append(list, protocol.Measure{Name: "rejections", Value: float64(f.rejected)})
}
