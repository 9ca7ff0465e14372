package desktop

import (
	"testing"

	"github.com/godbus/dbus/v5"
)

// stranger is another program of the same user.
type stranger struct{ conn *dbus.Conn }

func enter(t *testing.T, b *privateBus) *stranger {
	t.Helper()
	conn, err := dbus.Connect(b.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &stranger{conn}
}

// send addresses a signal to one program; match rules do not block such signals. An empty to means a broadcast.
func (s *stranger) send(to, iface, member string, args ...any) {
	path := dbus.ObjectPath(serverPath)
	if iface == busName {
		path = busPath
	}
	m := &dbus.Message{Type: dbus.TypeSignal, Body: args, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldInterface: dbus.MakeVariant(iface), dbus.FieldMember: dbus.MakeVariant(member),
		dbus.FieldPath: dbus.MakeVariant(path), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(args...)),
	}}
	if to != "" {
		m.Headers[dbus.FieldDestination] = dbus.MakeVariant(to)
	}
	s.conn.Send(m, nil)
}

// settled returns when the bus has delivered everything that was sent.
func (s *stranger) settled(t *testing.T) {
	t.Helper()
	if err := s.conn.BusObject().Call(busName+".GetId", 0).Err; err != nil {
		t.Fatal(err)
	}
}

// us returns the name of our own connection on the bus.
func us(p *Popups) string { return p.screen.session.conn.Names()[0] }

// TestForgedPresses: stale, duplicate and forged presses yield no event, and neither does a stranger's forged
// closing or restart.
func TestForgedPresses(t *testing.T) {
	b, n, p := desk(t)
	old := choose(t, p, "a", "x")
	stale := n.key(old, "x")
	a, done := choose(t, p, "a", "x"), choose(t, p, "done", "x")
	key, spent := n.key(a, "x"), n.key(done, "x")
	n.tell("ActionInvoked", done, spent)
	wants(t, p, Event{Kind: Pressed, Key: "done", Action: "x!"})
	evil := enter(t, b)
	const each = 500
	for range each {
		n.tell("ActionInvoked", a, stale)
		n.tell("ActionInvoked", done, spent)
		evil.send(us(p), serverName, "ActionInvoked", a, key) // the valid key: a bus monitor can see it
		evil.send(us(p), serverName, "NotificationClosed", a, uint32(byHuman))
		evil.send("", serverName, "ActionInvoked", a, key)
		evil.send(us(p), busName, "NameOwnerChanged", serverName, n.conn.Names()[0], "")
	}
	evil.settled(t)
	onlyThis(t, n, p)
	n.press(a, key) // still shown, with a working button
	wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
}
