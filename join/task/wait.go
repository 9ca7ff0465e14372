package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
)

// ErrLimit: the wait ended before the task did.
var ErrLimit = errors.New("the wait is over; the task goes on")

// BlockedError: a task that the awaited task depends on did not succeed, so the awaited task stays held until a user
// releases or cancels it.
type BlockedError struct{ By agentstatus.Detail }

func (e *BlockedError) Error() string {
	return fmt.Sprintf("it comes after task %s, which is %s", terminal.Clean(e.By.ID), Standing(e.By))
}

// AgentError: the task's agent reports that it is in error, which ends the wait (protocol 000, Task Monitoring). The
// task stays as it is.
type AgentError struct{ Text string }

func (e *AgentError) Error() string { return e.Text }

// Waiter waits for the end of one task. It only reads.
type Waiter struct {
	Look func(context.Context) (agentstatus.Detail, error)
	// Trouble says what is wrong with the task's agent, "" for nothing. inError: the agent itself reports an error.
	Trouble func(context.Context, agentstatus.Detail) (text string, inError bool)
	// Decided reports whether an unsuccessful result is final.
	Decided func(context.Context, agentstatus.Detail) bool
	// Other reads a task that this task depends on.
	Other func(ctx context.Context, id string) (agentstatus.Detail, error)
	Hints <-chan struct{} // triggers a scan now; may be nil
	Now   func() time.Time
	Every time.Duration // between scans without a hint
	// Limit bounds the whole wait. 0: each run of the task may take the task's own timeout (see Patience); time in
	// which it is held, or waits for its next run, does not count.
	Limit time.Duration
	Say   func(News)
}

// News is the outcome of a scan. Text is "" when nothing has changed.
type News struct {
	Text     string
	Warning  bool // something is wrong
	Progress bool // the task's own progress report
	Detail   agentstatus.Detail
	Since    time.Time // when the task entered its present state
	Now      time.Time
}

const (
	decideTime    = 10 * time.Second // the longest that a daemon may take to decide about a retry
	margin        = 10 * time.Second // for an executor to write the result of its own timeout
	tolerance     = 3 * time.Second  // while files are being moved, a task may seem to be gone
	agentInterval = 5 * time.Second  // between checks of the agent (protocol 000, Task Monitoring)
)

// Patience is how long to wait for one run of a task: its timeout (300 s when it names none, 3600 s at most) plus a
// margin for writing the result.
func Patience(r *agentstatus.Request) time.Duration {
	seconds := 0.0
	if r != nil {
		seconds = r.Timeout
	}
	if !(seconds > 0) {
		seconds = 300
	}
	return time.Duration(min(seconds, MaxTimeout.Seconds())*float64(time.Second)) + margin
}

// resultWatch is the state of one wait.
type resultWatch struct {
	*Waiter
	begun, seen, since, asked, ended time.Time
	last                             agentstatus.Detail
	phase                            string
	warned                           bool
}

// Run waits until the task has ended. Errors: ErrLimit, *BlockedError, *AgentError, the context's, and those of Look.
func (w *Waiter) Run(ctx context.Context) (agentstatus.Detail, error) {
	v := &resultWatch{Waiter: w, begun: w.Now()}
	for {
		over, err := v.scan(ctx)
		if over || err != nil {
			return v.last, err
		}
		select {
		case <-ctx.Done():
			return v.last, ctx.Err()
		case <-w.Hints:
		case <-time.After(w.Every):
		}
	}
}

func (v *resultWatch) scan(ctx context.Context) (over bool, err error) {
	now := v.Now()
	d, err := v.Look(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if now.Sub(cmp.Or(v.seen, v.begun)) < v.patienceWith(err) {
			return false, nil
		}
		return false, err
	}
	v.seen = now
	v.report(d, now)
	if d.State == agentstatus.StateEnded {
		if v.isOver(ctx, d, now) {
			return true, nil
		}
	} else {
		v.ended = time.Time{}
		if err := v.checkAgent(ctx, d, now); err != nil {
			return false, err
		}
	}
	if err := v.blocked(ctx, d); err != nil {
		return false, err
	}
	if v.isLate(d, now) {
		return false, ErrLimit
	}
	return false, nil
}

// blocked returns a *BlockedError when a task that this task depends on has failed for good.
func (v *resultWatch) blocked(ctx context.Context, d agentstatus.Detail) error {
	if d.State != agentstatus.StateHeld || d.Hold == nil || d.Hold.Reason != protocol.HoldBlocked || d.Request == nil {
		return nil
	}
	for _, id := range d.Request.Coordination.After {
		before, err := v.Other(ctx, id)
		if err != nil || before.State != agentstatus.StateEnded || !before.Final || Succeeded(before) {
			continue
		}
		if before.Cancelled || before.Buried || v.Decided(ctx, before) {
			return &BlockedError{before}
		}
	}
	return nil
}

// patienceWith is how long an error is tolerated. An ambiguous task name does not resolve itself, so it fails at once.
func (v *resultWatch) patienceWith(err error) time.Duration {
	var ambiguous *agentstatus.AmbiguousError
	switch {
	case errors.As(err, &ambiguous), errors.Is(err, agentstatus.ErrNotInitialized):
		return 0
	case v.seen.IsZero():
		return 100 * time.Millisecond
	}
	return tolerance
}

// isOver reports whether the result is final.
func (v *resultWatch) isOver(ctx context.Context, d agentstatus.Detail, now time.Time) bool {
	if v.ended.IsZero() {
		v.ended = now
	}
	if Succeeded(d) || d.Cancelled || d.Buried {
		return true
	}
	// A client's own `deferred` is not an end, and a recorded retry is about to remove the result. Both count as the
	// end only if settle has passed and Decided confirms that nothing will retry.
	last := d.Final && (d.Result == nil || d.Result.Status != "deferred")
	late := now.Sub(v.ended) >= decideTime
	return last && late || (last || late) && v.Decided(ctx, d)
}

// Succeeded reports whether the task ended as it should.
func Succeeded(d agentstatus.Detail) bool { return d.Result != nil && d.Result.Status == "completed" }

// isLate reports whether the wait has reached its limit.
func (v *resultWatch) isLate(d agentstatus.Detail, now time.Time) bool {
	if v.Limit > 0 {
		return now.Sub(v.begun) >= v.Limit
	}
	return d.State != agentstatus.StateHeld && d.State != agentstatus.StateEnded && now.Sub(v.since) >= Patience(d.Request)
}

// checkAgent warns once when the task's agent cannot do the task. If the agent reports that it is in error, enquire
// returns an *AgentError.
func (v *resultWatch) checkAgent(ctx context.Context, d agentstatus.Detail, now time.Time) error {
	if !v.asked.IsZero() && now.Sub(v.asked) < agentInterval {
		return nil
	}
	v.asked = now
	text, inError := v.Trouble(ctx, d)
	if inError {
		return &AgentError{text}
	}
	if text != "" && !v.warned {
		v.warned = true
		v.Say(News{Text: text, Warning: true, Detail: d, Since: v.since, Now: now})
	}
	return nil
}

// report reports what has changed, a line for each change.
func (v *resultWatch) report(d agentstatus.Detail, now time.Time) {
	phase := phaseOf(d)
	news := failedRuns(v.last, d)
	if phase != v.phase {
		v.since, v.phase = now, phase
		if d.State != agentstatus.StateEnded {
			news = append(news, Standing(d)+due(d, now)+howToStart(d))
		}
	}
	progress := progressed(v.last, d)
	v.last = d
	for _, text := range news {
		v.Say(News{Text: text, Detail: d, Since: v.since, Now: now})
	}
	if progress != "" || len(news) == 0 {
		v.Say(News{Text: progress, Progress: true, Detail: d, Since: v.since, Now: now})
	}
}

// phaseOf distinguishes the phases of a task's life; a new phase restarts the run's timeout.
func phaseOf(d agentstatus.Detail) string {
	phase := fmt.Sprintf("%s %d %v", d.State, len(d.Attempts), d.Abandoned)
	if d.State == agentstatus.StateHeld && d.Hold != nil {
		phase += d.Hold.Reason
	}
	return phase
}

// failedRuns describes the runs that were taken back since the last scan.
func failedRuns(was, is agentstatus.Detail) (news []string) {
	for _, k := range is.Attempts[min(len(was.Attempts), len(is.Attempts)):] {
		verb := "failed: "
		if k.Action == protocol.ActionDefer {
			verb = "was put off: "
		}
		news = append(news, fmt.Sprintf("attempt %d %s%s", k.N, verb, terminal.Clean(k.Code)))
	}
	return news
}

// due says when the next run is due, if the task waits for one.
func due(d agentstatus.Detail, now time.Time) string {
	if d.State != agentstatus.StateHeld || d.Due.IsZero() {
		return ""
	}
	return ", due in " + Span(d.Due.Sub(now))
}

// howToStart names the command that starts a task although the machine or its agent is full.
func howToStart(d agentstatus.Detail) string {
	if d.State != agentstatus.StateHeld || d.Hold == nil || d.Hold.Reason != protocol.HoldCapacity {
		return ""
	}
	return "; to start it now: steward release " + d.ID
}

func progressed(was, is agentstatus.Detail) string {
	p := is.Progress
	if is.State != agentstatus.StateRunning || p == nil {
		return ""
	}
	if o := was.Progress; o != nil && was.State == agentstatus.StateRunning && o.Percent == p.Percent && o.Step == p.Step && o.Done == p.Done && o.Total == p.Total {
		return ""
	}
	return joined("  ", percent(p), steps(p), terminal.Clean(p.Step))
}

// Standing describes a task's state in a few words.
func Standing(d agentstatus.Detail) string {
	who := "its agent"
	if d.Request != nil && d.Request.Target != "" {
		who = terminal.Clean(d.Request.Target)
	}
	switch d.State {
	case agentstatus.StateHeld:
		return held(d)
	case agentstatus.StateRunning:
		return running(d, who)
	case agentstatus.StateEnded:
		return ended(d)
	}
	if d.Request == nil {
		return "its request cannot be read, so no agent can take it; steward check FILE says why"
	}
	return "waits for " + who + " to take it"
}

func held(d agentstatus.Detail) string {
	why := terminal.Clean(d.HoldWhy)
	switch {
	case d.Hold != nil && d.Hold.Reason == protocol.HoldRetry:
		return joined(": ", "waits for its next attempt", why)
	case d.Hold != nil && why == "":
		why = terminal.Clean(d.Hold.Reason)
	}
	return joined(": ", "held", why)
}

func running(d agentstatus.Detail, who string) string {
	text := who + " works on it"
	if k := d.Claim; k != nil {
		if k.Agent != "" {
			text = terminal.Clean(k.Agent) + " works on it"
		}
		if k.Attempt > 1 {
			text += fmt.Sprintf(", attempt %d", k.Attempt)
		}
		if d.Abandoned {
			text = fmt.Sprintf("process %d of %s worked on it and is gone; a running steward or the next worker concludes the task", k.Worker.PID, terminal.Clean(k.Agent))
		}
	}
	return text
}

func ended(d agentstatus.Detail) string {
	switch {
	case d.Cancelled && !Succeeded(d) && d.CancelWhy != "":
		return "cancelled (" + terminal.Clean(d.CancelWhy) + ")"
	case d.Cancelled && !Succeeded(d):
		return "cancelled"
	case d.Result == nil:
		return "ended"
	case d.Buried:
		return terminal.Clean(d.Result.Status) + ", and given up"
	}
	return terminal.Clean(d.Result.Status)
}

// joined joins the parts that are not empty.
func joined(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}
