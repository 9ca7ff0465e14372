package desktop

import (
	"sync"
	"sync/atomic"
	"time"
)

// Action is a button of a popup.
type Action struct {
	ID    string // what a press of it tells, never shown. It should name the revision of the incident, too
	Label string // what stands on it: plain text from anywhere, cleaned and cut to 40 characters
}

const (
	maxActions = 3 // servers lay out three side by side; more push the text off the popup
	labelLimit = 40
)

// offered gives the actions that a popup shows: the first three that have an id and, when cleaned, a label.
func offered(actions []Action) []Action {
	var shown []Action
	for _, a := range actions {
		a.Label = oneLine(a.Label, labelLimit)
		if a.ID != "" && a.Label != "" && len(shown) < maxActions {
			shown = append(shown, a)
		}
	}
	return shown
}

// Kind is what became of a popup.
type Kind string

// The kinds of an Event. A popup that expires or that we withdraw has none.
const (
	Pressed Kind = "pressed" // the human pressed a button. It ends the popup: withdraw it, or show it anew
	Closed  Kind = "closed"  // the human closed the popup without pressing a button
	Lost    Kind = "lost"    // the popup, of this run or of the one before, went with its server or the session bus, and nobody saw it go
)

// Event tells what became of a popup that stood. A press may have waited in the channel while its message was
// replaced or withdrawn, so its receiver looks at the incident once more.
type Event struct {
	Kind   Kind
	Key    string // of the Message
	Action string // Pressed: the ID of the Action
	At     time.Time
}

// Tally counts what did not become an Event.
type Tally struct {
	Refused uint64 // messages of strangers; presses of an old message, a wrong popup, or a button pressed before
	Dropped uint64 // events that nobody took in time
	Unsaved uint64 // writes of popups.json that failed; the next change writes all again
}

// outboxSize is more than all popups that any server keeps open can tell at once.
const outboxSize = 256

// outbox holds the events until they are taken. Who puts one in is never held up.
type outbox struct {
	refused, dropped atomic.Uint64

	mu     sync.Mutex
	events chan Event
	closed bool
}

func newOutbox() *outbox { return &outbox{events: make(chan Event, outboxSize)} }

func (o *outbox) put(kind Kind, key, action string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	select {
	case o.events <- Event{Kind: kind, Key: key, Action: action, At: time.Now()}:
	default:
		o.dropped.Add(1)
	}
}

func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		close(o.events)
	}
}
