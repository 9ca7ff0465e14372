package desktop

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

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
func us(p *Popups) string { return p.screen.bus.conn.Names()[0] }

// TestForgedPresses: 10,000 stale, duplicate and forged presses yield no event, and neither does a stranger's forged
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
	const each = 2000
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
	if got := p.Tally(); got.Refused < 4*each || got.Dropped != 0 {
		t.Errorf("%+v, want %d refused", got, 4*each)
	}
	n.press(a, key) // still shown, with a working button
	wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
}

// TestPressDuringFlood: while a stranger sends as fast as it can, legitimate presses arrive and nothing grows.
func TestPressDuringFlood(t *testing.T) {
	b, n, p := desk(t)
	id := choose(t, p, "a", "x")
	evil, to, target := enter(t, b), us(p), id
	var stop atomic.Bool
	ended := make(chan int)
	go func() {
		sent := 0
		for ; !stop.Load(); sent++ {
			evil.send(to, serverName, "ActionInvoked", target, "forged")
		}
		ended <- sent
	}()
	eventually(t, "the flood", func() bool { return p.Tally().Refused > 1000 })
	before := runtime.NumGoroutine()
	var worst time.Duration
	for range 20 {
		token := n.key(id, "x")
		begin := time.Now()
		n.press(id, token)
		wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
		worst = max(worst, time.Since(begin))
		id = choose(t, p, "a", "x")
	}
	grown := runtime.NumGoroutine() - before
	stop.Store(true)
	t.Logf("%d forged signals; slowest press %v", <-ended, worst)
	if grown > 10 {
		t.Errorf("%d goroutines more", grown)
	}
	if got := p.Tally(); got.Dropped != 0 {
		t.Errorf("%+v", got)
	}
}

// BenchmarkForgedPress measures the cost of a stranger's signal without reading it.
func BenchmarkForgedPress(b *testing.B) {
	s := newScreen(newOutbox())
	e := &signals{screen: s}
	s.server = &server{bus: &bus{ear: e}, owner: ":1.1"}
	sig := &dbus.Signal{Sender: ":1.2", Path: serverPath, Name: serverName + ".ActionInvoked", Body: []any{uint32(1), "x"}}
	for b.Loop() {
		e.DeliverSignal(serverName, "ActionInvoked", sig)
	}
}
