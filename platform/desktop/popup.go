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

	// Quiet is for good news, and for what takes the place of a popup that stood: the system is asked to make no sound.
	// Without buttons it is of low urgency, unless it is critical: what waits for an answer must not fade away.
	Quiet bool
}

// weight is the urgency that the desktop is told.
func (m Message) weight() Urgency {
	if m.Quiet && m.Urgency < Critical && len(m.Actions) == 0 {
		return Low
	}
	return min(m.Urgency, Critical)
}

// answerTime bounds every exchange with the desktop, whatever the caller's context allows.
const answerTime = 5 * time.Second

// Popups shows messages on the desktop of this user. It is safe for concurrent use. Nothing is opened, started or
// connected before the first call. Between calls one read of the session bus waits (Linux), or one child per popup
// with buttons (macOS).
type Popups struct {
	screen *screen // the session bus, the macOS tools or PowerShell
	out    *outbox
	book   *popupStore // nil without a state folder
	limit  time.Duration
}

// NewPopups prepares popups for this user's desktop. With the end of the process it is forgotten which ones stand.
func NewPopups() *Popups { return NewPopupsIn("") }

// NewPopupsIn is NewPopups that survives a restart, however the run before ended: the file popups.json in dir, a folder
// that exists and that no other running Popups has, tells which popup stands for which key. Show replaces such a popup
// in place, Withdraw takes it away, and Inherited lists them all. Buttons of an earlier run do nothing. A popup whose
// server or session bus has ended since is Lost, told once the next one is found; ids of another life of the server
// are never used. What cannot be read is not remembered, what cannot be written is counted as Unsaved.
func NewPopupsIn(dir string) *Popups {
	out := newOutbox()
	p := &Popups{screen: newScreen(out), out: out, book: newBook(dir), limit: answerTime}
	p.screen.book = p.book
	return p
}

// Inherited gives the keys of the popups that the run before left standing, or lost and did not show anew, the oldest
// first; always the same ones. Their buttons are dead: each is to be shown anew, or withdrawn.
func (p *Popups) Inherited() []string {
	var keys []string
	for _, e := range p.book.inherited() {
		keys = append(keys, e.Key)
	}
	return keys
}

// Events tells of presses, closings and losses of popups, in the order in which they came, from all calls the same
// channel. It ends with Close. 256 events wait; further ones are dropped and counted.
func (p *Popups) Events() <-chan Event { return p.out.events }

// Tally gives the counts since the beginning.
func (p *Popups) Tally() Tally {
	return Tally{Refused: p.out.refused.Load(), Dropped: p.out.dropped.Load(), Unsaved: p.book.failed()}
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

// Close releases the desktop and ends Events; popups stay on the screen, but their buttons do nothing any more.
// Later calls fail.
func (p *Popups) Close() error {
	p.out.close() // first: what we leave behind is not lost
	err := p.screen.close()
	p.book.close()
	return wrap("close popups", err)
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
