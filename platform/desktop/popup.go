package desktop

import (
	"context"
	"errors"
	"time"
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
	book   *popupStore // nil without a state folder
	limit  time.Duration
}

// NewPopups returns popups for this user's desktop. It does not remember shown popups across a restart.
func NewPopups() *Popups { return NewPopupsIn("") }

// NewPopupsIn is NewPopups with state that survives a restart, however the previous run ended. The file popups.json
// in dir records which popup is shown for which key; dir must exist, and no other running Popups may use it. Show
// replaces such a popup in place, Withdraw removes it, and Inherited lists them all. Buttons of an earlier run have
// no effect. A popup whose server or session bus has ended since is reported as Lost, once the next server is found;
// ids of another server instance are never used. Unreadable state is ignored, and a failed write is counted as
// Unsaved.
func NewPopupsIn(dir string) *Popups {
	out := newOutbox()
	p := &Popups{screen: newScreen(out), out: out, book: newBook(dir), limit: answerTime}
	p.screen.book = p.book
	return p
}

// Inherited returns the keys of the popups that the previous run left on the screen, or lost and did not show again,
// the oldest first. It always returns the same keys. The buttons of these popups do not work: show each again or
// withdraw it.
func (p *Popups) Inherited() []string {
	var keys []string
	for _, e := range p.book.inherited() {
		keys = append(keys, e.Key)
	}
	return keys
}

// Events reports presses, closings and losses of popups in order; every call returns the same channel. Close closes
// the channel. It holds 256 events; further ones are dropped and counted.
func (p *Popups) Events() <-chan Event { return p.out.events }

// Tally returns the counts since the start.
func (p *Popups) Tally() Tally {
	return Tally{Refused: p.out.refused.Load(), Dropped: p.out.dropped.Load(), Unsaved: p.book.failed()}
}

// Show opens the popup of m.Key or replaces it in place. Shown means that the server returned the popup's id; Sent
// means that the message was accepted, but "do not disturb" is on or the system does not report the result. A
// rejection, no reply within 5 s and a dead server are errors.
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

// Withdraw removes the popup of an incident from the screen; it has no effect if there is none. If the system cannot
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

// Close releases the desktop and closes Events; popups stay on the screen, but their buttons have no effect any more.
// Later calls fail.
func (p *Popups) Close() error {
	p.out.close() // first: the popups that remain must not be reported as lost
	err := p.screen.close()
	p.book.close()
	return wrap("close popups", err)
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
