// Package rules decides what follows a failure: whether the task runs again and when, what a human is told, and in which words.
// It is pure.
package rules

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/livhana/steward/protocol"
)

// ActionWait is a rule's fourth action, beside protocol's retry, defer and stop: defer until the time that
// the message itself names, or for the rule's delay when it names none. The ledger records it as a deferral.
const ActionWait = "wait"

// What follows when a rule's attempts are used up. Both alert; dead also puts a dead letter on record.
const (
	ThenAlert = "alert"
	ThenDead  = "dead"
)

// Codes that policy code itself must name; what follows from any code stands in config.toml.
const (
	CodeCapacity  = "CAPACITY_EXCEEDED" // what a result with status deferred means
	CodeTimeout   = "TIMEOUT"           // what a result with status timeout means
	CodeUnknown   = "UNKNOWN_ERROR"     // a failure that names no error
	CodeAgentLost = "AGENT_LOST"        // ours: the result that a lost agent could not write
)

// The severities of protocol 000, Error Codes.
const (
	sevFatal   = "fatal"
	sevError   = "error"
	sevWarning = "warning"
)

// codeLimit bounds a code, which comes from a client's file and goes into ledger and log.
const codeLimit = 64

// Rule is one [[retry]] row of config.toml. The first five keys say what it matches (empty: anything),
// the others what follows.
type Rule struct {
	Code     string `toml:"code"`
	Agent    string `toml:"agent"`
	TaskType string `toml:"task_type"`
	Severity string `toml:"severity"`
	Protocol string `toml:"protocol"`

	Action string `toml:"action"` // retry, defer, wait or stop
	// Attempts in all for retry (2 is one retry); deferrals allowed for defer and wait.
	Attempts int           `toml:"attempts"`
	Delay    time.Duration `toml:"delay"`
	// Factor multiplies the delay from one attempt to the next; 0 or 1: it stays the same.
	Factor   float64       `toml:"factor"`
	MaxDelay time.Duration `toml:"max_delay"` // 0: no bound of its own
	// TimeoutFactor multiplies the task's timeout for the next attempt; 0 or 1: it stays the same.
	TimeoutFactor float64 `toml:"timeout_factor"`
	Then          string  `toml:"then"` // alert or dead
}

// RetryConfig is everything that Judge needs to know beside the task.
type RetryConfig struct {
	Rules       []Rule        // in the order in which they are tried
	MaxAttempts int           // attempts per task, whatever the rules say
	MaxTimeout  time.Duration // a timeout never grows beyond it
}

// Case is a failure as rules see it.
type Case struct{ Code, Severity, Agent, TaskType, Protocol string }

// Name identifies the rule by its match keys alone, such as "code=TIMEOUT,agent=codex-cursor". Ledger and
// counters use it, so it must not change when an operator tunes the rest of the row.
func (r Rule) Name() string {
	var b strings.Builder
	for _, key := range [...][2]string{
		{"code", codeWord(r.Code)}, {"agent", r.Agent}, {"task_type", r.TaskType},
		{"severity", strings.ToLower(r.Severity)}, {"protocol", r.Protocol},
	} {
		if key[1] == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(key[0] + "=" + quoteOdd(key[1]))
	}
	return b.String()
}

// quoteOdd quotes what could be read as the end of a value, so that two different rules never share a name.
func quoteOdd(s string) string {
	odd := func(r rune) bool {
		return r == ',' || r == '=' || r == '"' || r == '\\' || unicode.IsSpace(r) || !unicode.IsPrint(r)
	}
	if strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}

// Matches reports whether the rule applies. A severity outside the document's three words matches a rule
// that names it, and else counts as error (see severityClass).
func (r Rule) Matches(c Case) bool {
	return (r.Code == "" || codeWord(r.Code) == codeWord(c.Code)) &&
		(r.Agent == "" || r.Agent == c.Agent) &&
		(r.TaskType == "" || r.TaskType == c.TaskType) &&
		(r.Protocol == "" || r.Protocol == c.Protocol) &&
		(r.Severity == "" || strings.EqualFold(r.Severity, c.Severity) ||
			strings.EqualFold(r.Severity, severityClass(c.Severity)))
}

// Validate says which key of the rule cannot be; the error names rule and key.
func (r Rule) Validate() error {
	name := r.Name()
	if name == "" {
		return errors.New("retry rule without a match key: name one of code, agent, task_type, severity, protocol")
	}
	bad := func(key, format string, args ...any) error {
		return fmt.Errorf("retry rule %s: %s: %s", name, key, fmt.Sprintf(format, args...))
	}
	switch r.Action {
	case protocol.ActionStop, protocol.ActionRetry, protocol.ActionDefer, ActionWait:
	default:
		return bad("action", "%q is not retry, defer, wait or stop", r.Action)
	}
	stop := r.Action == protocol.ActionStop
	switch {
	case r.Attempts < 0, r.Attempts < 1 && !stop:
		return bad("attempts", "%d is less than 1", r.Attempts)
	case r.Delay < 0:
		return bad("delay", "%v is negative", r.Delay)
	case !growth(r.Factor):
		return bad("factor", "%v is not a number of 1 or more", r.Factor)
	case r.MaxDelay < 0, r.MaxDelay > 0 && r.MaxDelay < r.Delay:
		return bad("max_delay", "%v is less than the delay of %v", r.MaxDelay, r.Delay)
	case !growth(r.TimeoutFactor):
		return bad("timeout_factor", "%v is not a number of 1 or more", r.TimeoutFactor)
	case r.Then != ThenAlert && r.Then != ThenDead && !(stop && r.Then == ""):
		return bad("then", "%q is not alert or dead", r.Then)
	}
	return nil
}

// growth accepts an absent key (0) and what does not shrink. TOML can say nan and inf.
func growth(f float64) bool { return f == 0 || f >= 1 && !math.IsInf(f, 1) }

// Validate gives the first thing that cannot be: a rule's key, the same match twice, a bound below 1.
func (c RetryConfig) Validate() error {
	seen := make(map[string]bool, len(c.Rules))
	for _, r := range c.Rules {
		if err := r.Validate(); err != nil {
			return err
		}
		name := r.Name()
		if seen[name] {
			return fmt.Errorf("retry rule %s: stands there twice, the second can never match", name)
		}
		seen[name] = true
	}
	if c.MaxAttempts < 1 {
		return fmt.Errorf("retry: attempts per task: %d is less than 1", c.MaxAttempts)
	}
	if c.MaxTimeout <= 0 {
		return fmt.Errorf("retry: longest timeout: %v is not positive", c.MaxTimeout)
	}
	return nil
}

// Merge puts the user's rows before the built-in ones; a built-in row with the same match is dropped.
// A row that matches by severity alone takes the place of its built-in twin instead: in front it would
// catch the listed codes too, and whoever tunes the retries of warnings would retry git conflicts.
func Merge(user, builtin []Rule) []Rule {
	var merged, tail []Rule
	inPlace := make(map[string]bool)
	for _, b := range builtin {
		twins := withName(user, b.Name())
		switch {
		case len(twins) == 0:
			tail = append(tail, b)
		case b == b.severityOnly():
			inPlace[b.Name()] = true
			tail = append(tail, twins...) // more than one is an error, which Validate reports
		}
	}
	for _, u := range user {
		if !inPlace[u.Name()] {
			merged = append(merged, u)
		}
	}
	return append(merged, tail...)
}

func withName(rules []Rule, name string) []Rule {
	var found []Rule
	for _, r := range rules {
		if r.Name() == name {
			found = append(found, r)
		}
	}
	return found
}

// severityOnly is the rule without its other match keys.
func (r Rule) severityOnly() Rule {
	r.Code, r.Agent, r.TaskType, r.Protocol = "", "", "", ""
	return r
}

// codeWord brings a code into the form in which rules compare it: clients write "git-conflict" and
// "Git conflict" too. Characters that cannot be part of a code are dropped.
func codeWord(s string) string {
	plain := func(r rune) bool { return r == '_' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }
	if len(s) <= codeLimit && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	word := strings.Map(func(r rune) rune {
		switch r = unicode.ToUpper(r); {
		case r == '-' || r == '.' || r == ' ':
			return '_'
		case r == '_' || unicode.IsLetter(r) && r != unicode.ReplacementChar || unicode.IsDigit(r):
			return r
		}
		return -1
	}, strings.TrimSpace(s))
	return ClipText(word, codeLimit)
}

// severityClass reads a severity word. An unknown one counts as error: below warning, a client's private
// word would hide behind any warning; as fatal, it would ring for a human on every private word. As error
// it costs one retry at most, then a human hears of it. Whoever uses such words can give them a row.
func severityClass(word string) string {
	for _, known := range [...]string{sevFatal, sevError, sevWarning} {
		if strings.EqualFold(strings.TrimSpace(word), known) {
			return known
		}
	}
	return sevError
}

// severityWord is the severity that an error states, else the one that the document gives its code.
func severityWord(f protocol.Failure) string {
	if word := strings.ToLower(strings.TrimSpace(f.Severity)); word != "" {
		return word
	}
	if d, ok := documented[codeWord(f.Code)]; ok {
		return d.severity
	}
	return sevError
}

// ownFatal reports whether the error itself says fatal: such an error never retries, whatever a row says.
func ownFatal(f protocol.Failure) bool {
	return strings.TrimSpace(f.Severity) != "" && severityClass(f.Severity) == sevFatal
}

// severityRank orders errors. A code that the document calls fatal outranks errors even when the client
// calls it a warning: the code table beats the severity, and a retry into a git conflict helps nobody.
func severityRank(f protocol.Failure) int {
	switch class := severityClass(severityWord(f)); {
	case ownFatal(f):
		return 4
	case class == sevFatal, documented[codeWord(f.Code)].severity == sevFatal:
		return 3
	case class == sevError:
		return 2
	}
	return 1
}
