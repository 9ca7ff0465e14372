package rules

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// ActionNone is the Action of a Ruling that asks for nothing.
const ActionNone = "none"

// Ruling is what follows from a task's result (protocol 000, Error Handling).
type Ruling struct {
	Action string // protocol.ActionRetry, ActionDefer or ActionStop, or ActionNone
	// Status, Code and Severity are the result's word and the deciding error's; Severity is one of fatal,
	// error, warning. Code and Rule go into the ledger.
	Status, Code, Severity string
	Rule                   string
	Counted                bool          // the attempt counts: a retry, not a deferral
	Due                    time.Time     // UTC, whole seconds, so that it survives the ledger unchanged
	Timeout                time.Duration // the next attempt's; 0: unchanged
	// NeedsProof: the old attempt may still run. Take the result only when its agent is proved dead, or
	// beats and no longer names the task.
	NeedsProof bool
	Exhausted  bool // no attempt is left, by the rule or by the task's ceiling
	Dead       bool // put a dead letter on record
	Alert      bool // a human must hear of it
	Fatal      bool // and at once, as critical
	Reason     protocol.Reason
	Why        string // one sentence for people
}

// Judge says what follows from the task's result. It is a pure function of its arguments: after a crash the
// same ledger gives the same ruling, and a schedule that was written but not yet committed keeps its due
// time. Times of day in a message ("resets 3pm") are read in now's location: hand in local time.
func Judge(t protocol.Task, protocolName string, now time.Time, cfg RetryConfig) Ruling {
	if r, settled := settledRuling(&t); settled {
		return r
	}
	f := Failed(t.Outcome)
	c := Case{Code: f.Code, Severity: severityWord(f), Agent: t.Agent, TaskType: t.Type, Protocol: protocolName}
	if c.Agent == "" {
		c.Agent = t.Outcome.Agent
	}
	r := Ruling{Status: statusWord(t.Outcome), Code: f.Code, Severity: severityClass(c.Severity), Reason: protocol.ReasonRule}
	rule := cfg.choose(&r, c, ownFatal(f))
	// An attempt of which nothing can be read any more may have been this rule's: a damaged ledger gives no attempts away.
	used := t.Count(func(k protocol.Attempt) bool { return k.Rule == r.Rule || k.Rule == "" })
	if cfg.stops(&r, &t, rule, used) {
		r.Fatal = ownFatal(f) || documented[f.Code].severity == sevFatal
		if r.Fatal {
			r.Severity = sevFatal
		}
		return r
	}
	cfg.take(&r, &t, f, rule, used, now)
	return r
}

// settledRuling answers what needs no rule. Status words outside the enum are kept and mean nothing.
func settledRuling(t *protocol.Task) (Ruling, bool) {
	r := Ruling{Action: ActionNone, Status: statusWord(t.Outcome), Reason: protocol.ReasonFinished}
	switch {
	case t.Outcome == nil:
		r.Why = "There is no result to judge."
	case r.Status == "completed":
		r.Why = "It is completed."
	case t.Cancelled && t.CancelReason == protocol.ReasonSuperseded:
		r.Reason, r.Why = protocol.ReasonSuperseded, "Steward cancelled its retry: "+t.CancelWhy+"."
	case t.Cancelled:
		r.Reason, r.Why = protocol.ReasonOperator, "The operator has ended it."
	case !judged(r.Status):
		r.Why = fmt.Sprintf("The status %q is outside the protocol's list and means nothing to the retry rules.", ClipText(r.Status, 40))
	default:
		return Ruling{}, false
	}
	return r, true
}

func judged(status string) bool {
	return slices.Contains([]string{"failed", "timeout", "deferred", "blocked", "partial"}, status)
}

// choose finds the rule and writes its name into r. For an error that calls itself fatal only a row that stops can match.
func (c RetryConfig) choose(r *Ruling, what Case, fatal bool) Rule {
	stop := Rule{Action: protocol.ActionStop, Then: ThenAlert}
	if r.Status == "blocked" || r.Status == "partial" {
		r.Rule = "status=" + r.Status
		return stop
	}
	for _, rule := range c.Rules {
		if rule.Matches(what) && (!fatal || rule.Action == protocol.ActionStop) {
			r.Rule = rule.Name()
			return rule
		}
	}
	r.Rule = "none"
	return stop
}

// ruleWords names the rule in a sentence that begins with the code.
func (r *Ruling) ruleWords() string { return strings.Replace(r.Rule, "code="+r.Code, "code", 1) }

// stops reports whether the task ends here, and fills r in if so. Buried tasks keep their alert: between the dead
// letter and the alert a crash may lie.
func (c RetryConfig) stops(r *Ruling, t *protocol.Task, rule Rule, used int) bool {
	attempt := t.Attempt()
	switch {
	case rule.Action == protocol.ActionStop:
		r.Why = fmt.Sprintf("%s: not retried (rule: %s)", r.Code, r.ruleWords())
		if r.Status == "blocked" || r.Status == "partial" {
			r.Why = fmt.Sprintf("A result with status %s is never retried.", r.Status)
		}
	case t.Buried:
		r.Exhausted, r.Why = true, "Its dead letter is on record."
	case rule.Action == protocol.ActionRetry && used+1 >= rule.Attempts:
		r.Exhausted, r.Why = true, fmt.Sprintf("%s: attempt %d of %d failed (rule: %s).", r.Code, used+1, rule.Attempts, r.ruleWords())
	case rule.Action == protocol.ActionRetry && attempt >= c.MaxAttempts:
		r.Exhausted, r.Why = true, fmt.Sprintf("%s: attempt %d failed, and a task has %d at most.", r.Code, attempt, c.MaxAttempts)
	case rule.Action != protocol.ActionRetry && used >= rule.Attempts:
		r.Exhausted, r.Why = true, fmt.Sprintf("%s: already put off %d times (rule: %s).", r.Code, used, r.ruleWords())
	default:
		return false
	}
	r.Action, r.Alert = protocol.ActionStop, true
	r.Dead = rule.Then == ThenDead && !t.Buried
	if r.Exhausted {
		r.Reason = protocol.ReasonExhausted
	}
	return true
}

// take fills in a retry or a deferral. A schedule without its commit wins over a fresh one: whoever wrote it
// may have told others the due time, and the ledger takes the first.
func (c RetryConfig) take(r *Ruling, t *protocol.Task, f protocol.Failure, rule Rule, used int, now time.Time) {
	r.Action, r.Counted = protocol.ActionDefer, false
	r.Alert = rule.Action == ActionWait && used == 0
	if rule.Action == protocol.ActionRetry {
		r.Action, r.Counted = protocol.ActionRetry, true
		r.NeedsProof = f.Code == CodeTimeout
		r.Timeout = nextTimeout(t, rule.TimeoutFactor, c.MaxTimeout)
	}
	switch {
	case f.Code == CodeAgentLost:
		r.Reason = protocol.ReasonLost
	case rule.Action == protocol.ActionDefer:
		r.Reason = protocol.ReasonDeferred
	}
	if k, ok := uncommitted(t); ok {
		if r.Action, r.Counted = k.Action, k.Action == protocol.ActionRetry; !r.Counted {
			r.NeedsProof, r.Timeout = false, 0
		}
		r.Rule, r.Code, r.Due = k.Rule, k.Code, k.Due.UTC()
		r.Why = fmt.Sprintf("%s: the schedule written earlier stands, due %s (rule: %s).", r.Code, r.Due.Format(time.RFC3339), r.ruleWords())
		return
	}
	delay := delayOf(t, f, rule, used, now)
	r.Due = wholeSecond(now.Add(delay))
	what := fmt.Sprintf("attempt %d of %d failed, again", used+1, rule.Attempts)
	if r.Action == protocol.ActionDefer {
		what = fmt.Sprintf("put off, %d of %d times,", used+1, rule.Attempts)
	}
	r.Why = fmt.Sprintf("%s: %s in %v (rule: %s).", r.Code, what, delay.Round(time.Second), r.ruleWords())
}

// uncommitted gives the schedule that was written for the current attempt, if one was.
func uncommitted(t *protocol.Task) (protocol.Attempt, bool) {
	if len(t.Attempts) == 0 {
		return protocol.Attempt{}, false
	}
	last := t.Attempts[len(t.Attempts)-1]
	known := last.Action == protocol.ActionRetry || last.Action == protocol.ActionDefer
	return last, known && !last.Committed && !last.Due.IsZero()
}

// nextTimeout gives the next attempt's timeout, 0 for unchanged. A request that already waits for its retry
// carries the grown one: to grow it again after a crash would double it twice.
func nextTimeout(t *protocol.Task, factor float64, longest time.Duration) time.Duration {
	grownAlready := t.Hold != nil && !t.Hold.Half && t.Hold.Reason == protocol.HoldRetry
	if factor <= 1 || t.Timeout <= 0 || grownAlready {
		return 0
	}
	next := scale(t.Timeout, factor, longest)
	if next <= t.Timeout {
		return 0
	}
	return next
}

// delayOf is policies' f(policy, task id, attempt), longer by up to a tenth so that tasks that failed
// together do not come back together. used counts the attempts that the rule has had.
func delayOf(t *protocol.Task, f protocol.Failure, rule Rule, used int, now time.Time) time.Duration {
	share := jitter(t.ID, 1+t.Count(func(protocol.Attempt) bool { return true }))
	o := t.Outcome
	if rule.Action == ActionWait {
		if at, ok := resetOf(o, f, now); ok && at.After(now) {
			d := scale(at.Sub(now), 1, rule.MaxDelay)
			// The time is printed exactly: a tenth of a long wait would waste half an hour.
			return scale(d+min(scale(d, share, 0), time.Minute), 1, rule.MaxDelay)
		}
	}
	base := rule.Delay
	if rule.Action == protocol.ActionDefer {
		base = max(base, o.RetryAfter)
	}
	base = scale(base, math.Pow(max(rule.Factor, 1), float64(used)), rule.MaxDelay)
	return scale(base, 1+share, rule.MaxDelay)
}

// resetOf is when the limit ends, by what the result says, counted from when the result was written.
func resetOf(o *protocol.Outcome, f protocol.Failure, now time.Time) (time.Time, bool) {
	seen := now
	for _, at := range []time.Time{o.At, o.Appeared} {
		if !at.IsZero() && at.Before(now) {
			seen = at.In(now.Location())
		}
	}
	if o.RetryAfter > 0 {
		return seen.Add(o.RetryAfter), true
	}
	if at, ok := resetTime(f.Message, seen); ok {
		return at, true
	}
	return resetTime(o.Summary, seen)
}

// scale multiplies without overflow, up to longest (0: none). The bound of a century keeps time sums valid.
func scale(d time.Duration, by float64, longest time.Duration) time.Duration {
	const century = 100 * 365 * 24 * time.Hour
	if longest <= 0 || longest > century {
		longest = century
	}
	if v := float64(d) * by; v < float64(longest) {
		return time.Duration(v)
	}
	return longest
}

// jitter gives 0 to 0.1 from a hash of task id and entry number, the same after any crash.
func jitter(id string, n int) float64 {
	h := fnv.New64a()
	_, _ = h.Write(append(append([]byte(id), 0), strconv.Itoa(n)...))
	return float64(h.Sum64()%1001) / 10_000 // modulo, because the last bytes hardly reach the upper bits
}

// wholeSecond rounds up: the ledger keeps whole seconds, and no retry may come early.
func wholeSecond(t time.Time) time.Time {
	whole := t.UTC().Truncate(time.Second)
	if whole.Before(t) {
		whole = whole.Add(time.Second)
	}
	return whole
}

// Failed gives the error that decides (protocol 000: the most severe of errors[], the first among equals),
// with its code in canonical form and its severity as stated. Status timeout means the code TIMEOUT,
// deferred CAPACITY_EXCEEDED, unless an error calls itself fatal; a failure without errors, or an error
// without a code, is UNKNOWN_ERROR. An outcome that failed nothing gives the zero Failure.
func Failed(o *protocol.Outcome) protocol.Failure {
	status := statusWord(o)
	if !judged(status) {
		return protocol.Failure{}
	}
	worst, found := worstOf(o.Failures)
	if found && ownFatal(worst) {
		return worst
	}
	switch status {
	case "timeout":
		return imposed(o, CodeTimeout, worst)
	case "deferred":
		return imposed(o, CodeCapacity, worst)
	}
	switch {
	case found:
		return worst
	case status == "failed":
		return protocol.Failure{Code: CodeUnknown, Message: o.Summary}
	}
	return protocol.Failure{Code: strings.ToUpper(status), Message: o.Summary, Severity: sevError}
}

// worstOf gives the most severe error, its code made canonical.
func worstOf(all []protocol.Failure) (worst protocol.Failure, found bool) {
	rank := 0
	for _, f := range all {
		if f.Code = codeWord(f.Code); f.Code == "" {
			f.Code = CodeUnknown
		}
		if r := severityRank(f); r > rank {
			worst, rank, found = f, r, true
		}
	}
	return worst, found
}

// imposed is the failure whose code the status dictates, told in the words of the error that fits best.
func imposed(o *protocol.Outcome, code string, worst protocol.Failure) protocol.Failure {
	for _, f := range o.Failures {
		if codeWord(f.Code) == code {
			f.Code = code
			return f
		}
	}
	worst.Code, worst.Severity = code, ""
	if worst.Message == "" {
		worst.Message = o.Summary
	}
	return worst
}

func statusWord(o *protocol.Outcome) string {
	if o == nil {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(o.Status))
}

// Budget reports whether one more retry fits into perHour, given when the recent ones were made (in any
// order), and if not, when it will. With perHour below 1 none ever does, and again is zero.
func Budget(recent []time.Time, now time.Time, perHour int) (ok bool, again time.Time) {
	if perHour < 1 {
		return false, time.Time{}
	}
	var within []time.Time
	for _, at := range recent {
		if at.After(now) { // a clock that was set back must not lock the budget for longer than an hour
			at = now
		}
		if now.Sub(at) < time.Hour {
			within = append(within, at)
		}
	}
	if len(within) < perHour {
		return true, time.Time{}
	}
	slices.SortFunc(within, time.Time.Compare)
	return false, within[len(within)-perHour].Add(time.Hour)
}
