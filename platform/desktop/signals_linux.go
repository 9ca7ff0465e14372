package desktop

import (
	"context"

	"github.com/godbus/dbus/v5"
)

// byHuman is the reason of NotificationClosed for a popup that the human closed. The others are 1: expired,
// 3: a program closed it (we, or any other of this user), 4: undefined.
const byHuman = 2

// The bus passes on what these rules name. A sender that is a well-known name means whoever owns it at that moment.
// They are no defence: any program can address a signal to us alone, whatever we asked for.
const (
	serverRule = "type='signal',sender='" + serverName + "',interface='" + serverName + "',path='" + serverPath + "'"
	ownerRule  = "type='signal',sender='" + busName + "',interface='" + busName + "',member='NameOwnerChanged',arg0='" + serverName + "'"
)

// signals hears the signals of one connection. godbus calls it from the goroutine that reads, one signal after the other,
// and each is judged at once: so nothing piles up, and an honest press never waits behind forged ones. (The handlers
// that godbus brings queue, or start goroutines for, whatever anybody sends.)
type signals struct {
	screen  *screen
	changes uint64 // of the name's owner; guarded by screen.mu
}

// listen asks the bus for the signals. A bus that refuses leaves us without buttons, not without popups.
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

// seen is how often the server's name has changed hands.
func (e *signals) seen() uint64 {
	e.screen.mu.Lock()
	defer e.screen.mu.Unlock()
	return e.changes
}

// DeliverSignal is called by godbus.
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

// Terminate is called by godbus when the connection ends, whoever ended it.
func (e *signals) Terminate() {
	e.screen.mu.Lock()
	defer e.screen.mu.Unlock()
	e.lost(true)
}

// lost ends the server of this connection, or only the connection. A server that was found on a newer one lives on.
func (e *signals) lost(unheard bool) {
	e.changes++
	if srv := e.screen.server; srv != nil && srv.bus.ear == e {
		e.screen.lose(unheard)
	}
}

// argument gives one argument of a signal, if it is there and of that type.
func argument[T any](sig *dbus.Signal, i int) (value T, ok bool) {
	if i < len(sig.Body) {
		value, ok = sig.Body[i].(T)
	}
	return value, ok
}

// hear judges a signal of our server. It tells every program of every popup, so most are none of ours.
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
		case ok, w.server == s.server && w.id == id: // another popup's button; one of an older message, or pressed before
			s.out.refused.Add(1)
			return
		}
	}
}

func (s *screen) left(id uint32, byHuman bool, at dbus.Sequence) {
	for _, w := range s.windows {
		switch {
		case w.server != s.server || w.id != id:
		case w.pending: // this one, or already the one that replaces it
			w.gone, w.byHuman = at, byHuman
		default:
			s.end(w, byHuman)
		}
	}
}
