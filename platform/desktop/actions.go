package desktop

import (
	"sync"
	"time"

	"github.com/livhana/steward/platform/text"
)

// Action is a button of a popup.
type Action struct {
	ID    string // identifies the button in a press, never shown. It should also name the revision of the incident
	Label string // the button's text: plain text from any source, cleaned and cut to 40 characters
}

const (
	maxActions = 3 // servers show three side by side; with more, the text may not fit on the popup
	labelLimit = 40
)

// offered returns the actions that a popup shows: the first three with an id and a label that is not empty after
// cleaning.
func offered(actions []Action) []Action {
	var shown []Action
	for _, a := range actions {
		a.Label = text.Line(a.Label, labelLimit)
		if a.ID != "" && a.Label != "" && len(shown) < maxActions {
			shown = append(shown, a)
		}
	}
	return shown
}

// Kind is the outcome of a popup.
type Kind string

// The kinds of an Event. A popup that expires or that we withdraw has none.
const (
	Pressed Kind = "pressed" // the user pressed a button, which ends the popup: withdraw it or show it again
	Closed  Kind = "closed"  // the user closed the popup without pressing a button
	Lost    Kind = "lost"    // the popup disappeared with its server or the session bus
)

// Event reports the outcome of a shown popup. A press may have waited in the channel while its message was replaced
// or withdrawn, so the receiver must check the incident again.
type Event struct {
	Kind   Kind
	Key    string // of the Message
	Action string // Pressed: the ID of the Action
	At     time.Time
}

// outboxSize exceeds the number of popups that any server keeps open.
const outboxSize = 256

// outbox holds events until they are received. Adding an event never blocks.
type outbox struct {
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
	default: // the receiver has stopped; blocking would stop the goroutine that reads the bus
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
