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

// Project is a folder to look after.
type Project struct {
	Name string
	Path string
	// Detect lists the protocols spoken there now; it is asked at every full look, so that one that appears
	// later is noticed.
	Detect func() []string
	// Identify says which folder the path leads to; nil: the path is all that is known.
	Identify func() (Folder, error)
	// Missing says why the folder itself cannot be used; nil: it is there. May be nil.
	Missing func() error
	// Open starts speaking one of them.
	Open func(protocolName string) (Speaker, error)
}

// Speaker is one protocol of a project, in use.
type Speaker struct {
	Adapter protocol.Adapter
	// Act is false where steward only observes; Why says so for people.
	Act bool
	Why string
	// Publish puts the capacity document where agents may read it; nil if the protocol has no place for it.
	Publish func([]byte) error
	// Keep writes the heartbeats of agents whose processes live and that leave that to steward: by name, how long each has
	// been up. nil if the protocol has none.
	Keep  func(agents map[string]time.Duration, now time.Time) error
	Close func()
	// Ready says why steward must not act although Act is set; nil, or no function: nothing is in the way. It is asked with
	// every full look, and until it says otherwise steward only observes.
	Ready func() error

	hindered *protocol.Fault // what Ready said last; nil: nothing
}

// acts reports whether steward changes the protocol's files now.
func (s *Speaker) acts() bool { return s.Act && s.hindered == nil }

// ask asks Ready once more.
func (s *Speaker) ask(name, path string, now time.Time) {
	if !s.Act || s.Ready == nil {
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

// Hint says that paths of a project may have changed; no paths means anything may have.
type Hint struct {
	Project string
	Path    string // relative to the project; "" asks for a full look
	Lost    bool   // hints are missing, because the kernel had more of them than it keeps; Path is ""
}

// Doors are the supervisor's only ways to the world outside its own memory.
type Deps struct {
	// Measure reads the load; it costs microseconds and never forks.
	Measure func(now time.Time) capacity.Load
	// Usage says what the trees of processes below these identities take; one that is gone is left out. It scans all
	// processes at most every two seconds. nil: nobody can say.
	Usage func(roots []protocol.Identity, now time.Time) []capacity.Usage
	// Promised is when something was admitted lately that no file shows; may be nil.
	Promised func(now time.Time) []decide.Promise
	// Consumers names the largest consumers of what is scarcest, and of the processor and memory after them, from a scan at
	// most two seconds old; may be nil.
	Consumers func() []protocol.Consumer
	// Alarms has a token when the machine is in need right now, before the next sample would show it; may be nil.
	Alarms <-chan struct{}
	// Stop ends the tree of processes below an identity, asking first; it returns at once. nil: nothing is ever ended.
	Stop func(id protocol.Identity, why string)
	// Watch replaces the folders (relative) that are watched for a project.
	Watch func(project, root string, dirs []string) error
	Hints <-chan Hint
	// Inspect gives the identity behind a pid that a file names.
	Inspect func(pid int) (protocol.Identity, bool)
	// Follow has the end of that process reported on Exits; Check asks how it is.
	Follow func(protocol.Identity)
	Check  func(protocol.Identity) heartbeat.ProcessState
	Exits  <-chan protocol.Identity
	// Tell puts an alert into the incident ledger and has it delivered; Incidents are the ledger's heads.
	Tell      func(rules.Alert) error
	Incidents func() map[string]rules.Head
	// Remark says something in passing; it must not block, and nothing follows if nobody hears it.
	Remark func(rules.Remark)
	// Orders are the orders of people; nil: they are kept in memory only.
	Orders *Orders
	// Save stores the Memory durably.
	Save func(decide.Memory) error
	// Note writes the journal.
	Note func(Entry)
	// Pulse is called whenever the loop comes by, at least once per look interval; it must cost next to nothing.
	Pulse func(now time.Time)
	// HandOver is asked at the end whether another steward follows at once. Then what is held stays held.
	HandOver func() bool
}

// fill opens the dependencies that not everybody has.
func (d *Deps) fillOptional() {
	if d.Orders == nil {
		d.Orders = &Orders{}
	}
	if d.Pulse == nil {
		d.Pulse = func(time.Time) {}
	}
	if d.Remark == nil {
		d.Remark = func(rules.Remark) {}
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
