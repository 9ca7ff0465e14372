package desktop

import (
	"context"

	"github.com/godbus/dbus/v5"
)

// byHuman is the NotificationClosed reason for a popup that the user closed. Other reasons are 1: expired, 3: closed
// by a program (we, or any other of this user), 4: undefined.
const byHuman = 2

// The bus delivers the signals that these rules match. A well-known name as sender means its current owner. The rules
// are no protection: any program can address a signal to us directly, whatever the rules.
const (
	serverRule = "type='signal',sender='" + serverName + "',interface='" + serverName + "',path='" + serverPath + "'"
	ownerRule  = "type='signal',sender='" + busName + "',interface='" + busName + "',member='NameOwnerChanged',arg0='" + serverName + "'"
)

// signals receives the signals of one connection. godbus calls it from the reading goroutine, one signal at a time,
// and each is evaluated at once: nothing queues up, and a legitimate press never waits behind forged ones. (godbus's
// own handlers queue, or start goroutines for, any signal.)
type signals struct {
	screen  *screen
	changes uint64 // number of changes of the name's owner; guarded by screen.mu
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
func (e *signals) seen() uint64 {
	e.screen.mu.Lock()
	defer e.screen.mu.Unlock()
	return e.changes
}

// DeliverSignal handles a signal; godbus calls it.
func (e *signals) DeliverSignal(iface, member string, sig *dbus.Signal) {
	s := e.screen
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case iface == busName && member == "NameOwnerChanged" && sig.Sender == busName:
		if name, _ := argument[string](sig, 0); name == serverName {
			e.lost(false)
		}
	case iface != serverName || member != "ActionInvoked" && member != "NotificationClosed":
	case s.server == nil || s.server.bus.ear != e || sig.Sender != s.server.owner || sig.Path != serverPath:
		s.out.refused.Add(1)
	default:
		s.hear(member, sig)
	}
}

// Terminate handles the end of the connection, whatever its cause; godbus calls it.
func (e *signals) Terminate() {
	e.screen.mu.Lock()
	defer e.screen.mu.Unlock()
	e.lost(true)
}

// lost drops the server of this connection; unheard means that only the connection ended. A server that was found on
// a newer connection stays.
func (e *signals) lost(unheard bool) {
	e.changes++
	if srv := e.screen.server; srv != nil && srv.bus.ear == e {
		e.screen.lose(unheard)
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
func (s *screen) hear(member string, sig *dbus.Signal) {
	id, ok := argument[uint32](sig, 0)
	if !ok {
		return
	}
	if token, ok := argument[string](sig, 1); ok && member == "ActionInvoked" {
		s.pressed(id, token)
	}
	if reason, ok := argument[uint32](sig, 1); ok && member == "NotificationClosed" {
		s.left(id, reason == byHuman, sig.Sequence)
	}
}

func (s *screen) pressed(id uint32, token string) {
	for _, w := range s.windows {
		action, ok := w.buttons[token]
		switch {
		case ok && w.pending:
			w.early, w.buttons = &press{id: id, action: action}, nil
			return
		case ok && w.server == s.server && w.id == id:
			s.answer(w, action)
			return
		case ok, w.server == s.server && w.id == id: // button of another popup or of an older message, or pressed before
			s.out.refused.Add(1)
			return
		}
	}
}

func (s *screen) left(id uint32, byHuman bool, at dbus.Sequence) {
	for _, w := range s.windows {
		switch {
		case w.server != s.server || w.id != id:
		case w.pending: // the current popup, or already its replacement
			w.gone, w.byHuman = at, byHuman
		default:
			s.end(w, byHuman)
		}
	}
}
