// Package push reaches a human who is not at the machine: through an ntfy server, which also carries a press of a
// button back, and through any command of the operator's.
package push

import (
	"strings"
	"time"
)

// Message is what the human gets.
type Message struct {
	// Key and Rev are what an answer will refer to; without a positive Rev there are no buttons.
	Key string
	Rev int
	// Title is shown as one line of at most 250 bytes, Text in at most 4095; both are cleaned and cut, never refused.
	Title, Text string
	// Severity is info, low, medium, high or critical; any other word counts as medium.
	Severity string
	Blocking bool // work waits for the human
	Over     bool // good news: what was wrong is over
	// Options become buttons, the first three of them, if presses can come back.
	Options []Option
	// Tags of the caller's own: letters, digits, "_", "+" and "-"; others are left out.
	Tags []string
}

// Option is one way to answer.
type Option struct{ ID, Label string }

// Press is a button that somebody pressed. It is known to be one that this program offered, and not who pressed it or
// how often: the same press may come again, after any time and after a restart too.
type Press struct {
	Key    string
	Rev    int // at least 1
	Option string
}

// Error is what every exported method of this package returns.
type Error struct {
	Op    string        // what was being done, such as "send to ntfy.sh"
	Hint  string        // what the operator can do about it; empty when there is nothing
	After time.Duration // so long the server wants to be left alone; 0 when it did not say
	Err   error
}

// Error is one line, without the hint.
func (e *Error) Error() string {
	return e.Op + ": " + strings.ReplaceAll(e.Err.Error(), "\n", "; ")
}

// Unwrap gives the cause, for errors.Is.
func (e *Error) Unwrap() error { return e.Err }
