// Package proc identifies processes across pid reuse, reports their exit, and terminates them safely.
package proc

import (
	"errors"
	"fmt"
)

// Identity identifies one process of one boot of one machine. The zero value identifies no process.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // Linux: ticks since boot; macOS: µs since 1970
	Boot  string `json:"boot"`  // the boot id; changes with every boot
	UID   int    `json:"uid"`   // real user id; not used for identification, because a process may change it
}

// ErrGone means that the process does not exist or is a zombie.
var ErrGone = errors.New("no such process")

// State is the result of Check.
type State int

const (
	Unknown State = iota // not proven; treat the process as alive
	Alive
	Stopped // suspended by a signal or held by a debugger
	Gone    // proven
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Alive:
		return "alive"
	case Stopped:
		return "stopped"
	case Gone:
		return "gone"
	}
	return "unknown"
}

// Inspect returns the identity of a running process, or ErrGone if the process does not exist or is a zombie.
func Inspect(pid int) (Identity, error) {
	id, err := inspect(pid)
	if err != nil {
		return Identity{}, fmt.Errorf("inspect process %d: %w", pid, err)
	}
	return id, nil
}

func inspect(pid int) (Identity, error) {
	if pid <= 0 {
		return Identity{}, errors.New("not a process number")
	}
	boot, err := bootID()
	if err != nil {
		return Identity{}, err
	}
	for {
		start, _, err := look(pid)
		if err != nil {
			return Identity{}, err
		}
		uid, err := owner(pid)
		if err != nil {
			return Identity{}, err
		}
		// The pid may have been reused between the two reads.
		if again, _, err := look(pid); err != nil {
			return Identity{}, err
		} else if again == start {
			return Identity{PID: pid, Start: start, Boot: boot, UID: uid}, nil
		}
	}
}

// Check reports the state of a process. Gone requires proof: the process is absent, is a zombie, has another start
// token under the same pid, or belongs to another boot. A process that cannot be read (no permission, hidepid, no
// free descriptors) is Unknown, and so is an identity without Start or Boot.
func Check(id Identity) State {
	if !id.proves() {
		return Unknown
	}
	start, state, err := look(id.PID)
	if errors.Is(err, ErrGone) {
		return Gone
	}
	boot, bootErr := bootID()
	switch {
	case bootErr != nil:
		return Unknown
	case boot != id.Boot:
		return Gone
	case err != nil:
		return Unknown
	case start != id.Start:
		return Gone
	}
	return state
}

// proves reports whether the identity can distinguish its process from a later one with the same pid.
func (id Identity) proves() bool { return id.PID > 0 && id.Start != 0 && id.Boot != "" }
