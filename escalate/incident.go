package escalate

import (
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// Incident is a problem that the operator must deal with: one per key, however often it happens. It is a value; its
// slices are shared and must not be modified.
type Incident struct {
	// Version is the version of its file.
	Version int `json:"version,omitempty"`

	Key string `json:"key"`
	// Rev increases with every change except deliveries.
	Rev      int               `json:"rev"`
	Severity protocol.Severity `json:"severity"`
	State    rules.State       `json:"state"`
	Content
	Count int       `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Deliveries are the most recent deliveries, oldest first.
	Deliveries []Delivery `json:"deliveries"`
	Origin
	Closing
	Revisions
	Climb
}

// Content is what the operator is told.
type Content struct {
	Blocking bool           `json:"blocking"`
	Summary  string         `json:"summary"`
	Detail   string         `json:"detail"`
	Project  string         `json:"project"`
	About    string         `json:"about"` // the Subject, in the form that commands accept
	Agent    string         `json:"agent"`
	Options  []rules.Option `json:"options"`
}

// Origin is the rest of the alert that raised an incident.
type Origin struct {
	Protocol   string `json:"protocol,omitempty"`
	Kind       string `json:"kind"`
	Code       string `json:"code,omitempty"`
	Spoken     string `json:"spoken,omitempty"`
	Silent     bool   `json:"silent,omitempty"`
	Occurrence string `json:"occurrence,omitempty"`
	Lasting    bool   `json:"lasting,omitempty"`
	Foreign    bool   `json:"foreign,omitempty"`
	ListOnly   bool   `json:"list_only,omitempty"`
}

// Closing says until when an incident is acknowledged or snoozed, and how it was resolved.
type Closing struct {
	AckedUntil time.Time `json:"acked_until,omitzero"`
	ResolvedAt time.Time `json:"resolved_at,omitzero"`
	ResolvedBy rules.By  `json:"resolved_by,omitempty"`
	Why        string    `json:"why,omitempty"` // why it was resolved
	Answer     *Answer   `json:"answer,omitempty"`
}

// Revisions are values of an incident's Rev.
type Revisions struct {
	Opened int `json:"opened"` // when it was last opened or reopened
	// Asked is when its options or its occurrence last changed: an answer to an earlier Rev is stale.
	Asked int `json:"asked"`
	// Notice is the number of the notice that the operator must get (0: never). Notified is the last Notice that needs no further
	// delivery.
	Notice   int `json:"notice"`
	Notified int `json:"notified"`
}

// Climb is an incident's position on its ladder.
type Climb struct {
	Opening time.Time `json:"opening,omitzero"` // when the ladder began
	// Called is the time of the first successful delivery minus the time of the first rung (zero: not delivered yet).
	Called  time.Time     `json:"called,omitzero"`
	Climbed time.Duration `json:"climbed,omitempty"` // the ladder position of the current Notice
	Calls   []string      `json:"calls,omitempty"`   // its channels (empty: those of the first rung)
}

// Subject returns what the incident is about.
func (i Incident) Subject() protocol.Subject {
	about := i.About
	if i.Project != "" {
		about = strings.TrimPrefix(about, i.Project+":")
	}
	kind, id, _ := strings.Cut(about, "/")
	return protocol.Subject{Project: i.Project, Protocol: i.Protocol, Kind: protocol.Kind(kind), ID: id}
}

// raise applies a tidied alert. The zero Incident stands for one that does not exist yet.
func raise(i Incident, a rules.Alert, now time.Time) (Incident, rules.Outcome) {
	out := rules.OutcomeNew
	if i.Rev > 0 {
		out = i.head().Outcome(a)
	}
	if out == rules.OutcomeSame {
		return i, out
	}
	if out == rules.OutcomeNew {
		i = Incident{Key: a.Key, First: now, Deliveries: []Delivery{}}
	}
	if out != rules.OutcomeRisen || a.Occurrence != i.Occurrence {
		i.Count++
	}
	severity := i.Severity
	if out != rules.OutcomeRepeat {
		severity = a.Severity
	}
	i.Rev++
	if a.Occurrence != i.Occurrence || !slices.Equal(a.Options, i.Options) {
		i.Asked = i.Rev
	}
	tells := out != rules.OutcomeRepeat || i.gains(a)
	i = i.describe(a)
	i.Last, i.Severity = now, severity
	if tells {
		i = i.call(now)
	}
	if out == rules.OutcomeNew || out == rules.OutcomeReopened {
		i.Opened = i.Rev
	}
	return i, out
}

// gains reports whether the alert offers an option that the incident did not: then the operator is notified again, because a popup on
// the screen lacks the button. An agent's question keeps its notice; an answer to its old wording is refused.
func (i Incident) gains(a rules.Alert) bool {
	return a.Subject.Kind != protocol.KindQuestion && slices.ContainsFunc(a.Options, func(o rules.Option) bool {
		return !slices.ContainsFunc(i.Options, func(old rules.Option) bool { return old.ID == o.ID })
	})
}

func (i Incident) describe(a rules.Alert) Incident {
	i.Content = Content{Blocking: a.Blocking, Summary: a.Summary, Detail: a.Detail, Project: a.Subject.Project, About: a.Subject.String(),
		Agent: a.Agent, Options: a.Options}
	i.Origin = Origin{Protocol: a.Subject.Protocol, Kind: a.Kind, Code: a.Code, Spoken: a.Spoken, Silent: a.Silent, Occurrence: a.Occurrence,
		Lasting: a.Lasting, Foreign: a.Foreign, ListOnly: a.ListOnly}
	return i
}

// call opens the incident and requests a notice, which supersedes any notice in progress. The ladder restarts.
func (i Incident) call(now time.Time) Incident {
	i.State, i.Notified = rules.Raised, i.Notice
	i.Closing, i.Climb = Closing{}, Climb{Opening: now}
	if !i.ListOnly && i.Severity.Rank() >= protocol.Medium.Rank() {
		i.Notice = i.Rev
	}
	return i
}

// acknowledge silences an open incident until the given time.
func acknowledge(i Incident, until time.Time) (Incident, bool) {
	if i.State == rules.Resolved {
		return i, false
	}
	i.Rev++
	i.State, i.AckedUntil = rules.Acked, until
	return i, true
}

func (i Incident) isOpen() bool { return i.State != rules.Resolved }

// isUncarried reports whether the incident has an answer that the agent cannot read yet.
func (i Incident) isUncarried() bool { return i.Answer != nil && i.Answer.Carried.IsZero() }

// isSilenced reports whether the incident is acknowledged or snoozed: it is open, but not announced for a while.
func (i Incident) isSilenced() bool { return i.State == rules.Acked || i.State == rules.Snoozed }

// reopenLapsed reopens an acknowledged or snoozed incident when its time is up, so that the operator is told again.
func reopenLapsed(i Incident, now time.Time) (Incident, bool) {
	if !i.isSilenced() || now.Before(i.AckedUntil) {
		return i, false
	}
	i.Rev++
	return i.call(now), true
}

// resolve ends an incident. If the operator was told of an incident of high severity or above, and it ends by itself,
// a recovery notice follows.
func resolve(i Incident, by rules.By, why string, now time.Time) (Incident, bool) {
	if i.State == rules.Resolved {
		return i, false
	}
	i.Rev++
	i.State, i.AckedUntil, i.Notified = rules.Resolved, time.Time{}, i.Notice
	i.ResolvedAt, i.ResolvedBy, i.Why = now, by, rules.Shorten(why, rules.MaxSpoken)
	if by == rules.ByFiles && i.told() && i.Severity.Rank() >= protocol.High.Rank() {
		i.Notice = i.Rev
	}
	return i, true
}

// told reports whether any notice reached the operator since the incident was last opened.
func (i Incident) told() bool {
	return slices.ContainsFunc(i.Deliveries, i.tells)
}

func (i Incident) tells(d Delivery) bool {
	return d.OK && !d.Recovery && d.Result != ResultWithdrawn && d.Rev >= i.Opened
}

// toldBy reports whether the channel delivered a notice of the incident since it was last opened.
func (i Incident) toldBy(channel string) bool {
	return slices.ContainsFunc(i.Deliveries, func(d Delivery) bool { return d.Channel == channel && i.tells(d) })
}

// jobKind is the delivery work that is pending for an incident.
type jobKind int

const (
	jobNone     jobKind = iota
	jobTell             // deliver the incident's notice
	jobWithdraw         // withdraw an outdated popup
	jobRecovery         // announce that it is over
	jobAnnounce         // not of any incident: the daily digest, or a summary that has fewer incidents
)

func (i Incident) job() jobKind {
	switch {
	case i.State == rules.Raised && i.Notice > i.Notified:
		return jobTell
	case i.State != rules.Raised && len(i.popupsToRemove()) > 0:
		return jobWithdraw
	case i.State == rules.Resolved && i.Notice > i.Notified:
		return jobRecovery
	}
	return jobNone
}

func (i Incident) head() rules.Head {
	return rules.Head{State: i.State, Rev: i.Rev, Occurrence: i.Occurrence, Lasting: i.Lasting, Foreign: i.Foreign,
		Subject: i.Subject(), Severity: i.Severity, ResolvedBy: i.ResolvedBy}
}
