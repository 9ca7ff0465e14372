package escalate

import (
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// Incident is what a human must deal with: one per key, however often it happens. It is a value; its slices
// are shared and must not be written to.
type Incident struct {
	// Version is that of its file.
	Version int `json:"version,omitempty"`

	Key string `json:"key"`
	// Rev rises with every change but deliveries.
	Rev      int               `json:"rev"`
	Severity protocol.Severity `json:"severity"`
	State    State             `json:"state"`
	Blocking bool              `json:"blocking"`
	Summary  string            `json:"summary"`
	Detail   string            `json:"detail"`
	Project  string            `json:"project"`
	About    string            `json:"about"` // the Subject, in the form that commands take
	Agent    string            `json:"agent"`
	Options  []Option          `json:"options"`
	Count    int               `json:"count"`
	First    time.Time         `json:"first"`
	Last     time.Time         `json:"last"`
	// Deliveries are the latest, oldest first.
	Deliveries []Delivery `json:"deliveries"`

	Protocol   string    `json:"protocol,omitempty"`
	Kind       string    `json:"kind"`
	Code       string    `json:"code,omitempty"`
	Spoken     string    `json:"spoken,omitempty"`
	Silent     bool      `json:"silent,omitempty"`
	Occurrence string    `json:"occurrence,omitempty"`
	Lasting    bool      `json:"lasting,omitempty"`
	Foreign    bool      `json:"foreign,omitempty"`
	ListOnly   bool      `json:"list_only,omitempty"`
	AckedUntil time.Time `json:"acked_until,omitzero"`
	ResolvedAt time.Time `json:"resolved_at,omitzero"`
	ResolvedBy By        `json:"resolved_by,omitempty"`
	Why        string    `json:"why,omitempty"` // why it is resolved
	Answer     *Answer   `json:"answer,omitempty"`

	// Opened is the Rev at which it was opened, or opened again. Notice is the Rev that the human is to be
	// told of (0: none ever); Notified the last Notice that needs no telling any more.
	// Asked is the Rev at which its options or its occurrence last changed: an answer to what was there before is stale.
	Opened   int `json:"opened"`
	Asked    int `json:"asked"`
	Notice   int `json:"notice"`
	Notified int `json:"notified"`

	// The ladder: Opening is when the human was first to be told, Called when that was done (zero: not yet), less the time
	// of the first rung; Climbed is how far up the ladder the current Notice stands, and Calls the channels it is for
	// (none: those of the first rung).
	Opening time.Time     `json:"opening,omitzero"`
	Called  time.Time     `json:"called,omitzero"`
	Climbed time.Duration `json:"climbed,omitempty"`
	Calls   []string      `json:"calls,omitempty"`
}

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

// Subject is what the incident is about.
func (i Incident) Subject() protocol.Subject {
	about := i.About
	if i.Project != "" {
		about = strings.TrimPrefix(about, i.Project+":")
	}
	kind, id, _ := strings.Cut(about, "/")
	return protocol.Subject{Project: i.Project, Protocol: i.Protocol, Kind: protocol.Kind(kind), ID: id}
}

// raise applies an alert that has been tidied. The zero Incident is one that does not exist yet.
func raise(i Incident, a Alert, now time.Time) (Incident, Outcome) {
	out := OutcomeNew
	if i.Rev > 0 {
		out = i.head().outcome(a)
	}
	if out == OutcomeSame {
		return i, out
	}
	if out == OutcomeNew {
		i = Incident{Key: a.Key, First: now, Deliveries: []Delivery{}}
	}
	if out != OutcomeRisen || a.Occurrence != i.Occurrence {
		i.Count++
	}
	severity := i.Severity
	if out != OutcomeRepeat {
		severity = a.Severity
	}
	i.Rev++
	if a.Occurrence != i.Occurrence || !slices.Equal(a.Options, i.Options) {
		i.Asked = i.Rev
	}
	i = i.describe(a)
	i.Last, i.Severity = now, severity
	if out != OutcomeRepeat {
		i = i.call(now)
	}
	if out == OutcomeNew || out == OutcomeReopened {
		i.Opened = i.Rev
	}
	return i, out
}

func (i Incident) describe(a Alert) Incident {
	i.Project, i.Protocol, i.About = a.Subject.Project, a.Subject.Protocol, a.Subject.String()
	i.Kind, i.Code, i.Agent = a.Kind, a.Code, a.Agent
	i.Summary, i.Spoken, i.Detail, i.Options = a.Summary, a.Spoken, a.Detail, a.Options
	i.Blocking, i.Silent, i.Occurrence = a.Blocking, a.Silent, a.Occurrence
	i.Lasting, i.Foreign, i.ListOnly = a.Lasting, a.Foreign, a.ListOnly
	return i
}

// call opens the incident and asks for a notice, which supersedes one that is still on its way. The ladder begins anew.
func (i Incident) call(now time.Time) Incident {
	i.State, i.AckedUntil, i.Notified = Raised, time.Time{}, i.Notice
	i.ResolvedAt, i.ResolvedBy, i.Why, i.Answer = time.Time{}, "", "", nil
	i.Opening, i.Called, i.Climbed, i.Calls = now, time.Time{}, 0, nil
	if !i.ListOnly && i.Severity.Rank() >= protocol.Medium.Rank() {
		i.Notice = i.Rev
	}
	return i
}

// acknowledge records that a human has seen it and wants peace until then.
func acknowledge(i Incident, until time.Time) (Incident, bool) {
	if i.State == Resolved {
		return i, false
	}
	i.Rev++
	i.State, i.AckedUntil = Acked, until
	return i, true
}

// rests reports whether it is open, and nobody is to be told of it for a while.
func (i Incident) rests() bool { return i.State == Acked || i.State == Snoozed }

// lapse opens an acknowledged incident again once its time is up: the human is told anew.
func lapse(i Incident, now time.Time) (Incident, bool) {
	if !i.rests() || now.Before(i.AckedUntil) {
		return i, false
	}
	i.Rev++
	return i.call(now), true
}

// resolve ends an incident. A human who was told of something grave is told, too, when it ends by itself.
func resolve(i Incident, by By, why string, now time.Time) (Incident, bool) {
	if i.State == Resolved {
		return i, false
	}
	i.Rev++
	i.State, i.AckedUntil, i.Notified = Resolved, time.Time{}, i.Notice
	i.ResolvedAt, i.ResolvedBy, i.Why = now, by, shorten(why, maxSpoken)
	if by == ByFiles && i.told() && i.Severity.Rank() >= protocol.High.Rank() {
		i.Notice = i.Rev
	}
	return i, true
}

// told reports whether any notice reached the human since the incident was last opened.
func (i Incident) told() bool {
	return slices.ContainsFunc(i.Deliveries, i.tells)
}

func (i Incident) tells(d Delivery) bool {
	return d.OK && !d.Recovery && d.Result != ResultWithdrawn && d.Rev >= i.Opened
}

// errand is what is owed to the human on behalf of an incident.
type errand int

const (
	errandNone     errand = iota
	errandTell            // of the incident
	errandWithdraw        // a popup that is no longer true
	errandRecovery        // tell that it is over
)

func (i Incident) errand() errand {
	switch {
	case i.State == Raised && i.Notice > i.Notified:
		return errandTell
	case i.State != Raised && len(i.lingering()) > 0:
		return errandWithdraw
	case i.State == Resolved && i.Notice > i.Notified:
		return errandRecovery
	}
	return errandNone
}

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

func (i Incident) head() Head {
	return Head{State: i.State, Rev: i.Rev, Occurrence: i.Occurrence, Lasting: i.Lasting, Foreign: i.Foreign,
		Subject: i.Subject(), Severity: i.Severity, ResolvedBy: i.ResolvedBy}
}

// Has reports whether raising the alert would change nothing.
func (h Head) Has(a Alert) bool {
	if a.Resolve {
		return h.State == Resolved
	}
	return h.outcome(a) == OutcomeSame
}

func (h Head) outcome(a Alert) Outcome {
	same := h.Occurrence == a.happening()
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
