// Package protocol holds the nouns that all file protocols share: what one
// project's files said at one moment, and what should change in them.
package protocol

import (
	"context"
	"errors"
	"time"
)

// Errors that every adapter returns from Apply.
var (
	// ErrConflict: the files are no longer what the decision was based on. The next look decides anew.
	ErrConflict = errors.New("the files changed since they were judged")
	// ErrUnsupported: this protocol has no such change.
	ErrUnsupported = errors.New("this protocol does not support the change")
)

// AgentFirst is why a hold was not made: its agent had the task already.
const AgentFirst = "the agent had already taken it"

// Adapter speaks one file protocol in one project. Calls to one Adapter never overlap.
type Adapter interface {
	// Dirs lists the folders to watch, relative to the project. Folders that do not exist yet are fine.
	Dirs() []string
	// Prepare creates the protocol's folders and files for one agent (boot), merging with what is there.
	Prepare(context.Context, Boot) error
	// Observe says what the files say now. A bad file is a Fault in the Snapshot, never an error for the whole.
	Observe(context.Context, Look) Snapshot
	// Apply carries out one Change. It returns ErrConflict when the files moved on, ErrUnsupported for a
	// verb that the protocol lacks, and nil when the change was already in place.
	Apply(context.Context, Change, time.Time) error
}

// Batcher is an Adapter that carries out many changes of one verb together: it waits for the disk once per step, not
// once per change. Each change ends as by Apply, in the same files, and so does a crash between any two steps.
type Batcher interface {
	// ApplyAll gives the error of each change. The changes have one verb and are about different things.
	ApplyAll(context.Context, []Change, time.Time) []error
}

// Look tells an Adapter what to look at.
type Look struct {
	Now time.Time
	// Hints are paths (relative to the project) that may have changed. Nil asks for a full look.
	Hints []string
	// Since bounds history: what ended before it needs no decision any more.
	Since time.Time
}

// Full reports whether everything is to be looked at.
func (l Look) Full() bool { return l.Hints == nil }

// Boot is an agent's request to be set up in a project.
type Boot struct {
	Agent   string
	PID     int      // what the registry shows; 0 leaves it null
	Session string   // the session's id, "" if it has none
	Process Identity // recorded as proof only when the caller vouched for a pid
	Now     time.Time
}

// Snapshot is what one project's files said, in one protocol, at one moment. It is never changed once made.
type Snapshot struct {
	Project  string    `json:"project"`
	Protocol string    `json:"protocol"`
	At       time.Time `json:"at"`
	// Act is false when steward only observes this protocol here: by mode, by pause, or because
	// another steward holds the project.
	Act bool `json:"act"`
	// Busy is true while changes based on this Snapshot are being carried out: decide nothing more on it.
	Busy bool `json:"busy"`
	// Gone: the folder that these files lay in is gone, and may come back.
	Gone bool `json:"gone,omitempty"`
	// Yield says why steward leaves these files to others at this moment although it may act here (their own
	// orchestrator is at work); "" when it need not.
	Yield     string     `json:"yield,omitempty"`
	Agents    []Agent    `json:"agents"`
	Tasks     []Task     `json:"tasks"`
	Locks     []Lock     `json:"locks"`
	Questions []Question `json:"pleas"`
	Findings  []Finding  `json:"findings"`
	Faults    []Fault    `json:"faults"`
	// Events happened and are not on record yet in the log that steward keeps for the protocol.
	Events []Event `json:"events,omitempty"`
	// LogsCalls: the protocol's shared log takes a line for each incident about a task or an agent. Called lists the
	// incidents that the log names already (Change.Code of their VerbLog).
	LogsCalls bool     `json:"logs_calls,omitempty"`
	Called    []string `json:"called,omitempty"`
	// LogSince is when the part of the shared log begins that was read; zero: the whole log was read.
	LogSince time.Time `json:"log_since,omitzero"`
	// Measures are the figures that the protocol's document asks for.
	Measures []Measure `json:"measures,omitempty"`
	// Again is when the adapter wants to look once more (a torn file, a late write); zero: no wish.
	Again time.Time `json:"again,omitzero"`
}

// Name enters whose files these are and whether steward may change them, in the Snapshot and all that it holds.
func (s *Snapshot) Name(project, protocolName string, act bool) {
	s.Project, s.Protocol, s.Act = project, protocolName, act
	for i := range s.Findings {
		s.Findings[i].Subject.Project, s.Findings[i].Subject.Protocol = project, protocolName
	}
	for i := range s.Events {
		s.Events[i].Subject.Project, s.Events[i].Subject.Protocol = project, protocolName
	}
}

// Subject names the thing for this Snapshot's project and protocol.
func (s *Snapshot) Subject(kind Kind, id string) Subject {
	return Subject{Project: s.Project, Protocol: s.Protocol, Kind: kind, ID: id}
}

// Agent returns the agent of that name.
func (s *Snapshot) Agent(name string) (*Agent, bool) {
	for i := range s.Agents {
		if s.Agents[i].Name == name {
			return &s.Agents[i], true
		}
	}
	return nil, false
}

// Ref is a cloakroom ticket: a policy hands it back unread, and the adapter compares Sum before it writes.
type Ref struct {
	Path string `json:"path,omitempty"`
	Sum  string `json:"sum,omitempty"`
}

// Identity is a process, never a bare pid: the number, its start token, the boot it runs under, its user.
// The fields mirror the platform's own type, so that the two convert into each other.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
	UID   int    `json:"uid"`
}

// Proves reports whether the identity is complete enough to prove anything about a process.
func (id Identity) Proves() bool { return id.PID > 0 && id.Start != 0 && id.Boot != "" }

// Fault is a file that cannot be used as it is.
type Fault struct {
	Path    string    `json:"path"`
	Problem string    `json:"problem"`
	Hint    string    `json:"hint,omitempty"`
	Since   time.Time `json:"since"`
	// Severity is how much it matters if it stays; "" is medium.
	Severity Severity `json:"severity,omitempty"`
}

// HintManyFiles is the advice where a process may open no more files.
const HintManyFiles = "too many open files: raise ulimit -n"

// ManyFiles reports whether the file could not be read because the process may open no more.
func (f Fault) ManyFiles() bool { return f.Hint == HintManyFiles }
