package protocol

import "time"

// Task is one piece of work as its files show it. It holds only what a policy reads.
type Task struct {
	Request
	// Appeared is when its file became visible to agents, by the file system's clock.
	Appeared time.Time `json:"appeared,omitzero"`
	// Visible reports whether agents can discover the task now (its request is open and no result ends it).
	Visible bool `json:"visible"`
	Flight
	Hold    *Hold    `json:"hold,omitempty"`
	Outcome *Outcome `json:"outcome,omitempty"`
	// Steps are the latest results of the task's steps, oldest first.
	Steps []Step `json:"steps,omitempty"`
	Record
	Handling
	// Awaits names what the task waits for that is not up to its agent (a review, an approval); "" if nothing.
	Awaits string `json:"awaits,omitempty"`
	// Block says why the task must wait regardless of the load; "" if nothing blocks it.
	Block string `json:"block,omitempty"`
}

// Request is what its author asked for.
type Request struct {
	ID     string `json:"id"`
	Agent  string `json:"agent"`  // the agent assigned to it
	Source string `json:"source"` // the author
	Type   string `json:"type"`   // 000: request_type
	Title  string `json:"title"`  // a few words for people
	// Priority, Timeout and Throttle are the request's own; an unknown Throttle means the configured threshold.
	Priority Priority      `json:"priority"`
	Timeout  time.Duration `json:"timeout"`
	Throttle Share         `json:"throttle"`
	Created  time.Time     `json:"created,omitzero"`
	// Related are tasks that the request names; Payload fingerprints the request's content.
	Related []string `json:"related,omitempty"`
	Payload string   `json:"payload,omitempty"`
	// Directive is the user's own words behind the request. Silent asks for no speech. Voice says that the user listens, so
	// that progress and results may be spoken too (000: voice_mode_active).
	Directive string `json:"directive,omitempty"`
	Silent    bool   `json:"silent,omitempty"`
	Voice     bool   `json:"voice,omitempty"`
	Blocking  bool   `json:"blocking,omitempty"`
	// Ref is the request's file; an empty Path means a result without a request.
	Ref Ref `json:"ref,omitzero"`
}

// Flight is the evidence that work on a task is in progress, or is over.
type Flight struct {
	// Named says where an agent names the task as its current work ("active_tasks", "progress", …); "" if nowhere.
	Named   string    `json:"named,omitempty"`
	Started time.Time `json:"started,omitzero"`
	// Workers are the processes that hold a claim on the task. While one of them lives, the task is in progress; when
	// all are proved to be gone and there is no result, the task is lost.
	Workers []Identity `json:"workers,omitempty"`
	// Claim fingerprints that claim, so that a VerbConclude can name the claim it judged. "" if none exists.
	Claim string `json:"claim,omitempty"`
	// Progress is what the task reports; At is zero when it reports nothing.
	Progress Progress `json:"progress,omitzero"`
	// Lost is the proof that no process works on a task in flight any more; "" while that is not proved. The proof must
	// hold for a while ([tasks] presume) before steward acts on it.
	Lost string `json:"lost,omitempty"`
	// Violation is nil if none is proved.
	Violation *Violation `json:"violation,omitempty"`
}

// CodeViolation is the Code of the VerbConclude that follows a Violation.
const CodeViolation = "WORKSPACE_VIOLATION"

// Violation is what the worker of a task did outside its workspace, as the adapter proves.
type Violation struct {
	Worker string `json:"worker"`
	Text   string `json:"text"`
	// Processes of the worker are ended before the task is marked as failed; none: it is only marked.
	Processes []Identity `json:"processes,omitempty"`
	// Asked: nothing follows it without a person's word, in no mode.
	Asked bool `json:"asked,omitempty"`
}

// Record is what is on record about a task beside its request and its result.
type Record struct {
	// Attempts are the recorded attempts, oldest first: the directory is the record.
	Attempts []Attempt `json:"takings,omitempty"`
	// Buried: a dead letter is on record. Cancelled: the operator cancelled the task, or steward's retry of it.
	Buried    bool `json:"buried,omitempty"`
	Cancelled bool `json:"cancelled,omitempty"`
	// CancelReason and CancelWhy say who cancelled it: ReasonOperator, or the reason of steward itself.
	CancelReason Reason `json:"cancel_reason,omitempty"`
	CancelWhy    string `json:"cancel_why,omitempty"`
	// Late is a second result that arrived after the first was accepted; it must be filed.
	Late *Ref `json:"late,omitempty"`
	// Reopened: a result is on record, and its file was removed so that the task runs again.
	Reopened bool `json:"reopened,omitempty"`
	// Logged lists the life events that the shared log already shows for the task.
	Logged []string `json:"logged,omitempty"`
}

// Handling is how far a task's protocol leaves the handling of its tasks to steward.
type Handling struct {
	// Foreign: the protocol manages the lifecycle of its work itself. Steward does not defer it for lack of room (only
	// a Block may hold it, while no agent has it), writes no life events for it and leaves it out of the goals of
	// protocol 000. See docs/decisions.md, "Work of the other four protocols is Foreign".
	Foreign bool `json:"foreign,omitempty"`
	// Requeue: if the agent is lost, the task goes back to its place in one step (VerbRequeue) instead of through a
	// result.
	Requeue bool `json:"requeue,omitempty"`
	// Answers: the protocol carries out an operator's decision about the task (VerbAnswer): run it again, or mark it
	// done. Steward then orders no other change.
	Answers bool `json:"answers,omitempty"`
}

// NoTimeout is the Timeout of a task whose protocol sets none: the task is never overdue.
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

// Committed lists the attempts whose result was taken away.
func (t *Task) Committed() []Attempt {
	n := len(t.Attempts)
	if n == 0 || t.Attempts[n-1].Committed {
		return t.Attempts // only the newest can lack its commit
	}
	return t.Attempts[:n-1]
}

// Attempt is the number of the current or next attempt, from 1. Deferrals do not count.
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
	Runs       int       `json:"runs"` // number of results of this step: a FIX loop runs it again
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

// Hold says that a task is kept from its agent, why, and for how long at most.
type Hold struct {
	Reason    string    `json:"reason"`
	NotBefore time.Time `json:"not_before,omitzero"`
	// ReleaseBy is the end of the lease: after it, any process may release the task.
	ReleaseBy time.Time `json:"release_by,omitzero"`
	Since     time.Time `json:"since,omitzero"`
	// Half: the notice exists but the task is visible, because of a crash between the two steps.
	Half bool `json:"half,omitempty"`
}

// Reasons of a Hold, as written in the notice.
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
	// Took is the attempt's duration as the result states it; 0: not stated.
	Took time.Duration `json:"took,omitempty"`
	// ForHuman are next actions that need a human decision; Next are the others.
	ForHuman []string `json:"for_human,omitempty"`
	Next     []string `json:"next,omitempty"`
	// Ours: steward wrote it because the agent could not. Archived: a client has already moved it away.
	Ours     bool `json:"ours,omitempty"`
	Archived bool `json:"archived,omitempty"`
	// Twice: the attempt that it ends may still be running.
	Twice bool `json:"twice,omitempty"`
	// Unrecorded: the protocol keeps the first terminal result on record, and this one is not recorded yet. Sealed:
	// such a record exists but is invalid, so the task is not retried. Unread: such a record cannot be read at the
	// moment.
	Unrecorded bool `json:"unrecorded,omitempty"`
	Sealed     bool `json:"sealed,omitempty"`
	Unread     bool `json:"unread,omitempty"`
	Ref        Ref  `json:"ref"`
}

// Succeeded reports whether the attempt succeeded.
func (o *Outcome) Succeeded() bool { return o.Status == "completed" }

// Actions of an Attempt, and of the retry rules.
const (
	ActionRetry = "retry"
	ActionDefer = "defer"
	ActionStop  = "stop"
)

// Attempt is one entry of a task's record: a result that steward moved away so that the task can run again.
type Attempt struct {
	N      int       `json:"n"`
	Action string    `json:"action"` // ActionRetry or ActionDefer
	Rule   string    `json:"rule"`
	Code   string    `json:"code"`
	Agent  string    `json:"agent,omitempty"`
	Due    time.Time `json:"due"`
	// Committed: the result itself is filed; before that only the schedule exists (crash, or `--once`).
	Committed bool `json:"committed"`
	// Unread: the record exists but cannot be read at the moment. A record that can never be read has no Rule.
	Unread bool `json:"unread,omitempty"`
	// Ours: steward wrote the filed result. Twice: the attempt may run in parallel with an older one.
	Ours  bool `json:"ours,omitempty"`
	Twice bool `json:"twice,omitempty"`
}
