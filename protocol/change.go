package protocol

import "time"

// Verb is what a Change does.
type Verb string

// The verbs. An adapter supports some of them and returns ErrUnsupported for the rest.
const (
	VerbHold     Verb = "hold"     // keep a task from its agent, with a notice
	VerbRelease  Verb = "release"  // make a held task visible again
	VerbRenew    Verb = "renew"    // extend the lease of a hold
	VerbRetry    Verb = "retry"    // move the result away and run the task again at Until
	VerbBury     Verb = "bury"     // record a dead letter
	VerbConclude Verb = "conclude" // write the result that a lost agent cannot write
	VerbCancel   Verb = "cancel"   // end a task, or steward's retry of it, for good
	VerbFile     Verb = "file"     // record a late second result
	VerbRecord   Verb = "record"   // record the judged result; for a request: archive that record
	VerbMark     Verb = "mark"     // write an agent's state into the shared registry
	VerbLog      Verb = "log"      // append an event to the protocol's own log
	VerbUnlock   Verb = "unlock"   // release a lock whose holder is gone
	VerbRequeue  Verb = "requeue"  // put work back where agents find it, with one more attempt counted
	VerbReap     Verb = "reap"     // end processes that outlived their leader (Status: the signal)
	VerbPause    Verb = "pause"    // hold an agent on the operator's request (ID names the agent)
	VerbResume   Verb = "resume"   // end such a hold on an agent
	VerbAnswer   Verb = "answer"   // write the operator's decision where the agent that asked reads it (Answer)
)

// Reason is why a Change is made, or why a task or an agent is in its state: a closed set used by log, metrics,
// journal, lists and explain. See docs/decisions.md, "Policies return causes, not sentences".
type Reason string

// The reasons.
const (
	ReasonCapacity   Reason = "capacity"   // the machine or the agent is too full
	ReasonRoom       Reason = "room"       // there is room again
	ReasonDue        Reason = "due"        // the due time has come
	ReasonLease      Reason = "lease"      // the lease must be renewed
	ReasonRule       Reason = "rule"       // a retry rule applies
	ReasonDeferred   Reason = "deferred"   // the client itself deferred the task
	ReasonExhausted  Reason = "exhausted"  // no attempt is left
	ReasonLost       Reason = "lost"       // its agent is gone
	ReasonSuperseded Reason = "superseded" // a newer request asks for the same
	ReasonFinished   Reason = "finished"   // a result arrived in the meantime
	ReasonLate       Reason = "late"       // a result arrived after another one was accepted
	ReasonSilent     Reason = "silent"     // no sign of life
	ReasonGone       Reason = "gone"       // the process is proved to be gone
	ReasonError      Reason = "error"      // the agent says that it is in error
	ReasonBeats      Reason = "beats"      // the agent shows signs of life again
	ReasonSeen       Reason = "seen"       // the event is not in the shared log yet
	ReasonBlocked    Reason = "blocked"    // it must wait regardless of the load
	ReasonOperator   Reason = "operator"   // the operator asked for it
	ReasonStopping   Reason = "stopping"   // steward stops, so all holds end
	ReasonExpired    Reason = "expired"    // it expired, and its holder shows no sign of life
	ReasonOrphaned   Reason = "orphaned"   // its leader is gone
	ReasonViolation  Reason = "violation"  // its worker left its workspace
	ReasonRepair     Reason = "repair"     // a crash left a change half done
)

// Reasons that only verdicts on tasks use.
const (
	ReasonUntaken    Reason = "untaken"     // no agent has started it yet
	ReasonInFlight   Reason = "in_flight"   // its agent is working on it
	ReasonOverdue    Reason = "overdue"     // its agent is working on it past its timeout
	ReasonAwaits     Reason = "awaits"      // a person or another role must act first
	ReasonTooLate    Reason = "too_late"    // its agent may have read it before the hold
	ReasonBusy       Reason = "busy"        // its project is being changed
	ReasonRetry      Reason = "retry"       // its next attempt is not due yet
	ReasonBudget     Reason = "budget"      // the project's retry budget for this hour is used up
	ReasonResumed    Reason = "resumed"     // overdue retries are issued one by one after a sleep of the machine
	ReasonStillNamed Reason = "still_named" // its agent still names it after its timeout
	ReasonUnreadable Reason = "unreadable"  // a record of it cannot be read at the moment
	ReasonCompleted  Reason = "completed"   // its result says so
	ReasonFailed     Reason = "failed"      // its result says so, and no rule retries it
	ReasonCancelled  Reason = "cancelled"   // it was cancelled
)

// Change is one modification of a project's files. It is flat, printable and encodes as JSON as it is.
type Change struct {
	Verb    Verb    `json:"verb"`
	Subject Subject `json:"subject"`
	Reason  Reason  `json:"reason"`
	Why     string  `json:"why"` // one sentence for the operator
	Judged
	// Until is when a held task is due; ReleaseBy is the lease of a hold.
	Until     time.Time `json:"until,omitzero"`
	ReleaseBy time.Time `json:"release_by,omitzero"`
	// Hold is the notice's reason (Hold*) for VerbHold, and for VerbRetry's wait.
	Hold string `json:"hold,omitempty"`
	// NoHold asks a VerbRetry to write only the schedule until the task is due: no hold remains when steward exits.
	NoHold bool `json:"no_hold,omitempty"`
	Entry
	// Agent is the agent concerned. Status is the registry's word for VerbMark, or the signal to the
	// Processes.
	// Processes are the processes that VerbReap, or VerbConclude after a Violation, may end.
	Agent     string     `json:"agent,omitempty"`
	Status    string     `json:"status,omitempty"`
	Processes []Identity `json:"processes,omitempty"`
	// Gate says which resource was too full, for a VerbHold by capacity.
	Gate *Gate `json:"gate,omitempty"`
	// Answer is the content of a VerbAnswer.
	Answer *Answer `json:"answer,omitempty"`
	// Cause is what a policy orders the Change for: Why is its sentence.
	Cause Cause `json:"-"`
}

// Judged is what the decision for a Change rests on. The adapter compares it with the files before it writes.
type Judged struct {
	Ref Ref `json:"ref,omitzero"`
	// Asked is the request whose result a VerbRecord or a VerbBury is about, and Created its creation time: the next
	// request may have taken the same id since.
	Asked   Ref       `json:"asked,omitzero"`
	Created time.Time `json:"created,omitzero"`
	// Seen is the last sign of life of the agent of a VerbMark; zero: never.
	Seen time.Time `json:"seen,omitzero"`
	// Claim is the claim (Task.Claim) whose processes were judged, for VerbConclude and VerbRequeue.
	Claim string `json:"claim,omitempty"`
}

// Entry is what a Change enters into a record or a log.
type Entry struct {
	// Action, Rule, Code and Attempt describe a VerbRetry's record (Attempt: of the result that is moved
	// away); Timeout is the next attempt's.
	Action  string        `json:"action,omitempty"`
	Rule    string        `json:"rule,omitempty"`
	Code    string        `json:"code,omitempty"`
	Attempt int           `json:"attempt,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Twice   bool          `json:"twice,omitempty"`
	// Event is the event type for VerbLog.
	Event string `json:"event,omitempty"`
}

// Answer is an operator's decision about a Question or a task. The subject of its Change says which; the Ref is the
// version that the operator saw. If that version has changed, or the question is already settled otherwise, the Change
// returns ErrConflict. An answer with the same Key is written only once.
type Answer struct {
	Key    string    `json:"key"`    // of the answered incident
	Option string    `json:"option"` // its id; "" for free text
	Label  string    `json:"label"`  // the option verbatim as the agent wrote it, or the operator's text
	Why    string    `json:"why,omitempty"`
	By     string    `json:"by"` // the operator's name
	At     time.Time `json:"at"`
	// Stop tells the agent to end its task instead of continuing; Requirements replace the task's requirements. Only a
	// Question with Steers accepts them.
	Stop         bool     `json:"stop,omitempty"`
	Requirements []string `json:"requirements,omitempty"`
}

// Steers reports whether the answer does more than settle the question.
func (a *Answer) Steers() bool { return a.Stop || len(a.Requirements) > 0 }

// Gate describes a closed gate: the limiting dimension, its usage and the limit.
type Gate struct {
	Dimension string     `json:"dimension"`
	Used      Share      `json:"used"`
	Limit     float64    `json:"limit"`
	Consumers []Consumer `json:"consumers,omitempty"`
}

// Consumer is a process that uses much of the scarce resource.
type Consumer struct {
	PID    int     `json:"pid"`
	Name   string  `json:"name"`
	CPU    float64 `json:"cpu"`    // cores
	Memory uint64  `json:"memory"` // bytes
	Files  int     `json:"files,omitempty"`
	// Root is the agent process whose descendant it is, and Agent that agent's name; 0 and "" for others.
	Root  int    `json:"root,omitempty"`
	Agent string `json:"agent,omitempty"`
}
