package rules

import (
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// ActionNone is the Action of a Ruling that requires nothing.
const ActionNone = "none"

// Ruling is the consequence of a task's result (protocol 000, Error Handling).
type Ruling struct {
	Action string // protocol.ActionRetry, ActionDefer or ActionStop, or ActionNone
	// Status is the result's status. Code and Severity are those of the deciding error; Severity is fatal, error or
	// warning. Code and Rule go into the ledger.
	Status, Code, Severity string
	Rule                   string
	Counted                bool          // the attempt counts: a retry, not a deferral
	Due                    time.Time     // UTC in whole seconds, so that the ledger preserves it
	Timeout                time.Duration // of the next attempt; 0: unchanged
	// NeedsProof: the old attempt may still run. Take the result only when its agent is proved dead, or sends
	// heartbeats that no longer name the task.
	NeedsProof bool
	Exhausted  bool // no attempt is left under the rule or the task's limit
	Dead       bool // write a dead letter
	Alert      bool // alert the operator
	Fatal      bool // the alert is critical
	protocol.Cause
}

// Judge decides what follows from the task's result. It is a pure function of its arguments: after a crash the same
// ledger gives the same ruling, and a schedule that was written but not committed keeps its due time. Times of day in
// a message ("resets 3pm") are read in the location of now, so pass local time.
func Judge(t protocol.Task, protocolName string, now time.Time, cfg RetryConfig) Ruling {
	if r, settled := settledRuling(&t); settled {
		return r
	}
	f := Failed(t.Outcome)
	c := Case{Code: f.Code, Severity: SeverityWord(f), Agent: t.Agent, TaskType: t.Type, Protocol: protocolName}
	if c.Agent == "" {
		c.Agent = t.Outcome.Agent
	}
	r := Ruling{Status: statusWord(t.Outcome), Code: f.Code, Severity: severityClass(c.Severity), Cause: protocol.Cause{Reason: protocol.ReasonRule}}
	rule := cfg.choose(&r, c, ownFatal(f))
	// An attempt whose rule cannot be read counts against this rule: a damaged ledger must not grant extra attempts.
	used := t.Count(func(k protocol.Attempt) bool { return k.Rule == r.Rule || k.Rule == "" })
	if cfg.stops(&r, &t, rule, used) {
		r.Fatal = ownFatal(f) || documented[f.Code] == sevFatal
		if r.Fatal {
			r.Severity = sevFatal
		}
		return r
	}
	cfg.take(&r, &t, f, rule, used, now)
	return r
}

// settledRuling rules on results that need no rule. Status words outside the enum are kept and have no effect.
func settledRuling(t *protocol.Task) (Ruling, bool) {
	r := Ruling{Action: ActionNone, Status: statusWord(t.Outcome), Cause: protocol.Cause{Reason: protocol.ReasonFinished}}
	switch {
	case t.Outcome == nil:
		r.Phrase = protocol.PhraseNoResult
	case r.Status == "completed":
		r.Phrase = protocol.PhraseIsCompleted
	case t.Cancelled && t.CancelReason == protocol.ReasonSuperseded:
		r.Reason, r.Phrase, r.Facts.Text = protocol.ReasonSuperseded, protocol.PhraseRetryCancelled, t.CancelWhy
	case t.Cancelled:
		r.Reason, r.Phrase = protocol.ReasonOperator, protocol.PhraseEndedByUser
	case !judged(r.Status):
		r.Phrase, r.Facts.Text = protocol.PhraseOtherStatus, Shorten(r.Status, 40)
	default:
		return Ruling{}, false
	}
	return r, true
}

func judged(status string) bool {
	return slices.Contains([]string{"failed", "timeout", "deferred", "blocked", "partial"}, status)
}

// choose finds the matching rule and writes its name into r. An error that declares itself fatal matches only rules
// that stop.
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

// because fills in the cause of a ruling by a rule. The sentence starts with the code, so the rule's name need not repeat it.
func (r *Ruling) because(p protocol.Phrase, count, of int) {
	r.Phrase, r.Facts = p, protocol.Facts{Name: r.Code, Text: strings.Replace(r.Rule, "code="+r.Code, "code", 1), Count: count, Of: of}
}

// stops reports whether the task ends here, and if so fills in r. A buried task still gets its alert, because a crash
// may have occurred between dead letter and alert.
func (c RetryConfig) stops(r *Ruling, t *protocol.Task, rule Rule, used int) bool {
	attempt := t.Attempt()
	switch {
	case rule.Action == protocol.ActionStop:
		r.because(protocol.PhraseNotRetried, 0, 0)
		if r.Status == "blocked" || r.Status == "partial" {
			r.Phrase, r.Facts.Text = protocol.PhraseNeverRetried, r.Status
		}
	case t.Buried:
		r.Exhausted, r.Phrase = true, protocol.PhraseBuried
	case rule.Action == protocol.ActionRetry && used+1 >= rule.Attempts:
		r.Exhausted = true
		r.because(protocol.PhraseLastAttempt, used+1, rule.Attempts)
	case rule.Action == protocol.ActionRetry && attempt >= c.MaxAttempts:
		r.Exhausted = true
		r.because(protocol.PhraseMostAttempts, attempt, c.MaxAttempts)
	case rule.Action != protocol.ActionRetry && used >= rule.Attempts:
		r.Exhausted = true
		r.because(protocol.PhraseMostDeferrals, used, rule.Attempts)
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

// take fills in a retry or a deferral. An uncommitted schedule takes precedence over a new one: its due time may
// already have been published, and the ledger keeps the first schedule.
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
		r.because(protocol.PhraseScheduleStands, 0, 0)
		r.Facts.Until = r.Due
		return
	}
	delay := delayOf(t, f, rule, used, now)
	r.Due = wholeSecond(now.Add(delay))
	r.because(protocol.PhraseRetried, used+1, rule.Attempts)
	if r.Action == protocol.ActionDefer {
		r.Phrase = protocol.PhrasePutOff
	}
	r.Facts.For = delay.Round(time.Second)
}

// uncommitted returns the schedule that was written but not committed for the current attempt, if any.
func uncommitted(t *protocol.Task) (protocol.Attempt, bool) {
	if len(t.Attempts) == 0 {
		return protocol.Attempt{}, false
	}
	last := t.Attempts[len(t.Attempts)-1]
	known := last.Action == protocol.ActionRetry || last.Action == protocol.ActionDefer
	return last, known && !last.Committed && !last.Due.IsZero()
}

// nextTimeout returns the next attempt's timeout, 0 for unchanged. A request already held for its retry carries the
// extended timeout; extending it again after a crash would apply the factor twice.
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

// delayOf computes the delay as a function of rule, task id and attempt, plus up to a tenth, so that tasks that
// failed together do not return together. used is the number of attempts under the rule.
func delayOf(t *protocol.Task, f protocol.Failure, rule Rule, used int, now time.Time) time.Duration {
	share := jitter(t.ID, 1+t.Count(func(protocol.Attempt) bool { return true }))
	o := t.Outcome
	if rule.Action == ActionWait {
		if at, ok := resetOf(o, f, now); ok && at.After(now) {
			d := scale(at.Sub(now), 1, rule.MaxDelay)
			// The message gives an exact time: a tenth of a long wait could waste half an hour.
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

// resetOf returns when the limit ends according to the result, counted from when the result was written.
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

// jitter returns 0 to 0.1 from a hash of task id and entry number, stable across crashes.
func jitter(id string, n int) float64 {
	h := fnv.New64a()
	_, _ = h.Write(append(append([]byte(id), 0), strconv.Itoa(n)...))
	return float64(h.Sum64()%1001) / 10_000 // modulo, because the last bytes hardly affect the upper bits
}

// wholeSecond rounds up: the ledger stores whole seconds, and no retry may start early.
func wholeSecond(t time.Time) time.Time {
	whole := t.UTC().Truncate(time.Second)
	if whole.Before(t) {
		whole = whole.Add(time.Second)
	}
	return whole
}

// Failed returns the deciding error (protocol 000: the most severe of errors[], the first among equals), with its
// code in canonical form and its severity as stated. Status timeout implies the code TIMEOUT and status deferred
// CAPACITY_EXCEEDED, unless an error declares itself fatal. A failure without errors, or an error without a code, is
// UNKNOWN_ERROR. An outcome that is not a failure gives the zero Failure.
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

// worstOf returns the most severe error, with its code in canonical form.
func worstOf(all []protocol.Failure) (worst protocol.Failure, found bool) {
	rank := 0
	for _, f := range all {
		if f.Code = CodeWord(f.Code); f.Code == "" {
			f.Code = CodeUnknown
		}
		if r := severityRank(f); r > rank {
			worst, rank, found = f, r, true
		}
	}
	return worst, found
}

// imposed returns the failure with the code that the status implies, in the words of the best-matching error.
func imposed(o *protocol.Outcome, code string, worst protocol.Failure) protocol.Failure {
	for _, f := range o.Failures {
		if CodeWord(f.Code) == code {
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

// Budget reports whether one more retry fits into perHour, given the times of recent retries (in any order), and if
// not, when it will. If perHour is below 1 no retry ever fits, and again is zero.
func Budget(recent []time.Time, now time.Time, perHour int) (ok bool, again time.Time) {
	if perHour < 1 {
		return false, time.Time{}
	}
	var within []time.Time
	for _, at := range recent {
		if at.After(now) { // a clock that was set back must not exhaust the budget for more than an hour
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
