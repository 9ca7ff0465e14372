package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/livhana/steward/protocol"
)

// Alert reports a problem to the operator, or (Resolve) that it is over.
type Alert struct {
	// Key identifies the incident; if "", it is derived from Subject, Agent, Kind and Code.
	Key     string           `json:"key"`
	Kind    string           `json:"kind"`
	Subject protocol.Subject `json:"subject"`
	Agent   string           `json:"agent,omitempty"`
	Code    string           `json:"code,omitempty"`
	// Severity: critical is shown and spoken, high and medium are shown, low and info are only listed.
	Severity protocol.Severity `json:"severity"`
	// Summary is cut to 80 characters. Spoken is the sentence to speak; if "", Summary is spoken.
	Summary  string   `json:"summary"`
	Spoken   string   `json:"spoken,omitempty"`
	Detail   string   `json:"detail,omitempty"`
	Blocking bool     `json:"blocking,omitempty"`
	Silent   bool     `json:"silent,omitempty"` // never spoken
	Options  []Option `json:"options,omitempty"`
	// Occurrence identifies the event: the same occurrence is counted once. A Lasting alert must have one.
	Occurrence string `json:"occurrence,omitempty"`
	// Lasting marks an event: its incident stays open until the files or the operator resolve it. Otherwise the alert
	// is a condition, which is over as soon as it is no longer raised.
	Lasting bool `json:"lasting,omitempty"`
	// Foreign: raised outside the decision, so its absence from a plan does not mean that it is over.
	Foreign bool `json:"foreign,omitempty"`
	// ListOnly keeps the alert from every channel, whatever its severity.
	ListOnly bool `json:"list_only,omitempty"`
	// Resolve: the condition is over; Detail says why. Apart from these, only Key (or the fields it is derived from)
	// is read.
	Resolve bool `json:"resolve,omitempty"`
	// Notice is what a policy tells; Summary, Spoken and Detail are its texts.
	Notice *Notice `json:"-"`
}

// Option is one answer that the operator may give to an incident.
type Option struct {
	ID        string `json:"id"`
	Label     string `json:"label"`
	Dangerous bool   `json:"dangerous"`
}

// MaxOptions is the maximum number of options per incident; further ones are dropped.
const MaxOptions = 64

// Limits on the text in an incident. Text comes from agents' files and may be of any size.
const (
	MaxSummary    = 80
	MaxSpoken     = 400
	MaxDetail     = 16 << 10
	MaxWhy        = 8000
	maxLabel      = 2000 // an agent's option is returned to it verbatim
	maxOccurrence = 128
)

// Key returns the key of an incident, made of project, protocol, task, agent, kind and code: 16 hex digits, stable across
// restarts. It excludes time and free text, so that a repeated alert finds its incident.
func Key(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		// The length distinguishes "ab","c" from "a","bc".
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Tidy fills in the key and limits the length of the texts.
func (a Alert) Tidy() Alert {
	if a.Key == "" {
		a.Key = Key(a.Subject.Project, a.Subject.Protocol, a.Subject.ID, a.Agent, a.Kind, a.Code)
	}
	if !SeverityKnown(a.Severity) {
		// An unknown severity must not suppress the alert.
		a.Severity = protocol.Medium
	}
	a.Summary, a.Spoken = Shorten(a.Summary, MaxSummary), Shorten(a.Spoken, MaxSpoken)
	a.Detail = Shorten(a.Detail, MaxDetail)
	a.Occurrence = a.Happening()
	a.Options = append([]Option{}, a.Options[:min(len(a.Options), MaxOptions)]...)
	for i, o := range a.Options {
		a.Options[i] = Option{ID: Shorten(o.ID, MaxSummary), Label: Shorten(o.Label, maxLabel), Dangerous: o.Dangerous}
	}
	return a
}

// Happening returns the Occurrence as it is stored. A long or invalid one is stored as its hash: cutting could make
// two occurrences equal, and JSON does not preserve invalid UTF-8.
func (a Alert) Happening() string {
	if len(a.Occurrence) <= maxOccurrence && strings.ToValidUTF8(a.Occurrence, "") == a.Occurrence {
		return a.Occurrence
	}
	sum := sha256.Sum256([]byte(a.Occurrence))
	return hex.EncodeToString(sum[:])
}

func SeverityKnown(s protocol.Severity) bool { return s == protocol.Info || s.Rank() > 0 }

// Shorten cuts text to at most limit characters of valid UTF-8, the last of them an ellipsis.
func Shorten(s string, limit int) string {
	if most := utf8.UTFMax * (limit + 1); len(s) > most {
		s = s[:most] // still longer than limit, so the rest is not needed
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:max(limit-1, 0)]), " ") + "…"
}
