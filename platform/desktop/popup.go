package desktop

import (
	"context"
	"errors"
	"time"

	"github.com/livhana/steward/platform/text"
)

// Urgency is the urgency of a popup. The values are those of the freedesktop notification specification.
type Urgency byte

// The desktop may group Low popups; Critical popups stay until the user closes them.
const (
	Low Urgency = iota
	Normal
	Critical
)

// Message is the content of a popup. Title and Text are plain text from any source: they are cleaned, cut to 80 and
// 1000 characters, and never parsed as markup, options or scripts.
type Message struct {
	Key     string // identifies the incident: a later message with the same key replaces the popup in place
	Title   string
	Text    string
	Urgency Urgency
	Actions []Action // buttons (the first three), if the system supports them. Each Show invalidates the earlier ones

	// Quiet is for good news and for replacements of a popup: the system is asked to play no sound. A quiet popup
	// without buttons has low urgency, unless it is critical; one with buttons keeps its urgency, because a question
	// must not expire.
	Quiet bool
}

// weight returns the urgency that is sent to the desktop.
func (m Message) weight() Urgency {
	if m.Quiet && m.Urgency < Critical && len(m.Actions) == 0 {
		return Low
	}
	return min(m.Urgency, Critical)
}

// answerTime limits every exchange with the desktop, whatever the caller's context allows.
const answerTime = 5 * time.Second

// Popups shows messages on the desktop of this user. It is safe for concurrent use. It opens, starts and connects
// nothing before the first call. Between calls it only waits in one read of the session bus (Linux), or has one child
// per popup with buttons (macOS).
type Popups struct {
	screen *screen // the session bus or the macOS tools
	out    *outbox
	limit  time.Duration
}

// NewPopups returns popups for this user's desktop. It knows no popup of an earlier run; the caller shows again what
// is still due.
func NewPopups() *Popups {
	out := newOutbox()
	return &Popups{screen: newScreen(out), out: out, limit: answerTime}
}

// Events reports presses, closings and losses of popups in order; every call returns the same channel. Close closes
// the channel. It holds 256 events; further ones are dropped.
func (p *Popups) Events() <-chan Event { return p.out.events }

// Show opens the popup of m.Key or replaces it in place. Shown means that the server returned the popup's id; Sent
// means that the message was accepted, but "do not disturb" is on or the system does not report the result. A
// rejection, no reply within 5 s and a dead server are errors.
func (p *Popups) Show(ctx context.Context, m Message) (Proof, error) {
	const op = "show popup"
	m.Title, m.Text = text.Line(m.Title, titleLimit), text.Clean(m.Text, textLimit)
	m.Actions = offered(m.Actions)
	if m.Key == "" {
		return Proof{}, wrap(op, errors.New("a message without a key cannot be replaced or withdrawn"))
	}
	if m.Title == "" {
		return Proof{}, wrap(op, errors.New("a message without a title says nothing"))
	}
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	proof, err := p.screen.show(ctx, m)
	return proof, wrap(op, err)
}

// Withdraw removes the popup of an incident from the screen; it has no effect if none exists. If the system cannot
// remove popups (osascript), the error wraps ErrUnavailable.
func (p *Popups) Withdraw(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	return wrap("withdraw popup", p.screen.withdraw(ctx, key))
}

// Probe reports whether a popup could be shown now. It shows and starts nothing.
func (p *Popups) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	return wrap("probe popups", p.screen.probe(ctx))
}

// Close releases the desktop and closes Events. On Linux it withdraws the popups, because no later run could replace
// or withdraw them, and their buttons have no effect any more. Later calls fail.
func (p *Popups) Close() error {
	p.out.close() // first: the popups that end now must not be reported
	return wrap("close popups", p.screen.close())
}

// wrap adds the operation. It keeps the hint of the cause.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	var inner *Error
	if errors.As(err, &inner) {
		return &Error{Op: op, Hint: inner.Hint, Err: inner.Err}
	}
	return &Error{Op: op, Err: err}
}

// hinted adds a hint for the operator to a cause; wrap converts it into the final Error.
func hinted(err error, hint string) error { return &Error{Hint: hint, Err: err} }
