package rules

import "github.com/livhana/steward/protocol"

// State is the state of an incident.
type State string

// The states: Raised ("open") needs the operator, Acked has been seen, Snoozed is postponed, Resolved is over.
const (
	Raised   State = "open"
	Acked    State = "acked"
	Snoozed  State = "snoozed"
	Resolved State = "resolved"
)

// By says what resolved an incident.
type By string

// The values of By.
const (
	ByFiles    By = "files" // the project's files show that it is over
	ByOperator By = "operator"
	ByAnswer   By = "answer" // the operator's answer, see Incident.Answer
)

// Outcome is the effect of an Alert on its incident.
type Outcome string

// The outcomes of raising an Alert.
const (
	OutcomeNew      Outcome = "new"
	OutcomeSame     Outcome = "same"     // nothing changed
	OutcomeRepeat   Outcome = "repeat"   // counted, without a new notice
	OutcomeRisen    Outcome = "risen"    // more severe than before
	OutcomeReopened Outcome = "reopened" // it had been resolved
	OutcomeResolved Outcome = "resolved"
)

// Head is the part of an incident that a decision needs.
type Head struct {
	State      State             `json:"state"`
	Rev        int               `json:"rev"`
	Occurrence string            `json:"occurrence,omitempty"`
	Lasting    bool              `json:"lasting,omitempty"`
	Foreign    bool              `json:"foreign,omitempty"`
	Subject    protocol.Subject  `json:"subject"`
	Severity   protocol.Severity `json:"severity"`
	ResolvedBy By                `json:"resolved_by,omitempty"`
}

// Has reports whether raising the alert would change nothing.
func (h Head) Has(a Alert) bool {
	if a.Resolve {
		return h.State == Resolved
	}
	return h.Outcome(a) == OutcomeSame
}

func (h Head) Outcome(a Alert) Outcome {
	same := h.Occurrence == a.Happening()
	switch {
	case h.State == Resolved && same && h.settled():
		return OutcomeSame
	case h.State == Resolved:
		return OutcomeReopened
	case a.Severity.Rank() > h.Severity.Rank():
		return OutcomeRisen
	case same:
		return OutcomeSame
	}
	return OutcomeRepeat
}

// settled reports whether a resolved incident stays resolved when the same occurrence is raised again. A condition
// that ended by itself may recur with the same occurrence. An event happens once, and an incident that the operator
// resolved stays resolved.
func (h Head) settled() bool {
	return h.Occurrence != "" && (h.Lasting || h.ResolvedBy == ByOperator || h.ResolvedBy == ByAnswer)
}
