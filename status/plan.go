package status

import (
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
	"github.com/livhana/steward/supervisor/decide"
)

// Plan is what steward would do now, as steward plan prints it.
type Plan struct {
	Changes []protocol.Change `json:"changes"`
	// Waiting are changes that steward does not make: it only observes the project, is paused, or yields to others.
	Waiting  []protocol.Change  `json:"waiting"`
	Alerts   []rules.Alert      `json:"alerts"`
	Verdicts []PlannedVerdict   `json:"verdicts"`
	Findings []protocol.Finding `json:"findings"`
	Faults   []protocol.Fault   `json:"faults"`
	Wake     *time.Time         `json:"wake"`
}

type PlannedVerdict struct {
	Subject string     `json:"subject"`
	State   string     `json:"state"`
	Why     string     `json:"why"`
	Due     *time.Time `json:"due,omitempty"`
}

// PlanOf builds the document of plan.
func PlanOf(v decide.View, p decide.Plan) Plan {
	out := Plan{Changes: append([]protocol.Change{}, p.Changes...), Alerts: append([]rules.Alert{}, p.Alerts...), Faults: []protocol.Fault{},
		Verdicts: []PlannedVerdict{}, Waiting: append([]protocol.Change{}, p.Waiting...), Findings: []protocol.Finding{}}
	if !p.Wake.IsZero() {
		wake := p.Wake.UTC()
		out.Wake = &wake
	}
	for i := range v.Snapshots {
		s := &v.Snapshots[i]
		out.Faults = append(out.Faults, s.Faults...)
		out.Findings = append(out.Findings, s.Findings...)
		for j := range s.Agents {
			subject := s.Subject(protocol.KindAgent, s.Agents[j].Name)
			verdict := p.Agents.Of(subject)
			out.Verdicts = append(out.Verdicts, verdictOf(subject, string(verdict.State), words.Sentence(verdict.Cause, v.Now), verdict.Deadline))
		}
		for j := range s.Tasks {
			subject := s.Subject(protocol.KindTask, s.Tasks[j].ID)
			verdict := p.Tasks.Of(subject)
			out.Verdicts = append(out.Verdicts, verdictOf(subject, string(verdict.State), words.Sentence(verdict.Cause, v.Now), verdict.NotBefore))
		}
		for j := range s.Locks {
			subject := s.Subject(protocol.KindLock, s.Locks[j].Resource)
			verdict := p.Locks.Of(subject)
			out.Verdicts = append(out.Verdicts, verdictOf(subject, string(verdict.State), words.Sentence(verdict.Cause, v.Now), verdict.Deadline))
		}
	}
	return out
}

func verdictOf(subject protocol.Subject, state, why string, due time.Time) PlannedVerdict {
	l := PlannedVerdict{Subject: subject.String(), State: state, Why: why}
	if !due.IsZero() {
		due = due.UTC()
		l.Due = &due
	}
	return l
}
