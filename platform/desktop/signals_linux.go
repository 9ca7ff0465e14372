package desktop

import (
	"context"

	"github.com/godbus/dbus/v5"
)

// byHuman is the NotificationClosed reason for a popup that the user closed. Other reasons are 1: expired, 3: closed
// by a program (we, or any other of this user), 4: undefined.
const byHuman = 2

// The bus delivers the signals that these rules match. A well-known name as sender means its current owner. A program
// can also address a signal to us directly, so DeliverSignal checks the sender.
const (
	serverRule = "type='signal',sender='" + serverName + "',interface='" + serverName + "',path='" + serverPath + "'"
	ownerRule  = "type='signal',sender='" + busName + "',interface='" + busName + "',member='NameOwnerChanged',arg0='" + serverName + "'"
)

// signals receives the signals of one connection. godbus calls it from the reading goroutine, one signal at a time,
// and each is evaluated at once, so that the signals stay in order with the replies.
type signals struct {
	popups  *popupTable
	changes uint64 // number of changes of the name's owner; guarded by popups.mu
}

// listen subscribes to the signals. If the bus refuses, there are no buttons, but popups still work.
func (b *bus) listen(ctx context.Context) error {
	for _, rule := range []string{ownerRule, serverRule} {
		err := b.ask(ctx, "AddMatch", []any{rule})
		if err != nil && errorName(err) == "" {
			return err
		}
		b.deaf = b.deaf || err != nil
	}
	return nil
}

// seen returns how often the owner of the server's name has changed.
func (g *signals) seen() uint64 {
	g.popups.mu.Lock()
	defer g.popups.mu.Unlock()
	return g.changes
}

// DeliverSignal handles a signal; godbus calls it.
func (g *signals) DeliverSignal(iface, member string, sig *dbus.Signal) {
	t := g.popups
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case iface == busName && member == "NameOwnerChanged" && sig.Sender == busName:
		if name, _ := argument[string](sig, 0); name == serverName {
			g.lost(false)
		}
	case iface == serverName && t.server != nil && t.server.bus.signals == g && sig.Sender == t.server.owner && sig.Path == serverPath:
		t.hear(member, sig)
	}
}

// Terminate handles the end of the connection, whatever its cause; godbus calls it.
func (g *signals) Terminate() {
	g.popups.mu.Lock()
	defer g.popups.mu.Unlock()
	g.lost(true)
}

// lost drops the server of this connection. A server that was found on a newer connection stays.
func (g *signals) lost(onlyConnection bool) {
	g.changes++
	if srv := g.popups.server; srv != nil && srv.bus.signals == g {
		g.popups.lose(onlyConnection)
	}
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
		case p.pending:
			p.early, p.buttons = &press{id: id, action: action}, nil
		case p.server == t.server && p.id == id:
			t.answer(p, action)
		}
	}
}

func (t *popupTable) left(id uint32, byHuman bool, at dbus.Sequence) {
	for _, p := range t.all {
		switch {
		case p.server != t.server || p.id != id:
		case p.pending: // the current popup, or already its replacement
			p.gone, p.byHuman = at, byHuman
		default:
			t.end(p, byHuman)
		}
	}
}
