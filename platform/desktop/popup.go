package desktop

import (
	"context"
	"errors"
	"time"
)

// Urgency of a popup. The numbers are those of the freedesktop notification specification.
type Urgency byte

// Low may be grouped away by the desktop; Critical stays until somebody closes it.
const (
	Low Urgency = iota
	Normal
	Critical
)

// Message is what one popup says. Title and Text are plain text from anywhere: they are cleaned, cut to 80 and 1000
// characters, and never read as markup, options or scripts.
type Message struct {
	Key     string // the incident: a later message with the same key replaces the popup in place
	Title   string
	Text    string
	Urgency Urgency
	Actions []Action // buttons, where the system has any: the first three. Each Show ends those of the message before
}

// answerTime bounds every exchange with the desktop, whatever the caller's context allows.
const answerTime = 5 * time.Second

// Popups shows messages on the desktop of this user. It is safe for concurrent use. Nothing is opened, started or
// connected before the first call. Between calls one read of the session bus waits (Linux), or one child per popup
// with buttons (macOS).
type Popups struct {
	screen *screen // the session bus, the macOS tools or PowerShell
	out    *outbox
	limit  time.Duration
}

// NewPopups prepares popups for this user's desktop.
func NewPopups() *Popups {
	out := newOutbox()
	return &Popups{screen: newScreen(out), out: out, limit: answerTime}
}

// Events tells of presses, closings and losses of popups, in the order in which they came, from all calls the same
// channel. It ends with Close. 256 events wait; further ones are dropped and counted.
func (p *Popups) Events() <-chan Event { return p.out.events }

// Tally gives the counts since the beginning.
func (p *Popups) Tally() Tally {
	return Tally{Refused: p.out.refused.Load(), Dropped: p.out.dropped.Load()}
}

// Show opens the popup of m.Key or replaces it in place. Shown means that the server named the popup it opened; Sent
// that the message was taken, but "do not disturb" is on or the system does not say. A refusal, a server without
// an answer within 5 s and a dead server are errors.
func (p *Popups) Show(ctx context.Context, m Message) (Proof, error) {
	const op = "show popup"
	m.Title, m.Text = oneLine(m.Title, titleLimit), clean(bounded(m.Text, textLimit), textLimit)
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

// Withdraw takes the popup of an incident off the screen. Without such a popup it does nothing. Where the system
// offers no way to withdraw (osascript), the error wraps ErrUnavailable.
func (p *Popups) Withdraw(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	return wrap("withdraw popup", p.screen.withdraw(ctx, key))
}

// Probe says whether a popup could be shown now. It shows and starts nothing.
func (p *Popups) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	return wrap("probe popups", p.screen.probe(ctx))
}

// Close lets go of the desktop and ends Events; popups stay on the screen, but their buttons do nothing any more.
// Later calls fail.
func (p *Popups) Close() error {
	p.out.close() // first: what we leave behind is not lost
	return wrap("close popups", p.screen.close())
}

// wrap names the operation. A cause that carries its own hint keeps it.
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

// hinted gives a cause the operator's next step; wrap turns it into the final Error.
func hinted(err error, hint string) error { return &Error{Hint: hint, Err: err} }
