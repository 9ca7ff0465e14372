package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Errors that a Participant returns, wrapped.
var (
	// ErrNoTask: the protocol's files show no such task.
	ErrNoTask = errors.New("no such task")
	// ErrTaken: another agent has the task.
	ErrTaken = errors.New("another agent has the task")
	// ErrEnded: the task has already ended.
	ErrEnded = errors.New("the task has already ended")
	// ErrAbsent: the project has no folder of this protocol. `steward boot` creates it.
	ErrAbsent = errors.New("the project does not speak this protocol yet")
)

// InvalidError says why a message was not written. It lists every problem.
type InvalidError struct{ Problems []string }

func (e *InvalidError) Error() string { return strings.Join(e.Problems, "; ") }

// Participant acts in one protocol of one project, for an agent or for the orchestrator: it sends work, takes it and
// reports on it, with the files that every other client of the protocol understands. It needs no daemon. Each message is
// checked against the protocol's document first; when a check fails, nothing is written and the error is an
// *InvalidError. An action that the protocol does not have returns ErrUnsupported, wrapped in a sentence that says what to
// do instead. Calls to one Participant never overlap. See docs/decisions.md, "Taking part in all protocols cost 10,800 lines".
type Participant interface {
	// Submit sends a piece of work to an agent.
	Submit(context.Context, Order, time.Time) (Receipt, error)
	// Pending lists the work that waits for an agent, the most urgent first; with "" for any agent.
	Pending(ctx context.Context, agent string, now time.Time) ([]Assignment, error)
	// Show returns one task in any state.
	Show(ctx context.Context, id string, now time.Time) (Assignment, error)
	// Accept takes a task for an agent. From then on no other agent gets it.
	Accept(ctx context.Context, id string, a Acceptance, now time.Time) (Receipt, error)
	// Report says how a task goes on, or how it ended.
	Report(ctx context.Context, id string, r Report, now time.Time) (Receipt, error)
	// Join registers an agent's process where the protocol lists its agents, or updates its sign of life. Leave removes
	// it. Both do nothing in a protocol without such a place.
	Join(context.Context, AgentRun, time.Time) error
	Leave(context.Context, AgentRun, time.Time) error
	// Close closes the open files.
	Close()
}

// Orchestrator is a Participant whose protocol assumes an agent that directs the others. Orchestrate does what that agent
// must do now by the document's own rules (validate a completion, hand on to the next role), and nothing that needs
// judgement. It returns what it sent, and nothing when nothing is due. Each step is taken once, also after a crash.
type Orchestrator interface {
	Orchestrate(context.Context, time.Time) ([]Receipt, error)
}

// Order is a piece of work as its author gives it.
type Order struct {
	ID       string // "" makes one
	From, To string // "": as the protocol's document implies
	Type     string // of the message; "": as the document implies for From and To
	Title    string
	Text     string // the instructions
	Priority string
	After    []string // tasks that must be completed first
	// Fields set further keys of the message, by their path with dots ("context.spec"). They override all other values.
	Fields map[string]any
	// Document is a complete message, which replaces all of the above but From and To.
	Document json.RawMessage
}

// Assignment is a task as an agent gets it.
type Assignment struct {
	ID       string    `json:"task_id"`
	Agent    string    `json:"agent"`
	Source   string    `json:"source,omitempty"`
	Type     string    `json:"type,omitempty"`
	Title    string    `json:"title"`
	State    TaskState `json:"state"`
	Priority Priority  `json:"priority"`
	Created  time.Time `json:"created,omitzero"`
	Attempt  int       `json:"attempt"`
	Path     string    `json:"path"` // of its file, absolute
	// Waits says why the task may not be started now (a hold, a block); "" if it may be.
	Waits string `json:"waits,omitempty"`
	// Cancelled: the task was given up, so it ended without being done.
	Cancelled bool `json:"cancelled,omitempty"`
	// Worker is the process that took it; zero if none is recorded.
	Worker Identity `json:"worker,omitzero"`
	// Message is the protocol's own document about the task, unchanged.
	Message json.RawMessage `json:"message,omitempty"`
	// Feedback are later messages that its agent must heed, oldest first: a rejection, the answer to a question.
	Feedback []json.RawMessage `json:"feedback,omitempty"`
}

// Acceptance takes a task.
type Acceptance struct {
	Agent    string
	Worker   Identity // the process that works on it; zero: none is recorded
	Estimate string   // when it will be done: a time or a span of time; "" for none
	// Questions must be answered before the work can go on.
	Questions []string
	Fields    map[string]any
}

// ReportKind is what a Report says.
type ReportKind string

// The kinds of report.
const (
	ReportProgress ReportKind = "progress" // it goes on
	ReportDone     ReportKind = "done"     // it is completed
	ReportFailed   ReportKind = "failed"   // it cannot be completed
	ReportRejected ReportKind = "rejected" // its assignee refuses it, or its author refuses the result
	ReportApproved ReportKind = "approved" // its author accepts the result
	ReportBlocked  ReportKind = "blocked"  // a question must be answered first (Summary, Options)
	ReportCancel   ReportKind = "cancelled"
	ReportReturned ReportKind = "returned" // its agent gives it back, nothing was done
)

// Report is what an agent, or the orchestrator, says about a task.
type Report struct {
	Kind     ReportKind
	Agent    string // who reports; "", of ReportApproved, ReportRejected and ReportCancel: as the protocol's document implies
	To       string // who gets it; "": as the protocol's document implies
	Summary  string
	Percent  float64 // of ReportProgress, 0 to 100
	Created  []string
	Modified []string
	Issues   []string // what is wrong, of ReportFailed and ReportRejected
	Next     []string // suggested next steps
	Options  []string // of ReportBlocked
	Failure  *Failure
	// Fields set further keys of the message, by their path with dots. They override all other values.
	Fields map[string]any
	// Document is the body or the whole of the message, which replaces all of the above but Kind and Agent.
	Document json.RawMessage
}

// Receipt is what an action has written.
type Receipt struct {
	ID    string    `json:"task_id"`
	State TaskState `json:"state"`
	Path  string    `json:"path"` // of the message, absolute
	Note  string    `json:"note,omitempty"`
}

// AgentRun is a process that works as an agent in a project.
type AgentRun struct {
	Agent   string
	Process Identity
	Task    string // that it works on; "" if none
	Session string
}
