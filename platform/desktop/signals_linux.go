package desktop

import "github.com/godbus/dbus/v5"

// byHuman is the NotificationClosed reason for a popup that the user closed. Other reasons are 1: expired, 3: closed
// by a program (we, or any other of this user), 4: undefined.
const byHuman = 2

// The bus delivers the signals that these rules match. A well-known name as sender means its current owner. A program
// can also address a signal to us directly, so DeliverSignal checks the sender.
const (
	serverRule = "type='signal',sender='" + serverName + "',interface='" + serverName + "',path='" + serverPath + "'"
	ownerRule  = "type='signal',sender='" + busName + "',interface='" + busName + "',member='NameOwnerChanged',arg0='" + serverName + "'"
)

// DeliverSignal evaluates a signal. godbus calls it from the goroutine that reads the bus, one signal at a time, so
// signals stay in order with the replies.
func (t *popupTable) DeliverSignal(iface, member string, sig *dbus.Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case iface == busName && member == "NameOwnerChanged" && sig.Sender == busName:
		if name, _ := argument[string](sig, 0); name == serverName {
			t.lose()
		}
	case iface == serverName && t.server != nil && sig.Sender == t.server.owner && sig.Path == serverPath:
		t.hear(member, sig)
	}
}

// Terminate handles the end of the connection, whatever its cause; godbus calls it.
func (t *popupTable) Terminate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lose()
}

// argument returns argument i of a signal, if it exists and has type T.
func argument[T any](sig *dbus.Signal, i int) (value T, ok bool) {
	if i < len(sig.Body) {
		value, ok = sig.Body[i].(T)
	}
	return value, ok
}

// hear evaluates a signal of our server. The server sends signals about all programs' popups, so most are not ours.
func (t *popupTable) hear(member string, sig *dbus.Signal) {
	id, ok := argument[uint32](sig, 0)
	if !ok {
		return
	}
	if token, ok := argument[string](sig, 1); ok && member == "ActionInvoked" {
		t.pressed(id, token)
	}
	if reason, ok := argument[uint32](sig, 1); ok && member == "NotificationClosed" {
		t.left(id, reason == byHuman, sig.Sequence)
	}
}

// pressed ignores the buttons of other programs' popups, of another popup and of an older message, and a button that
// was pressed before.
func (t *popupTable) pressed(id uint32, token string) {
	for _, p := range t.all {
		action, ok := p.buttons[token]
		switch {
		case !ok:
		case p.settled != nil:
			p.early, p.buttons = &press{id: id, action: action}, nil
		case p.id == id:
			t.answer(p, action)
		}
	}
}

func (t *popupTable) left(id uint32, byHuman bool, at dbus.Sequence) {
	for _, p := range t.all {
		switch {
		case p.id != id:
		case p.settled != nil: // the current popup, or already its replacement
			p.gone, p.byHuman = at, byHuman
		default:
			t.end(p, byHuman)
		}
	}
}
