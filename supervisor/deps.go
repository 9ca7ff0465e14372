package supervisor

import (
	"fmt"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// Project is a supervised folder.
type Project struct {
	Name string
	Path string
	// Detect lists the protocols that are present now. It is called at every full scan.
	Detect func() []string
	// Identify says which folder the path leads to; nil: only the path is known.
	Identify func() (Folder, error)
	// Missing says why the folder itself cannot be used; a nil error means that it is there. May be nil.
	Missing func() error
	// Open opens the adapter of a protocol in a mode; "": in the configured one.
	Open func(protocolName string, mode protocol.Mode) (Speaker, error)
}

// Folder identifies the folder that the path of a project leads to.
type Folder struct {
	Path          string // without symbolic links
	Device, Inode uint64 // Inode 0: the identity is not known
	Born          int64  // in nanoseconds; 0: the file system does not record it
}

// is reports whether both are the same folder, whatever their paths. A device number may change when the machine restarts.
func (f Folder) is(g Folder) bool {
	return f.Inode != 0 && f.Inode == g.Inode && f.Born == g.Born && (f.Born != 0 || f.Device == g.Device)
}

// Speaker is an open protocol of a project.
type Speaker struct {
	Adapter protocol.Adapter
	// Mode is what steward does by itself; Why tells people how to change that, unless it acts.
	Mode protocol.Mode
	Why  string
	// Publish writes the capacity document for agents; nil if the protocol has no place for it.
	Publish func([]byte) error
	// Keep writes the heartbeats of agents that leave this to steward and whose processes live: by name, with their
	// uptime. nil if the protocol has none.
	Keep  func(agents map[string]time.Duration, now time.Time) error
	Close func()
	// Ready says why steward cannot write although it may. It is called at every full scan, unless steward only observes;
	// while it returns an error, steward does. nil: always ready.
	Ready func() error

	ordered   protocol.Mode       // the mode with which it was opened; "": the configured one
	hindered  *protocol.Fault     // the last error of Ready; nil: none
	completed *protocol.Completed // the tasks that the last scan showed as completed
}

// acts reports whether steward may change the protocol's files now.
func (s *Speaker) acts() bool { return s.Mode == protocol.ModeAct && s.hindered == nil }

// now is the mode that counts: while steward cannot write, it only observes.
func (s *Speaker) now() protocol.Mode {
	if s.hindered != nil {
		return protocol.ModeObserve
	}
	return s.Mode
}

// ask calls Ready again.
func (s *Speaker) ask(name, path string, now time.Time) {
	if s.Mode == protocol.ModeObserve || s.Ready == nil {
		return
	}
	err := s.Ready()
	if err == nil {
		s.hindered = nil
		return
	}
	fault := protocol.Fault{Path: path, Problem: fmt.Sprintf("%s is only observed: %v", name, err), Since: now, Severity: protocol.High,
		Hint: "steward acts again as soon as it may write there"}
	if old := s.hindered; old != nil && old.Problem == fault.Problem {
		fault.Since = old.Since
	}
	s.hindered = &fault
}

// Spoken says in which mode steward handles a protocol of a project now, and how to change that.
type Spoken struct {
	Protocol string
	Mode     protocol.Mode
	Why      string
}

// Hint says that a path of a project may have changed.
type Hint struct {
	Project string
	Path    string // relative to the project; "" asks for a full scan
	Lost    bool   // the kernel dropped hints; Path is ""
}

// Deps are the supervisor's dependencies: everything that it needs from outside.
type Deps struct {
	// Measure reads the load. It takes microseconds and never forks.
	Measure func(now time.Time) capacity.Load
	// Usage returns the resource usage of the process trees below these identities, without those that have exited. It
	// scans the process table at most every two seconds. nil: unknown.
	Usage func(roots []protocol.Identity, now time.Time) []capacity.Usage
	// Promised lists recent admissions that no file shows yet; may be nil.
	Promised func(now time.Time) []decide.Promise
	// Consumers lists the largest consumers of the scarcest dimension, and of processor and memory, from a scan that is
	// at most two seconds old; may be nil.
	Consumers func() []protocol.Consumer
	// Alarms has a token when the kernel reports pressure before the next sample would show it; may be nil.
	Alarms <-chan struct{}
	// Stop terminates the process tree below an identity, with SIGTERM first. It returns at once. nil: processes are
	// never terminated.
	Stop func(id protocol.Identity, why string)
	// Watch replaces the set of watched folders (relative paths) of a project.
	Watch func(project, root string, dirs []string) error
	Hints <-chan Hint
	// Inspect returns the identity of the process with this pid.
	Inspect func(pid int) (protocol.Identity, bool)
	// Follow reports the exit of a process on Exits; Check returns its state.
	Follow func(protocol.Identity)
	Check  func(protocol.Identity) heartbeat.ProcessState
	Exits  <-chan protocol.Identity
	// Tell raises or resolves an incident and has it delivered; Incidents are the current ones.
	Tell      func(rules.Alert) error
	Incidents func() map[string]rules.Head
	// Say speaks of a task; nil: never. It returns at once, and may lose what it is given.
	Say func(decide.Saying)
	// Orders are the orders of people; nil: they are kept in memory only.
	Orders *Orders
	// Save stores the memory durably.
	Save func(decide.Memory) error
	// Note writes to the journal.
	Note func(Entry)
	// Heartbeat is called after every step, at least once per scan interval. It must be cheap.
	Heartbeat func(now time.Time)
	// HandOver reports at the end whether another steward follows at once. Then holds are renewed instead of released.
	HandOver func() bool
}

// fillOptional replaces optional dependencies that are missing.
func (d *Deps) fillOptional() {
	if d.Orders == nil {
		d.Orders = &Orders{}
	}
	if d.Say == nil {
		d.Say = func(decide.Saying) {}
	}
	if d.Heartbeat == nil {
		d.Heartbeat = func(time.Time) {}
	}
	if d.Usage == nil {
		d.Usage = func([]protocol.Identity, time.Time) []capacity.Usage { return nil }
	}
	if d.Consumers == nil {
		d.Consumers = func() []protocol.Consumer { return nil }
	}
	if d.Promised == nil {
		d.Promised = func(time.Time) []decide.Promise { return nil }
	}
	if d.Stop == nil {
		d.Stop = func(protocol.Identity, string) {}
	}
	if d.HandOver == nil {
		d.HandOver = func() bool { return false }
	}
}
