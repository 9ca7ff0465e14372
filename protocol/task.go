package protocol

import "time"

// Task is one piece of work as its files show it. It holds what a policy reads, and no more.
type Task struct {
	ID     string `json:"id"`
	Agent  string `json:"agent"`  // who is to do it
	Source string `json:"source"` // who asked for it
	Type   string `json:"type"`   // 000: request_type
	Title  string `json:"title"`  // a few words for people
	// Priority, Timeout and Throttle are the request's own; Throttle unknown means the configured threshold.
	Priority Priority      `json:"priority"`
	Timeout  time.Duration `json:"timeout"`
	Throttle Share         `json:"throttle"`
	Created  time.Time     `json:"created,omitzero"`
	// Appeared is when its file came to be where agents see it, by the file system's clock.
	Appeared time.Time `json:"appeared,omitzero"`
	// Visible reports whether agents can discover it now (its request lies open and no result ends it).
	Visible bool `json:"visible"`
	// Named says what proves that an agent works on it ("active_tasks", "progress", …); "" when nothing does.
	Named   string    `json:"named,omitempty"`
	Started time.Time `json:"started,omitzero"`
	// Workers are the processes that have it in hand by a claim of ours: while one of them lives, it is worked on; when all
	// are proved to be gone and there is no result, it is lost.
	Workers []Identity `json:"workers,omitempty"`
	// Claim fingerprints that claim: whoever concludes the task means this one. "" when there is none.
	Claim string `json:"claim,omitempty"`
	// Progress is what it reports; zero At when it reports nothing.
	Progress Progress `json:"progress,omitzero"`
	Hold     *Hold    `json:"hold,omitempty"`
	Outcome  *Outcome `json:"outcome,omitempty"`
	// Steps are the newest results of the steps of its work, oldest first.
	Steps []Step `json:"steps,omitempty"`
	// Takings are the attempts on record, oldest first: the directory is the ledger.
	Attempts []Attempt `json:"takings,omitempty"`
	// Buried: a dead letter lies on record. Cancelled: the operator ended it, or our retry of it.
	Buried    bool `json:"buried,omitempty"`
	Cancelled bool `json:"cancelled,omitempty"`
	// CancelReason and CancelWhy say who cancelled it: ReasonOperator, or the reason of steward itself.
	CancelReason Reason `json:"cancel_reason,omitempty"`
	CancelWhy    string `json:"cancel_why,omitempty"`
	// Late is a second result for a task whose first one stands; it is to be filed.
	Late *Ref `json:"late,omitempty"`
	// Reopened: a result stands on record, and somebody removed its file so that the task runs again.
	Reopened bool `json:"reopened,omitempty"`
	// Foreign: its protocol manages the life of its work by itself: no deferral for want of room (only a Block may hold
	// it, as long as nobody has it in hand), no life events of ours, no place in the goals of protocol 000.
	Foreign bool `json:"foreign,omitempty"`
	// Requeue: work whose agent is lost goes back to its place in one step (VerbRequeue) instead of through a result.
	Requeue bool `json:"requeue,omitempty"`
	// Answers: its protocol carries out what a human decides about the work (VerbAnswer about a task): another run, or that
	// it is done. Nothing else is ordered then.
	Answers bool `json:"answers,omitempty"`
	// Lost says what proves that nobody works any more on what is in flight; "" while that is not proved. Such a
	// proof must stand for a while ([tasks] presume) before anything follows.
	Lost string `json:"lost,omitempty"`
	// Awaits says what work waits for that is out of its agent's hands (a review, an approval); "" when nothing.
	Awaits string `json:"awaits,omitempty"`
	// Block says why the task must wait whatever the load; "" when nothing blocks it.
	Block string `json:"block,omitempty"`
	// Related are tasks that the request names; Payload fingerprints what it asks for.
	Related []string `json:"related,omitempty"`
	Payload string   `json:"payload,omitempty"`
	// Directive is the human's own words behind the request. Silent asks for no speech.
	Directive string `json:"directive,omitempty"`
	Silent    bool   `json:"silent,omitempty"`
	Blocking  bool   `json:"blocking,omitempty"`
	// Logged lists the life events that the shared log already shows for this task.
	Logged []string `json:"logged,omitempty"`
	// Ref is the request; an empty Path means that a result lies there without any request.
	Ref Ref `json:"ref,omitzero"`
}

// NoTimeout is the Timeout of a task whose protocol sets none: it is never over its time.
const NoTimeout time.Duration = -1

// HasLogged reports whether the shared log shows that event for the task.
func (t *Task) HasLogged(event string) bool {
	for _, e := range t.Logged {
		if e == event {
			return true
		}
	}
	return false
}

// Count counts the committed attempts that match.
func (t *Task) Count(match func(Attempt) bool) int {
	n := 0
	for _, k := range t.Attempts {
		if k.Committed && match(k) {
			n++
		}
	}
	return n
}

// Attempt is the number of the attempt that is under way or comes next, from 1. Deferrals do not count.
func (t *Task) Attempt() int {
	return 1 + t.Count(func(k Attempt) bool { return k.Action == ActionRetry })
}

// Step is what one step of a task's work reports (protocol 002, Result File Format).
type Step struct {
	Name       string    `json:"name"`
	Gate       string    `json:"gate,omitempty"`
	Status     string    `json:"status,omitempty"`
	ExitCode   *int64    `json:"exit_code,omitempty"`
	Seconds    float64   `json:"duration_seconds,omitempty"`
	Iterations int64     `json:"iterations,omitempty"`
	Runs       int       `json:"runs"` // results of this step: a FIX loop runs it again
	PR         string    `json:"pr_url,omitempty"`
	Report     string    `json:"report,omitempty"` // relative to the project, as Logs is
	Logs       string    `json:"logs,omitempty"`
	At         time.Time `json:"at,omitzero"`
}

// Progress is a task's own report (000: Progress File Schema).
type Progress struct {
	Percent float64   `json:"percent"`
	Step    string    `json:"step,omitempty"`
	At      time.Time `json:"at,omitzero"`
	// Every is the interval that the request asked for; 0 when it asked for no updates.
	Every time.Duration `json:"every,omitempty"`
}

// Hold says that a task is kept from its agent, why, and until when at the longest.
type Hold struct {
	Reason    string    `json:"reason"`
	NotBefore time.Time `json:"not_before,omitzero"`
	// ReleaseBy is the lease: past it, anybody may free the task.
	ReleaseBy time.Time `json:"release_by,omitzero"`
	Since     time.Time `json:"since,omitzero"`
	// Half: the notice is there but the task is visible; a crash between two steps left it so.
	Half bool `json:"half,omitempty"`
}

// Reasons of a Hold, as they stand in the notice.
const (
	HoldCapacity = "capacity_exceeded"
	HoldRetry    = "retry"
	HoldBlocked  = "blocked"
)

// Failure is one error of a result.
type Failure struct {
	Code     string `json:"code"`
	Message  string `json:"message"`
	Severity string `json:"severity"` // 000: fatal error warning; open
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
}

// Outcome is how an attempt ended, as its result says.
type Outcome struct {
	Status     string        `json:"status"` // 000: completed failed partial timeout blocked deferred; open
	At         time.Time     `json:"at,omitzero"`
	Appeared   time.Time     `json:"appeared,omitzero"`
	Agent      string        `json:"agent,omitempty"`
	Summary    string        `json:"summary,omitempty"`
	Failures   []Failure     `json:"failures,omitempty"`
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	// Took is how long the attempt took by its own words; 0: it does not say.
	Took time.Duration `json:"took,omitempty"`
	// ForHuman are next actions that need a human decision; Next are the others.
	ForHuman []string `json:"for_human,omitempty"`
	Next     []string `json:"next,omitempty"`
	// Ours: steward wrote it because the agent could not. Archived: a client's loop has moved it away already.
	Ours     bool `json:"ours,omitempty"`
	Archived bool `json:"archived,omitempty"`
	// Twice: the attempt that it ends may still run somewhere.
	Twice bool `json:"twice,omitempty"`
	// Unrecorded: the protocol keeps the first terminal result on record, and this one is not there yet. Sealed: such a
	// record exists and cannot be read, so the task is not retried. Unread: such a record cannot be read for the moment.
	Unrecorded bool `json:"unrecorded,omitempty"`
	Sealed     bool `json:"sealed,omitempty"`
	Unread     bool `json:"unread,omitempty"`
	Ref        Ref  `json:"ref"`
}

// Succeeded reports whether the attempt succeeded.
func (o *Outcome) Succeeded() bool { return o.Status == "completed" }

// Actions of a Attempt, and of the retry rules.
const (
	ActionRetry = "retry"
	ActionDefer = "defer"
	ActionStop  = "stop"
)

// Attempt is one entry of a task's ledger: a result that steward took away so that the task can run again.
type Attempt struct {
	N      int       `json:"n"`
	Action string    `json:"action"` // ActionRetry or ActionDefer
	Rule   string    `json:"rule"`
	Code   string    `json:"code"`
	Agent  string    `json:"agent,omitempty"`
	Due    time.Time `json:"due"`
	// Committed: the result itself is filed; before that the schedule stands alone (crash, or `--once`).
	Committed bool `json:"committed"`
	// Unread: the record is there, and what it says cannot be read for the moment. One that can never be read has no Rule.
	Unread bool `json:"unread,omitempty"`
	// Ours: the filed result was steward's own. Twice: the attempt may run beside an older one.
	Ours  bool `json:"ours,omitempty"`
	Twice bool `json:"twice,omitempty"`
}
