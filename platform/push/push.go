// Package push sends messages to a user who is not at the machine: through an ntfy server, which also returns button
// presses, and through any command of the operator.
package push

import (
	"strings"
	"time"
)

// Message is a message to the user.
type Message struct {
	// Key and Rev identify what an answer refers to; without a positive Rev there are no buttons.
	Key string
	Rev int
	// Title is shown as one line of at most 250 bytes, Text in at most 4095; both are cleaned and cut, never
	// rejected.
	Title, Text string
	// Severity is info, low, medium, high or critical; any other value counts as medium.
	Severity string
	Blocking bool // work waits for the user
	Over     bool // good news: the incident is over
	// Options become buttons (the first three) if presses can be received.
	Options []Option
}

// Option is one way to answer.
type Option struct{ ID, Label string }

// Press is a press of a button. The button is proven to come from this program, but not who pressed it or how often:
// the same press may arrive again at any time, also after a restart.
type Press struct {
	Key    string
	Rev    int // at least 1
	Option string
}

// Error is the type of every error that the exported methods of this package return.
type Error struct {
	Op    string        // the operation, such as "send to ntfy.sh"
	Hint  string        // what the operator can do about it; empty when there is nothing
	After time.Duration // the pause that the server requests; 0 if none
	Err   error
}

// Error returns one line, without the hint.
func (e *Error) Error() string {
	return e.Op + ": " + strings.ReplaceAll(e.Err.Error(), "\n", "; ")
}

// Unwrap returns the cause, for errors.Is.
func (e *Error) Unwrap() error { return e.Err }
