// Package rules decides what follows a failure: whether and when the task is retried, and what the operator is told
// and how it is worded. It has no side effects.
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

// ActionWait is a rule's fourth action, besides protocol's retry, defer and stop: defer until the time given in the
// message, or for the rule's delay if none exists. The ledger records it as a deferral.
// See docs/decisions.md, "wait is a fourth action of a retry row".
const ActionWait = "wait"

// The consequences of exhausted attempts. Both raise an alert; dead also writes a dead letter.
const (
	ThenAlert = "alert"
	ThenDead  = "dead"
)

// Codes that the retry policy itself must know; all other consequences of codes are in config.toml.
const (
	CodeCapacity  = "CAPACITY_EXCEEDED" // implied by a result with status deferred
	CodeTimeout   = "TIMEOUT"           // implied by a result with status timeout
	CodeUnknown   = "UNKNOWN_ERROR"     // a failure without an error code
	CodeAgentLost = "AGENT_LOST"        // steward's own: the result that a lost agent could not write
)

// The severities of protocol 000, Error Codes.
const (
	sevFatal   = "fatal"
	sevError   = "error"
	sevWarning = "warning"
)

// documented are the severities of the codes (protocol 000, Error Codes).
var documented = map[string]string{
	CodeCapacity:        sevWarning,
	"FILE_NOT_FOUND":    sevError,
	"PERMISSION_DENIED": sevError,
	CodeTimeout:         sevError,
	"EXECUTION_FAILED":  sevError,
	"VALIDATION_FAILED": sevFatal,
	"GIT_CONFLICT":      sevFatal,
	CodeUnknown:         sevFatal,
}

// codeLimit limits a code, which comes from a client's file and goes into ledger and log.
const codeLimit = 64

// Rule is one [[retry]] row of config.toml. The first five keys are what it matches (empty: anything), the others
// what follows.
type Rule struct {
	Code     string `toml:"code"`
	Agent    string `toml:"agent"`
	TaskType string `toml:"task_type"`
	Severity string `toml:"severity"`
	Protocol string `toml:"protocol"`

	Action string `toml:"action"` // retry, defer, wait or stop
	// Attempts is the total number of attempts for retry (2 is one retry), and the number of deferrals allowed for
	// defer and wait.
	Attempts int           `toml:"attempts"`
	Delay    time.Duration `toml:"delay"`
	// Factor multiplies the delay from one attempt to the next; 0 or 1: constant.
	Factor   float64       `toml:"factor"`
	MaxDelay time.Duration `toml:"max_delay"` // 0: no limit
	// TimeoutFactor multiplies the task's timeout for the next attempt; 0 or 1: constant.
	TimeoutFactor float64 `toml:"timeout_factor"`
	Then          string  `toml:"then"` // alert or dead
}

// RetryConfig is everything that Judge needs besides the task.
type RetryConfig struct {
	Rules       []Rule        // in matching order
	MaxAttempts int           // per task, regardless of the rules
	MaxTimeout  time.Duration // upper limit for an extended timeout
}

// Case holds the properties of a failure that rules match.
type Case struct{ Code, Severity, Agent, TaskType, Protocol string }

// Name identifies the rule by its match keys alone, such as "code=TIMEOUT,agent=codex-cursor". Incidents and counters
// use it, so it must not change when an operator edits the rest of the row.
func (r Rule) Name() string {
	var b strings.Builder
	for _, key := range [...][2]string{
		{"code", CodeWord(r.Code)}, {"agent", r.Agent}, {"task_type", r.TaskType},
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

// quoteOdd quotes a value with special characters, so that two different rules never share a name.
func quoteOdd(s string) string {
	odd := func(r rune) bool {
		return r == ',' || r == '=' || r == '"' || r == '\\' || unicode.IsSpace(r) || !unicode.IsPrint(r)
	}
	if strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}

// Matches reports whether the rule applies. A severity outside the document's three words matches a rule that names
// it, and otherwise counts as error (see severityClass).
func (r Rule) Matches(c Case) bool {
	return (r.Code == "" || CodeWord(r.Code) == CodeWord(c.Code)) &&
		(r.Agent == "" || r.Agent == c.Agent) &&
		(r.TaskType == "" || r.TaskType == c.TaskType) &&
		(r.Protocol == "" || r.Protocol == c.Protocol) &&
		(r.Severity == "" || strings.EqualFold(r.Severity, c.Severity) ||
			strings.EqualFold(r.Severity, severityClass(c.Severity)))
}

// Validate reports the first invalid key; the error names the rule and the key.
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

// growth reports whether a factor is absent (0) or at least 1. TOML allows nan and inf, which are rejected.
func growth(f float64) bool { return f == 0 || f >= 1 && !math.IsInf(f, 1) }

// Validate reports the first problem: an invalid rule, a duplicate match, or a limit that is too low.
func (c RetryConfig) Validate() error {
	seen := make(map[string]bool, len(c.Rules))
	for _, r := range c.Rules {
		if err := r.Validate(); err != nil {
			return err
		}
		name := r.Name()
		if seen[name] {
			return fmt.Errorf("retry rule %s: is listed twice; the second one can never match", name)
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

// Merge puts the user's rows before the built-in ones; a built-in row with the same match is dropped. A user row that
// matches by severity alone replaces its built-in counterpart in place: at the front it would also match the listed
// codes, so a row for warnings would retry git conflicts. See docs/decisions.md, "A user's severity row replaces the built-in row in its place".
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
			tail = append(tail, twins...) // duplicates are an error, which Validate reports
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

// severityOnly returns the rule without its other match keys.
func (r Rule) severityOnly() Rule {
	r.Code, r.Agent, r.TaskType, r.Protocol = "", "", "", ""
	return r
}

// CodeWord returns a code in the canonical form that rules compare: clients also write "git-conflict" and "Git
// conflict". Characters that cannot be part of a code are dropped.
func CodeWord(s string) string {
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
	return Shorten(word, codeLimit)
}

// severityClass maps a severity word to fatal, error or warning. An unknown word counts as error. Ranked below
// warning, a client's own word would be masked by any warning; as fatal, every such word would alert the operator. As
// error it costs at most one retry before the operator is alerted. A client that uses its own words can have a row
// for them.
func severityClass(word string) string {
	for _, known := range [...]string{sevFatal, sevError, sevWarning} {
		if strings.EqualFold(strings.TrimSpace(word), known) {
			return known
		}
	}
	return sevError
}

// SeverityWord returns the severity that an error states, or else the documented one for its code.
func SeverityWord(f protocol.Failure) string {
	if word := strings.ToLower(strings.TrimSpace(f.Severity)); word != "" {
		return word
	}
	if d, ok := documented[CodeWord(f.Code)]; ok {
		return d
	}
	return sevError
}

// ownFatal reports whether the error itself states fatal: such an error is never retried, whatever the rules say.
func ownFatal(f protocol.Failure) bool {
	return strings.TrimSpace(f.Severity) != "" && severityClass(f.Severity) == sevFatal
}

// severityRank orders errors. A code that is documented as fatal outranks errors even if the client states warning:
// the code table takes precedence, and retrying a git conflict is useless.
func severityRank(f protocol.Failure) int {
	switch class := severityClass(SeverityWord(f)); {
	case ownFatal(f):
		return 4
	case class == sevFatal, documented[CodeWord(f.Code)] == sevFatal:
		return 3
	case class == sevError:
		return 2
	}
	return 1
}
