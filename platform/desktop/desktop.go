// Package desktop notifies the user at this machine by popup and by voice. Each has a deadline and reports how far
// the message is proven to have been delivered.
package desktop

import (
	"errors"
	"fmt"
	"strings"
)

// The results of a Proof, the weakest last.
const (
	Shown  = "shown"  // a popup: the server returned the id of the popup that it opened
	Spoken = "spoken" // a voice: a player succeeded and ran about as long as the sound lasts
	Sent   = "sent"   // accepted, without evidence that it was seen or heard: use the next channel
)

// Proof reports how far a message is known to have been delivered. "Sent" is not "reached".
type Proof struct {
	Result string // Shown, Spoken or Sent
	Detail string // the evidence, in words for the operator
	ID     string // the server's id of the popup ("owner/number"); empty for a voice and where the system has no ids

	Actions bool // the popup has buttons, and a press of a button becomes an Event
}

// ErrUnavailable is wrapped by every error that means: this machine cannot show or speak (no bus, no server, no
// voice). Any other error means that an attempt failed.
var ErrUnavailable = errors.New("not available here")

// Error is the type of every error that the exported methods of this package return.
type Error struct {
	Op   string // the operation, such as "show popup"
	Hint string // what the operator can do about it; empty when there is nothing
	Err  error
}

// Error returns one line, without the hint.
func (e *Error) Error() string {
	return e.Op + ": " + strings.ReplaceAll(e.Err.Error(), "\n", "; ")
}

// Unwrap returns the cause, for errors.Is.
func (e *Error) Unwrap() error { return e.Err }

// unavailable returns the cause of an Error that wraps ErrUnavailable.
func unavailable(format string, args ...any) error {
	return absent(fmt.Sprintf(format, args...))
}

// absent is an ErrUnavailable with its own message.
type absent string

func (a absent) Error() string { return string(a) }
func (a absent) Unwrap() error { return ErrUnavailable }
