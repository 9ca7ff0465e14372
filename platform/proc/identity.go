// Package proc tells processes apart for good (a pid alone is reused), notices their end, and ends them safely.
package proc

import (
	"errors"
	"fmt"
)

// Identity names one process of one boot of one machine. The zero value names none.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // Linux: ticks since boot; macOS: µs since 1970
	Boot  string `json:"boot"`  // changes with every boot
	UID   int    `json:"uid"`   // real user id. Not part of the proof: a process may change it
}

// ErrGone says that there is no such process, or only the zombie of one.
var ErrGone = errors.New("no such process")

// State is what Check found.
type State int

const (
	Unknown State = iota // nothing is proved; treat it as living
	Alive
	Stopped // suspended by a signal or held by a debugger
	Gone    // proved
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

// Inspect records the identity of a running process; ErrGone when there is none or it is a zombie.
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
		// The number may have passed to another process between the two reads.
		if again, _, err := look(pid); err != nil {
			return Identity{}, err
		} else if again == start {
			return Identity{PID: pid, Start: start, Boot: boot, UID: uid}, nil
		}
	}
}

// Check says what became of a process. Gone needs proof: absent, a zombie, another start token under the same number,
// or another boot. What cannot be read (no permission, hidden by hidepid, descriptors used up) is Unknown, and so is
// an identity without Start or Boot.
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

// proves reports whether the identity can tell its process from a later one with the same number.
func (id Identity) proves() bool { return id.PID > 0 && id.Start != 0 && id.Boot != "" }
