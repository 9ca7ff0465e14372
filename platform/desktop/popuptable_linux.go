package desktop

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

var (
	errNoID  = errors.New("it named no popup")
	errEnded = errors.New("it ended, or gave up its name, while it opened the popup")
)

// popupTable is what the current server of one connection has on the screen, as far as replies and signals tell. When
// that server or the connection ends, its popups are lost and the table is empty. mu is held only briefly, because the
// goroutine that reads the bus takes it.
type popupTable struct {
	out *outbox

	mu      sync.Mutex
	server  *server // nil once the bus reports a new owner of its name
	changes int     // how often that owner has changed
	all     map[string]*popup
}

// popup is the popup of one incident, guarded by popupTable.mu.
type popup struct {
	key      string
	id       uint32 // 0: not on the screen
	unwanted bool   // withdrawn, perhaps before the server replied
	answered bool   // a button was pressed

	// buttons maps the keys of the last message's buttons to actions. The keys are random, so that they differ from
	// those of older messages and other popups and cannot be guessed. A press removes them all.
	buttons map[string]string

	// While a Notify has no reply:
	settled chan struct{} // closed when the reply is recorded; nil: no reply is due
	early   *press        // a press that came before the reply
	gone    dbus.Sequence // when the popup that is being replaced was closed; 0: it was not
	byHuman bool          // the user closed it
}

// press is a press of a button of the last message, on popup id.
type press struct {
	id     uint32
	action string
}

// current returns the server if it is the one with this owner.
func (t *popupTable) current(owner string) *server {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.server != nil && t.server.owner == owner {
		return t.server
	}
	return nil
}

// seen returns how often the owner of the server's name has changed.
func (t *popupTable) seen() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changes
}

// install makes srv the current server, unless the owner of the name has changed since. It reports whether it did.
func (t *popupTable) install(srv *server, changes int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changes != changes {
		return false
	}
	t.server, t.all = srv, map[string]*popup{}
	return true
}

// unanswered returns the channel that is closed when the server replies to the last message of this key; nil if it has.
func (t *popupTable) unanswered(key string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.all[key]; p != nil {
		return p.settled
	}
	return nil
}

// offer prepares the next Notify of a key and returns its arguments beside the text: the popup to replace, and the keys
// and labels of the buttons. From now on presses of older messages are ignored.
func (t *popupTable) offer(srv *server, key string, actions []Action) (p *popup, replaces uint32, buttons []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p = t.all[key]; p == nil {
		p = &popup{key: key}
	}
	if t.server == srv {
		t.all[key] = p
	}
	p.unwanted, p.settled, p.early, p.gone, p.buttons = false, make(chan struct{}), nil, 0, nil
	if srv.actions && len(actions) > 0 {
		p.buttons = map[string]string{}
		for _, a := range actions {
			token := rand.Text()
			p.buttons[token] = a.ID
			buttons = append(buttons, token, a.Label)
		}
	}
	return p, p.id, buttons
}

// record evaluates the server's reply to a Notify. A server that returns 0 violates the specification and shows
// nothing. Signals that came before the reply was read are evaluated now.
func (t *popupTable) record(p *popup, srv *server, call *dbus.Call) (id uint32, err error) {
	err = call.Store(&id)
	t.mu.Lock()
	defer t.mu.Unlock()
	close(p.settled)
	p.settled = nil
	switch {
	case err != nil:
	case id == 0:
		err = errNoID
	case t.server != srv:
		err = errEnded
	}
	if err != nil { // an older popup may still be shown; its buttons became invalid when this message was sent
		p.buttons = nil
		return 0, err
	}
	for _, other := range t.all { // a server that returns an id again has replaced the popup that had it
		if other != p && other.id == id {
			other.id, other.buttons = 0, nil
		}
	}
	again := p.id == id
	p.id, p.answered = id, false
	if p.early != nil && p.early.id == id {
		t.answer(p, p.early.action)
	}
	if again && p.gone > call.ResponseSequence { // otherwise the replaced popup was closed
		t.end(p, p.byHuman)
	}
	return id, nil
}

// revoke makes the popup of a key unwanted: its buttons have no effect any more. It returns the popup's id and server;
// id is 0 if nothing is on the screen.
func (t *popupTable) revoke(key string) (srv *server, id uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.all[key]
	if p == nil {
		return nil, 0
	}
	p.unwanted, p.buttons, p.early = true, nil, nil
	return t.server, p.id
}

// withdrawn reports whether the popup was withdrawn while it opened.
func (t *popupTable) withdrawn(p *popup) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.unwanted
}

// forget drops a popup that was removed from the screen, unless it was shown again meanwhile.
func (t *popupTable) forget(key string, id uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.all[key]; p != nil && p.unwanted && p.id == id {
		delete(t.all, key)
	}
}

// answer reports a valid press. The caller holds mu.
func (t *popupTable) answer(p *popup, action string) {
	if !p.unwanted {
		p.answered, p.buttons = true, nil
		t.out.put(Pressed, p.key, action)
	}
}

// end records that a popup has left the screen. The caller holds mu.
func (t *popupTable) end(p *popup, byHuman bool) {
	p.id, p.buttons = 0, nil
	if byHuman && !p.answered && !p.unwanted {
		t.out.put(Closed, p.key, "")
	}
}

// lose records that the server has ended or given up its name; its popups are lost. The caller holds mu.
func (t *popupTable) lose() {
	t.changes++
	for _, p := range t.all {
		if p.id != 0 && !p.answered && !p.unwanted {
			t.out.put(Lost, p.key, "")
		}
	}
	t.server, t.all = nil, nil
}

// closeTime limits the withdrawal of popups at the end.
const closeTime = time.Second

// closeAll removes the popups of the current server from the screen.
func (t *popupTable) closeAll() {
	t.mu.Lock()
	srv := t.server
	var ids []uint32
	for _, p := range t.all {
		if p.id != 0 {
			ids = append(ids, p.id)
		}
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	for _, id := range ids {
		if srv.withdraw(ctx, id) != nil {
			return
		}
	}
}
