package rules

import "github.com/livhana/steward/protocol"

// State is where an incident stands.
type State string

// The states: Raised ("open") calls for a human, Acked has been seen by one, Snoozed is to be told later, Resolved is over.
const (
	Raised   State = "open"
	Acked    State = "acked"
	Snoozed  State = "snoozed"
	Resolved State = "resolved"
)

// By is who resolved an incident.
type By string

// Who may resolve an incident.
const (
	ByFiles    By = "files" // the project's files show that it is over
	ByOperator By = "operator"
	ByAnswer   By = "answer" // a human's decision, see Incident.Answer
)

// Outcome is what an Alert did to its incident.
type Outcome string

// The outcomes of raising an Alert.
const (
	OutcomeNew      Outcome = "new"
	OutcomeSame     Outcome = "same"     // nothing new
	OutcomeRepeat   Outcome = "repeat"   // counted; the human is not told again
	OutcomeRisen    Outcome = "risen"    // more severe than before
	OutcomeReopened Outcome = "reopened" // it was resolved
	OutcomeResolved Outcome = "resolved"
)

// Head is the little of an incident that a decision needs.
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

// settled reports whether a resolved incident is done with this occurrence for good. A condition that ended by
// itself may come back without anything to tell the two times apart; an event happens once, and what the
// operator has settled stays settled.
func (h Head) settled() bool {
	return h.Occurrence != "" && (h.Lasting || h.ResolvedBy == ByOperator || h.ResolvedBy == ByAnswer)
}
