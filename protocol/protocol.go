// Package protocol holds the types that all file protocols share: what one project's files said at one moment, and what
// should change in them.
package protocol

import (
	"context"
	"errors"
	"time"
)

// Errors that every adapter returns from Apply.
var (
	// ErrConflict: the files no longer match what the decision was based on. The next scan decides again.
	ErrConflict = errors.New("the files changed since they were judged")
	// ErrUnsupported: this protocol does not support the change.
	ErrUnsupported = errors.New("this protocol does not support the change")
)

// AgentFirst is why a hold was not made: the agent had already taken the task.
const AgentFirst = "the agent had already taken it"

// Adapter implements one file protocol in one project. Calls to one Adapter never overlap.
type Adapter interface {
	// Dirs lists the folders to watch, relative to the project. Folders need not exist yet.
	Dirs() []string
	// Prepare creates the protocol's folders and files for one agent (boot), merging with existing content.
	Prepare(context.Context, Boot) error
	// Observe reports what the files say now. A bad file is a Fault in the Snapshot, never an error of the whole scan.
	Observe(context.Context, ScanOrder) Snapshot
	// Apply carries out one Change. It returns ErrConflict when the files have changed, ErrUnsupported for a verb that
	// the protocol lacks, and nil when the change was already in place.
	Apply(context.Context, Change, time.Time) error
}

// Batcher is an Adapter that carries out many changes of one verb together: it waits for the disk once per step, not
// once per change. The files end up the same as with Apply for each change, also after a crash between any two steps.
type Batcher interface {
	// ApplyAll returns the error of each change. The changes share one verb and have different subjects.
	ApplyAll(context.Context, []Change, time.Time) []error
}

// ScanOrder tells an Adapter what to scan.
type ScanOrder struct {
	Now time.Time
	// Hints are paths (relative to the project) that may have changed. Nil requests a full scan.
	Hints []string
	// Since bounds history: work that ended before it needs no decision any more.
	Since time.Time
}

// Full reports whether a full scan is requested.
func (o ScanOrder) Full() bool { return o.Hints == nil }

// Boot is an agent's request to be set up in a project.
type Boot struct {
	Agent   string
	PID     int      // shown in the registry; 0 leaves it null
	Session string   // the session's id, "" if it has none
	Process Identity // recorded as proof only when the caller vouched for a pid
	Now     time.Time
}

// Snapshot is what one project's files said, in one protocol, at one moment. It is immutable once made.
type Snapshot struct {
	Project  string    `json:"project"`
	Protocol string    `json:"protocol"`
	At       time.Time `json:"at"`
	// Act is whether steward makes changes here now without a person's word: only in ModeAct, and not in a paused project nor
	// while Hindered.
	Act bool `json:"act"`
	Rights
	// Busy is true while changes based on this Snapshot are being carried out: base no further decision on it.
	Busy bool `json:"busy"`
	// Gone: the folder of these files is gone, and may come back.
	Gone bool `json:"gone,omitempty"`
	// Yield says why steward leaves these files alone for now although it may act here (their own orchestrator is at
	// work); "" otherwise.
	Yield     string     `json:"yield,omitempty"`
	Agents    []Agent    `json:"agents"`
	Tasks     []Task     `json:"tasks"`
	Locks     []Lock     `json:"locks"`
	Questions []Question `json:"pleas"`
	Findings  []Finding  `json:"findings"`
	Faults    []Fault    `json:"faults"`
	// Events have happened and are not yet in the log that steward keeps for the protocol.
	Events []Event `json:"events,omitempty"`
	SharedLog
	// Due names the agents for whom something is due besides the tasks that wait for them: an orchestrator that must
	// validate a completion, or hand on to the next agent.
	Due []string `json:"due,omitempty"`
	// Measures are the metrics that the protocol's document defines.
	Measures []Measure `json:"measures,omitempty"`
	// Again is when the adapter wants another scan (a torn file, a late write); zero: none.
	Again time.Time `json:"again,omitzero"`
	// Divided is what Divide found; nil: it was not asked.
	Divided *Division `json:"-"`
}

// SharedLog is what a scan has found out about the log that agents of a protocol share.
type SharedLog struct {
	// LogsCalls: the log takes a line for each incident about a task or an agent. Called lists the incidents that it
	// already names (Change.Code of their VerbLog).
	LogsCalls bool     `json:"logs_calls,omitempty"`
	Called    []string `json:"called,omitempty"`
	// LogSince is the start of the part of the log that was read; zero: the whole log was read.
	LogSince time.Time `json:"log_since,omitzero"`
}

// Name sets project and protocol, and whether steward may change the files, in the Snapshot and everything in it.
func (s *Snapshot) Name(project, protocolName string, act bool) {
	s.Project, s.Protocol, s.Act = project, protocolName, act
	for i := range s.Findings {
		s.Findings[i].Subject.Project, s.Findings[i].Subject.Protocol = project, protocolName
	}
	for i := range s.Events {
		s.Events[i].Subject.Project, s.Events[i].Subject.Protocol = project, protocolName
	}
}

// Rights are what steward may do in a protocol of a project.
type Rights struct {
	// Mode is what it does without a person's word.
	Mode Mode `json:"mode,omitempty"`
	// Hindered says why nothing can be written, not even on a person's order (another steward holds the project); ""
	// otherwise.
	Hindered string `json:"hindered,omitempty"`
}

// Asks reports whether the changes that steward would make here wait for a person's word, and can be made on it.
func (s *Snapshot) Asks() bool { return s.Mode == ModeAsk && s.Hindered == "" && s.Yield == "" }

// Subject builds the Subject of a thing in this Snapshot's project and protocol.
func (s *Snapshot) Subject(kind Kind, id string) Subject {
	return Subject{Project: s.Project, Protocol: s.Protocol, Kind: kind, ID: id}
}

// Agent returns the agent with that name.
func (s *Snapshot) Agent(name string) (*Agent, bool) {
	for i := range s.Agents {
		if s.Agents[i].Name == name {
			return &s.Agents[i], true
		}
	}
	return nil, false
}

// Ref is an opaque reference to a file: a policy passes it back unread, and the adapter compares Sum before it writes.
type Ref struct {
	Path string `json:"path,omitempty"`
	Sum  string `json:"sum,omitempty"`
}

// Identity is a process, never a bare pid: the number, its start token, the boot it runs under, its user. The fields
// mirror the platform's own type, so the two convert into each other.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
	UID   int    `json:"uid"`
}

// Proves reports whether the identity is complete enough to prove anything about a process.
func (id Identity) Proves() bool { return id.PID > 0 && id.Start != 0 && id.Boot != "" }

// Fault is a file that cannot be used in its present state.
type Fault struct {
	Path    string    `json:"path"`
	Problem string    `json:"problem"`
	Hint    string    `json:"hint,omitempty"`
	Since   time.Time `json:"since"`
	// Severity is how serious the fault is if it persists; "" is medium.
	Severity Severity `json:"severity,omitempty"`
}

// HintManyFiles is the advice when a process cannot open more files.
const HintManyFiles = "too many open files: raise ulimit -n"

// ManyFiles reports whether the file could not be read because the process cannot open more files.
func (f Fault) ManyFiles() bool { return f.Hint == HintManyFiles }
