package supervisor

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// Efforts is a desk's record of the changes that do not last, for the simulation.
type Efforts struct{ desk }

// NewEfforts makes an empty record.
func NewEfforts() *Efforts { return &Efforts{desk{tries: map[effort]*tries{}}} }

// Tried counts a change that was made.
func (e *Efforts) Tried(c protocol.Change, err error, now time.Time) { e.tried(c, err, now) }

// Resting reports whether a change is not made now.
func (e *Efforts) Resting(c protocol.Change, now time.Time) bool { return e.resting(c, now) }

// Tires reports whether some change rests.
func (e *Efforts) Tires(now time.Time) bool {
	for _, t := range e.tries {
		if now.Before(t.rest) {
			return true
		}
	}
	return false
}

// Forget drops what has not been tried for long.
func (e *Efforts) Forget(now time.Time) { e.forgetTries(now) }
