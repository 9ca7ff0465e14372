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

// popupTable is what stands on the screen, as far as replies and signals tell. mu is held only briefly, because the
// goroutine that reads the bus acquires it.
type popupTable struct {
	out *outbox

	mu     sync.Mutex
	server *server           // nil once the bus reports a new owner of its name
	all    map[string]*popup // by message key
}

// popup is the popup of one incident. Its turn is held while a Notify has no reply, even after the caller gave up: a
// paused server therefore gets one message per incident, not one per attempt. popupTable.mu guards the other fields.
type popup struct {
	key  string
	turn chan struct{}

	server   *server // the server that opened it, perhaps over an earlier connection; nil if it is not shown
	id       uint32  // its id there; on another server the id means another popup
	unwanted bool    // withdrawn, perhaps before the server replied
	answered bool    // a button was pressed

	// buttons maps the keys of the last message's buttons to actions. The keys are random, so that they differ from
	// those of older messages and other popups and cannot be guessed. A press removes them all.
	buttons map[string]string
	pending bool          // a Notify has no reply yet
	early   *press        // a press received before the reply with the popup's id
	gone    dbus.Sequence // when the popup that is being replaced was closed; 0: it was not
	byHuman bool          // the user closed it
}

// press is a press of a button of the last message, on popup id.
type press struct {
	id     uint32
	action string
}

// find returns the popup of a key, or nil.
func (t *popupTable) find(key string) *popup {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[key]
}

// of returns the popup of a key; it adds the popup if necessary.
func (t *popupTable) of(key string) *popup {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.all[key]
	if p == nil {
		p = &popup{key: key, turn: make(chan struct{}, 1)}
		t.all[key] = p
	}
	return p
}

// opener returns the server and the id of a popup; no server if the popup is not shown.
func (t *popupTable) opener(p *popup) (*server, uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.server, p.id
}

// withdrawn reports whether the popup was withdrawn, perhaps while it opened.
func (t *popupTable) withdrawn(p *popup) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.unwanted
}

// removed records that we closed the popup.
func (t *popupTable) removed(p *popup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.server = nil
}

// forget drops a withdrawn popup, unless another withdrawal has done so and a new popup has its place.
func (t *popupTable) forget(p *popup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.server = nil
	if t.all[p.key] == p {
		delete(t.all, p.key)
	}
}

// want records whether the popup is to be shown. A popup that is not has no buttons any more.
func (t *popupTable) want(p *popup, wanted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.unwanted = !wanted
	if !wanted {
		p.buttons, p.early = nil, nil
	}
}

// offer returns the arguments of the next Notify beside the text: the popup to replace, and the keys and labels of
// the buttons. From now on presses of older messages are ignored.
func (t *popupTable) offer(p *popup, srv *server, actions []Action) (replaces uint32, buttons []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.pending, p.early, p.gone, p.buttons = true, nil, 0, nil
	if srv.actions && len(actions) > 0 {
		p.buttons = map[string]string{}
		for _, a := range actions {
			token := rand.Text()
			p.buttons[token] = a.ID
			buttons = append(buttons, token, a.Label)
		}
	}
	if p.server == srv {
		replaces = p.id
	}
	return replaces, buttons
}

// record evaluates the server's reply to a Notify. A server that returns 0 violates the specification and shows
// nothing. Signals received before the reply was read are evaluated now.
func (t *popupTable) record(p *popup, srv *server, call *dbus.Call) (id uint32, err error) {
	err = call.Store(&id)
	t.mu.Lock()
	defer t.mu.Unlock()
	early := p.early
	p.pending, p.early = false, nil
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
		if other != p && other.server == srv && other.id == id {
			other.server, other.buttons = nil, nil
		}
	}
	again := p.server == srv && p.id == id
	p.server, p.id, p.answered = srv, id, false
	if early != nil && early.id == id {
		t.answer(p, early.action)
	}
	if again && p.gone > call.ResponseSequence { // otherwise the replaced popup was closed
		t.end(p, p.byHuman)
	}
	return id, nil
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
	p.server, p.buttons = nil, nil
	if byHuman && !p.answered && !p.unwanted {
		t.out.put(Closed, p.key, "")
	}
}

// current returns the current server if it is the one on this connection with this owner.
func (t *popupTable) current(b *bus, owner string) *server {
	t.mu.Lock()
	defer t.mu.Unlock()
	if srv := t.server; srv != nil && srv.bus == b && srv.owner == owner {
		return srv
	}
	return nil
}

// install makes srv the current server, unless the owner of the name has changed since. The popups of the previous
// server are lost; on a bus without signals this is where the loss is detected.
func (t *popupTable) install(srv *server, changes uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.server
	if srv.bus.signals.changes != changes || old != nil && old.bus == srv.bus && old.owner == srv.owner {
		return // in the second case, another goroutine has already installed it
	}
	if old != nil {
		t.lose(old.bus != srv.bus)
	}
	t.server = srv
}

// lose drops the server and its popups. If only the connection ended, server and popups may still live, but presses may
// not reach the next connection: the popups count as lost, and the next message replaces them. The caller holds mu.
func (t *popupTable) lose(onlyConnection bool) {
	srv := t.server
	t.server = nil
	for _, p := range t.all {
		if !p.server.same(srv) {
			continue
		}
		if !onlyConnection {
			p.server = nil
		}
		p.buttons = nil
		if !p.answered && !p.unwanted {
			t.out.put(Lost, p.key, "")
		}
	}
}

// closeTime limits the withdrawal of popups at the end.
const closeTime = time.Second

// closeAll closes the popups of the current server.
func (t *popupTable) closeAll() {
	t.mu.Lock()
	srv := t.server
	var ids []uint32
	for _, p := range t.all {
		if srv != nil && p.server == srv {
			ids = append(ids, p.id)
		}
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	for _, id := range ids {
		if srv.close(ctx, id) != nil {
			return
		}
	}
}
