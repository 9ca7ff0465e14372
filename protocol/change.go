package protocol

import "time"

// Verb is what a Change does.
type Verb string

// The verbs. An adapter supports some of them and returns ErrUnsupported for the rest.
const (
	VerbHold     Verb = "hold"     // keep a task from its agent, with a notice
	VerbRelease  Verb = "release"  // let a held task be seen again
	VerbRenew    Verb = "renew"    // prolong the lease of a hold
	VerbRetry    Verb = "retry"    // take a result away and run the task again at Until
	VerbBury     Verb = "bury"     // put a dead letter on record
	VerbConclude Verb = "conclude" // write the result that a lost agent cannot write
	VerbCancel   Verb = "cancel"   // end a task, or our retry of it, for good
	VerbFile     Verb = "file"     // put a late second result on record
	VerbRecord   Verb = "record"   // keep the result that was judged; about a request: put that record away
	VerbMark     Verb = "mark"     // write an agent's state into the shared registry
	VerbLog      Verb = "log"      // append an event to the protocol's own log
	VerbUnlock   Verb = "unlock"   // release a lock that has outlived its holder
	VerbRequeue  Verb = "requeue"  // put work back where agents find it, one attempt on
	VerbReap     Verb = "reap"     // end the processes that outlived their leader (Status: the signal)
	VerbPause    Verb = "pause"    // hold an agent by the operator's wish (ID names the agent)
	VerbResume   Verb = "resume"   // end such a hold
	VerbAnswer   Verb = "answer"   // write a human's decision where the agent that asked reads it (Answer)
)

// Reason is why a Change is made, or why a task or an agent is as it is: a closed set that feeds log, metrics, journal, lists
// and explain.
type Reason string

// The reasons.
const (
	ReasonCapacity   Reason = "capacity"   // the machine or the agent is too full
	ReasonRoom       Reason = "room"       // there is room again
	ReasonDue        Reason = "due"        // its time has come
	ReasonLease      Reason = "lease"      // a lease must be renewed
	ReasonRule       Reason = "rule"       // a retry rule says so
	ReasonDeferred   Reason = "deferred"   // the client itself deferred the task
	ReasonExhausted  Reason = "exhausted"  // no attempt is left
	ReasonLost       Reason = "lost"       // its agent is gone
	ReasonSuperseded Reason = "superseded" // a newer request asks for the same
	ReasonFinished   Reason = "finished"   // a result arrived meanwhile
	ReasonLate       Reason = "late"       // a result arrived after another one stood
	ReasonSilent     Reason = "silent"     // no sign of life
	ReasonGone       Reason = "gone"       // the process is proved to be gone
	ReasonError      Reason = "error"      // the agent says that it is in error
	ReasonBeats      Reason = "beats"      // the agent gives signs of life again
	ReasonSeen       Reason = "seen"       // it happened, and the shared log does not show it yet
	ReasonBlocked    Reason = "blocked"    // it must wait whatever the load
	ReasonOperator   Reason = "operator"   // a human asked for it
	ReasonStopping   Reason = "stopping"   // steward stops, so nothing stays held
	ReasonExpired    Reason = "expired"    // its time is over and its holder shows no life
	ReasonOrphaned   Reason = "orphaned"   // its leader is gone
	ReasonRepair     Reason = "repair"     // a crash left a half-done change
)

// The reasons that only a verdict on a task has.
const (
	ReasonUntaken    Reason = "untaken"     // no agent has taken it yet
	ReasonInFlight   Reason = "in_flight"   // its agent works on it
	ReasonOverdue    Reason = "overdue"     // its agent works on it beyond its timeout
	ReasonAwaits     Reason = "awaits"      // a person or another role must act first
	ReasonTooLate    Reason = "too_late"    // its agent may have read it before it could be held
	ReasonBusy       Reason = "busy"        // its project is being changed
	ReasonRetry      Reason = "retry"       // its next attempt is not due yet
	ReasonBudget     Reason = "budget"      // the project's retries of this hour are used up
	ReasonResumed    Reason = "resumed"     // overdue retries are issued one by one after a sleep of the machine
	ReasonStillNamed Reason = "still_named" // its agent still names it after its timeout
	ReasonUnreadable Reason = "unreadable"  // a record of it cannot be read for the moment
	ReasonCompleted  Reason = "completed"   // its result says so
	ReasonFailed     Reason = "failed"      // its result says so, and no rule retries it
	ReasonCancelled  Reason = "cancelled"   // it was cancelled
)

// Change is one thing to do to a project's files. It is flat, printable and JSON-able as it is.
type Change struct {
	Verb    Verb    `json:"verb"`
	Subject Subject `json:"subject"`
	Reason  Reason  `json:"reason"`
	Why     string  `json:"why"` // one sentence for people
	Ref     Ref     `json:"ref,omitzero"`
	// Asked is the request whose result a VerbRecord or a VerbBury is about, and Created when it was created: as they were
	// judged, for the next request may lie under the same id by now.
	Asked   Ref       `json:"asked,omitzero"`
	Created time.Time `json:"created,omitzero"`
	// Until is when a held task is due; ReleaseBy is the lease of a hold.
	Until time.Time `json:"until,omitzero"`
	// Seen is when the agent of a VerbMark was last heard of; zero: never.
	Seen      time.Time `json:"seen,omitzero"`
	ReleaseBy time.Time `json:"release_by,omitzero"`
	// Hold is the notice's reason (Hold*) for VerbHold, and for VerbRetry's wait.
	Hold string `json:"hold,omitempty"`
	// Action, Rule, Code and Attempt describe a VerbRetry's entry in the ledger (Attempt: of the result that
	// is taken); Timeout is the next attempt's.
	Action  string        `json:"action,omitempty"`
	Rule    string        `json:"rule,omitempty"`
	Code    string        `json:"code,omitempty"`
	Attempt int           `json:"attempt,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Twice   bool          `json:"twice,omitempty"`
	// Claim is the one (Task.Claim) whose processes were judged, for VerbConclude.
	Claim string `json:"claim,omitempty"`
	// NoHold asks a VerbRetry to write only the schedule until it is due: nothing stays held when steward exits.
	NoHold bool `json:"no_hold,omitempty"`
	// Agent is whom it concerns; Status the registry's word for VerbMark, or SIGTERM or SIGKILL for VerbReap; Event the
	// event type for VerbLog; Processes whom VerbReap may end.
	Agent     string     `json:"agent,omitempty"`
	Status    string     `json:"status,omitempty"`
	Event     string     `json:"event,omitempty"`
	Processes []Identity `json:"processes,omitempty"`
	// Gate says what was too full, for a VerbHold by capacity.
	Gate *Gate `json:"gate,omitempty"`
	// Answer is what a VerbAnswer carries.
	Answer *Answer `json:"answer,omitempty"`
}

// Answer is a human's decision about a Question or a task. The subject of its Change says which, and the Ref what the human
// saw: if that has changed, or somebody else has settled it, the Change comes back with ErrConflict. An answer that
// stands there already, with the same Key, is written only once.
type Answer struct {
	Key    string    `json:"key"`    // of the incident that was answered
	Option string    `json:"option"` // its id; "" for words of the human's own
	Label  string    `json:"label"`  // the option verbatim as the agent wrote it, or the human's words
	Why    string    `json:"why,omitempty"`
	By     string    `json:"by"` // the human's name
	At     time.Time `json:"at"`
	// Stop tells the agent to end its task rather than to go on; Requirements replace what was asked of it. Only a Question
	// that Steers takes them.
	Stop         bool     `json:"stop,omitempty"`
	Requirements []string `json:"requirements,omitempty"`
}

// Steers reports whether the answer does more than settle the question.
func (a *Answer) Steers() bool { return a.Stop || len(a.Requirements) > 0 }

// Gate describes a closed gate: which dimension binds, how full it is, what would be allowed.
type Gate struct {
	Dimension string     `json:"dimension"`
	Used      Share      `json:"used"`
	Limit     float64    `json:"limit"`
	Consumers []Consumer `json:"consumers,omitempty"`
}

// Consumer is a process that uses much of what is scarce.
type Consumer struct {
	PID    int     `json:"pid"`
	Name   string  `json:"name"`
	CPU    float64 `json:"cpu"`    // cores
	Memory uint64  `json:"memory"` // bytes
	Files  int     `json:"files,omitempty"`
	// Root is the process of an agent below which it was found, and Agent that agent's name; 0 and "" for others.
	Root  int    `json:"root,omitempty"`
	Agent string `json:"agent,omitempty"`
}
