package escalate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// Errors for a rejected answer.
var (
	ErrStale     = errors.New("the question has changed since")
	ErrNoOption  = errors.New("there is no such option")
	ErrDangerous = errors.New("this option is dangerous: use the command line")
)

// The ways in which an answer arrives.
const (
	ViaCommand = "command"
	ViaPopup   = "popup"
	ViaPush    = "push"
)

// Reply is an operator's answer to an incident.
type Reply struct {
	// Option is an option's id or label, or free text if the incident offers no options.
	Option string
	Why    string
	By     string // the operator's name
	Via    string // one of the Via constants
	// Stop and Requirements are for the agent's task (protocol.Answer). With Stop, Option may be empty.
	Stop         bool
	Requirements []string
	// Rev is the revision of the incident that the operator saw; 0 means the current one, for a caller that has just
	// read it.
	Rev int
}

// Answer is an accepted reply. It is on disk before anything that depends on it is written.
type Answer struct {
	Option string    `json:"option"` // "" for free text
	Label  string    `json:"label"`
	Why    string    `json:"why,omitempty"`
	By     string    `json:"by"`
	Via    string    `json:"via"`
	At     time.Time `json:"at"`
	// Stop and Requirements are for the agent's task (protocol.Answer).
	Stop         bool     `json:"stop,omitempty"`
	Requirements []string `json:"requirements,omitempty"`
	// Carried is when the answer was written to where the agent reads it; zero: not yet. Problem is why that failed.
	Carried time.Time `json:"carried,omitzero"`
	Problem string    `json:"problem,omitempty"`
}

// Answer accepts the first reply and resolves the incident with it. Errors: ErrUnknown, ErrResolved, ErrStale,
// ErrNoOption, ErrDangerous, or a write error (see Raise).
func (l *Incidents) Answer(key string, r Reply, now time.Time) (Incident, error) {
	return l.change(key, func(i Incident) (Incident, bool, error) {
		if i.Rev == 0 {
			return i, false, fmt.Errorf("answer: %w %.64s", ErrUnknown, key)
		}
		a, err := i.take(r, wall(now))
		if err != nil {
			return i, false, fmt.Errorf("answer incident %s: %w", key, err)
		}
		why := cmp.Or(a.By, "a person") + " answered: " + a.Label
		i, _ = resolve(i, rules.ByAnswer, why, wall(now))
		i.Answer = a
		return i, true, nil
	})
}

// Judge returns the error with which the reply would be rejected now, or nil.
func (i Incident) Judge(r Reply) error {
	_, err := i.take(r, time.Time{})
	return err
}

// take validates a reply and builds its Answer. See docs/decisions.md, "An answer is bound to the question that was seen".
func (i Incident) take(r Reply, now time.Time) (*Answer, error) {
	switch {
	case i.State == rules.Resolved && i.Answer != nil:
		return nil, fmt.Errorf("%w: %s has answered: %s", ErrResolved, cmp.Or(i.Answer.By, "a person"), i.Answer.Label)
	case i.State == rules.Resolved:
		return nil, ErrResolved
	case r.Rev != 0 && r.Rev < max(i.Asked, i.Opened), r.Rev > i.Rev:
		return nil, ErrStale
	case r.Rev == 0 && i.reworded():
		return nil, fmt.Errorf("%w it was raised: see what it asks now, then answer %s", ErrStale, i.Handle())
	}
	a := &Answer{Why: rules.Shorten(r.Why, rules.MaxWhy), By: r.By, Via: r.Via, At: now, Stop: r.Stop}
	for _, requirement := range r.Requirements {
		a.Requirements = append(a.Requirements, rules.Shorten(requirement, rules.MaxDetail))
	}
	if r.Stop && r.Option == "" {
		a.Label = "Stop this task"
		return a, nil
	}
	o, ok := i.option(r.Option)
	switch {
	case ok && o.Dangerous && r.Via != ViaCommand:
		return nil, ErrDangerous
	case ok:
		a.Option, a.Label = o.ID, o.Label
		return a, nil
	case len(i.Options) > 0 || strings.TrimSpace(r.Option) == "" || r.Via != ViaCommand:
		return nil, fmt.Errorf("%w: %s", ErrNoOption, offered(i.Options))
	}
	a.Label = rules.Shorten(r.Option, rules.MaxDetail)
	return a, nil
}

// reworded reports whether an agent's question has changed since the incident was opened. Its options are numbered,
// so 1 may now mean the opposite.
func (i Incident) reworded() bool {
	return i.Subject().Kind == protocol.KindQuestion && i.Asked > i.Opened
}

// Handle is what commands accept as the incident's name: a prefix of its key, plus the revision if an answer without
// it might refer to an earlier wording.
func (i Incident) Handle() string {
	handle := i.Key[:min(len(i.Key), handleLength)]
	if i.reworded() {
		handle += "@" + strconv.Itoa(i.Rev)
	}
	return handle
}

const handleLength = 8

// option finds an option by its id, or else by its label.
func (i Incident) option(name string) (rules.Option, bool) {
	n := slices.IndexFunc(i.Options, func(o rules.Option) bool { return o.ID == name })
	if n < 0 {
		n = slices.IndexFunc(i.Options, func(o rules.Option) bool { return strings.EqualFold(o.Label, strings.TrimSpace(name)) })
	}
	if n < 0 {
		return rules.Option{}, false
	}
	return i.Options[n], true
}

// offered describes the answers that the question takes. See docs/decisions.md, "A question without options is answered in your own words".
func offered(options []rules.Option) string {
	if len(options) == 0 {
		return "answer in your own words"
	}
	var all []string
	for _, o := range options {
		all = append(all, fmt.Sprintf("%s (%s)", o.ID, o.Label))
	}
	return "there are " + strings.Join(all, ", ")
}

// Carry records the outcome of writing the answer to where the agent reads it: success, or the problem.
func (l *Incidents) Carry(key string, problem error, done bool, now time.Time) error {
	_, err := l.change(key, func(i Incident) (Incident, bool, error) {
		if i.Answer == nil || !i.Answer.Carried.IsZero() {
			return i, false, nil
		}
		a := *i.Answer
		a.Problem = textOf(problem)
		if done {
			a.Carried = wall(now)
		}
		if a.Carried.Equal(i.Answer.Carried) && a.Problem == i.Answer.Problem {
			return i, false, nil
		}
		i.Answer = &a
		return i, true, nil
	})
	return err
}

// Uncarried lists the incidents whose answer has not reached the agent's files yet, oldest answer first.
func (l *Incidents) Uncarried() []Incident {
	return l.pick(Incident.isUncarried, func(a, b Incident) int {
		return cmp.Or(a.Answer.At.Compare(b.Answer.At), strings.Compare(a.Key, b.Key))
	})
}

// Snooze silences an incident until the given time. Errors as for Resolve.
func (l *Incidents) Snooze(key string, until time.Time) (Incident, error) {
	return l.end(key, "snooze", func(i Incident) (Incident, bool) {
		i, ok := acknowledge(i, wall(until))
		if ok {
			i.State = rules.Snoozed
		}
		return i, ok
	})
}
