package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/livhana/steward/protocol"
)

// Alert is something that a human should know, or (Resolve) need no longer know.
type Alert struct {
	// Key is the incident it belongs to; "" is filled in from Subject, Agent, Kind and Code.
	Key     string           `json:"key"`
	Kind    string           `json:"kind"`
	Subject protocol.Subject `json:"subject"`
	Agent   string           `json:"agent,omitempty"`
	Code    string           `json:"code,omitempty"`
	// Severity: critical is shown and spoken, high and medium are shown, low and info are only listed.
	Severity protocol.Severity `json:"severity"`
	// Summary is cut at 80 characters. Spoken is a sentence for the voice; "" says the Summary.
	Summary  string   `json:"summary"`
	Spoken   string   `json:"spoken,omitempty"`
	Detail   string   `json:"detail,omitempty"`
	Blocking bool     `json:"blocking,omitempty"`
	Silent   bool     `json:"silent,omitempty"` // never by voice
	Options  []Option `json:"options,omitempty"`
	// Occurrence names what happened: the same one is counted once. A Lasting alert must have one.
	Occurrence string `json:"occurrence,omitempty"`
	// Lasting marks an event: its incident stays open until the files or the operator resolve it. Otherwise
	// it is a condition, which is over as soon as nobody raises it any more.
	Lasting bool `json:"lasting,omitempty"`
	// Foreign: raised outside the decision, so a plan without it says nothing about it.
	Foreign bool `json:"foreign,omitempty"`
	// ListOnly keeps it from every channel whatever its severity.
	ListOnly bool `json:"list_only,omitempty"`
	// Resolve: the condition is over; Detail says why. Only Key (or what makes it) is read beside it.
	Resolve bool `json:"resolve,omitempty"`
}

// Option is one way in which a human may settle an incident.
type Option struct {
	ID        string `json:"id"`
	Label     string `json:"label"`
	Dangerous bool   `json:"dangerous"`
}

// MaxOptions is how many options an incident has at most; those behind are left out.
const MaxOptions = 64

// Limits on what one incident stores. Texts come from agents' files and may be of any size.
const (
	MaxSummary    = 80
	MaxSpoken     = 400
	MaxDetail     = 16 << 10
	MaxWhy        = 8000
	maxLabel      = 2000 // an agent's option is given back to it to the letter
	maxOccurrence = 128
)

// Key names the incident of one thing that is wrong: 16 hex digits, the same after any restart. Time and free
// text stay out of it, so that a repeat finds its incident.
func Key(project, protocol, task, agent, kind, code string) string {
	h := sha256.New()
	for _, part := range []string{project, protocol, task, agent, kind, code} {
		// The length keeps "ab","c" and "a","bc" apart.
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// tidy fills in the key and bounds the texts.
func (a Alert) Tidy() Alert {
	if a.Key == "" {
		a.Key = Key(a.Subject.Project, a.Subject.Protocol, a.Subject.ID, a.Agent, a.Kind, a.Code)
	}
	if !SeverityKnown(a.Severity) {
		// A word that nobody knows must not make the alert one that nobody hears of.
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

// Happening is the Occurrence in the form that is stored: a long or odd one as its hash, because cutting it
// would make two of them equal, and JSON would not give back bytes that are no text.
func (a Alert) Happening() string {
	if len(a.Occurrence) <= maxOccurrence && strings.ToValidUTF8(a.Occurrence, "") == a.Occurrence {
		return a.Occurrence
	}
	sum := sha256.Sum256([]byte(a.Occurrence))
	return hex.EncodeToString(sum[:])
}

func SeverityKnown(s protocol.Severity) bool { return s == protocol.Info || s.Rank() > 0 }

// Shorten cuts text to at most limit characters of valid UTF-8.
func Shorten(s string, limit int) string {
	if most := utf8.UTFMax * (limit + 1); len(s) > most {
		s = s[:most] // still too long, so the rest need not be looked at
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}
