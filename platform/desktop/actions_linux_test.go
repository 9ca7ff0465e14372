package desktop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// desk returns a private bus, a server with buttons, and Popups.
func desk(t *testing.T) (*privateBus, *notifyd, *Popups) {
	t.Helper()
	b := startBus(t)
	n := (&notifyd{abilities: []string{"body", "actions"}}).serve(t, b)
	return b, n, popupsOn(t, b.address(), 0)
}

// choose shows a popup with buttons and returns its id on the server.
func choose(t *testing.T, p *Popups, key string, options ...string) uint32 {
	t.Helper()
	m := Message{Key: key, Title: key}
	for _, o := range options {
		m.Actions = append(m.Actions, Action{ID: o + "!", Label: o})
	}
	proof, err := p.Show(t.Context(), m)
	if err != nil || !proof.Actions {
		t.Fatalf("%+v, %v", proof, err)
	}
	return number(t, proof)
}

func number(t *testing.T, proof Proof) (id uint32) {
	t.Helper()
	if _, err := fmt.Sscan(proof.ID[strings.LastIndexByte(proof.ID, '/')+1:], &id); err != nil {
		t.Fatal(err)
	}
	return id
}

// next returns the next event.
func next(t *testing.T, p *Popups) Event {
	t.Helper()
	select {
	case e := <-p.Events():
		return e
	case <-time.After(watchdog):
		t.Fatal("no event came")
		panic("unreachable")
	}
}

// wants receives the wanted events in any order.
func wants(t *testing.T, p *Popups, want ...Event) {
	t.Helper()
	var got []Event
	for range want {
		e := next(t, p)
		if age := time.Since(e.At); age < 0 || age > watchdog {
			t.Errorf("%+v happened %v ago", e, age)
		}
		e.At = time.Time{}
		got = append(got, e)
	}
	slices.SortFunc(got, func(a, b Event) int { return strings.Compare(a.Key, b.Key) })
	if !slices.Equal(got, want) {
		t.Errorf("events %+v, want %+v", got, want)
	}
}

// onlyThis checks that there was no earlier event: signals of one server arrive in order, so this press is the next
// event.
func onlyThis(t *testing.T, n *notifyd, p *Popups) {
	t.Helper()
	id := choose(t, p, "barrier", "go")
	n.press(id, n.key(id, "go"))
	wants(t, p, Event{Kind: Pressed, Key: "barrier", Action: "go!"})
}

func TestPress(t *testing.T) {
	_, n, p := desk(t)
	m := Message{Key: "a", Title: "one", Actions: []Action{
		{"1", "Try\nagain\x00"}, {"no label", " \u202e"}, {"", "no id"}, {"default", strings.Repeat("é", 60)}, {"3", "<b>c"}, {"4", "fourth"},
	}}
	proof, err := p.Show(t.Context(), m)
	if err != nil || !proof.Actions || proof.Result != Shown {
		t.Fatalf("%+v, %v", proof, err)
	}
	id := number(t, proof)
	want := []string{"Try again", strings.Repeat("é", labelLimit-1) + "…", "<b>c"}
	if got := n.shown(id); !slices.Equal(got, want) {
		t.Errorf("buttons %q, want %q", got, want)
	}
	for _, label := range want {
		if key := n.key(id, label); len(key) < 16 {
			t.Errorf("key %q can be guessed", key)
		}
	}
	other := choose(t, p, "b", "x")
	n.press(id, n.key(id, want[1]))
	n.press(other, n.key(other, "x"))
	wants(t, p, Event{Kind: Pressed, Key: "a", Action: "default"}, Event{Kind: Pressed, Key: "b", Action: "x!"})
	onlyThis(t, n, p) // a closing caused by a press is not an event
	again := choose(t, p, "a", "y")
	if n.notes()[3].Replaces != 0 {
		t.Error("a popup that went with its press was replaced")
	}
	n.press(again, n.key(again, "y"))
	wants(t, p, Event{Kind: Pressed, Key: "a", Action: "y!"})
}

func TestButtonsAreNotAlwaysOffered(t *testing.T) {
	button := []Action{{"1", "x"}}
	for name, c := range map[string]struct {
		abilities []string
		actions   []Action
	}{
		"a server without buttons": {[]string{"body"}, button},
		"a message without any":    {[]string{"actions"}, nil},
		"none that can be shown":   {[]string{"actions"}, []Action{{"", "x"}, {"1", ""}}},
	} {
		b := startBus(t)
		n := (&notifyd{abilities: c.abilities}).serve(t, b)
		proof, err := popupsOn(t, b.address(), 0).Show(t.Context(), Message{Key: "a", Title: "one", Actions: c.actions})
		if err != nil || proof.Actions || proof.Result != Shown || len(n.shown(1)) != 0 {
			t.Errorf("%s: %+v, %v, buttons %q", name, proof, err, n.shown(1))
		}
	}
}

// TestPressesThatDoNotCount: a press is invalid if its message was replaced, withdrawn or pressed before, or if it
// belongs to another popup.
func TestPressesThatDoNotCount(t *testing.T) {
	_, n, p := desk(t)
	a, b := choose(t, p, "a", "x"), choose(t, p, "b", "x")
	old, keyB := n.key(a, "x"), n.key(b, "x")
	if choose(t, p, "a", "x") != a || n.key(a, "x") == old {
		t.Fatal("not replaced in place with new keys")
	}
	fresh := n.key(a, "x")
	n.tell("ActionInvoked", a, old)
	n.tell("ActionInvoked", a, keyB)
	n.tell("ActionInvoked", b, fresh)
	n.tell("ActionInvoked", uint32(99), fresh)
	n.tell("ActionInvoked", a, "x!")
	n.tell("ActionInvoked", a, "default")
	n.tell("ActionInvoked", fresh, a)
	n.tell("ActionInvoked")
	onlyThis(t, n, p)
	n.tell("ActionInvoked", a, fresh)
	n.tell("ActionInvoked", a, fresh)
	wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
	onlyThis(t, n, p)
	if err := p.Withdraw(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	n.tell("ActionInvoked", b, keyB)
	a = choose(t, p, "a", "x")
	fresh = n.key(a, "x")
	if _, err := p.Show(t.Context(), Message{Key: "a", Title: "without buttons"}); err != nil {
		t.Fatal(err)
	}
	n.tell("ActionInvoked", a, fresh)
	onlyThis(t, n, p)
}

// newTable returns the popups of a server that never answers.
func newTable() (*popupTable, *server) {
	t := &popupTable{out: newOutbox()}
	srv := &server{actions: true}
	t.install(srv, 0)
	return t, srv
}

// TestButtonOfWithdrawnPopup: a popup whose withdrawal failed stays on the screen; its button has no effect, even
// when the popup is wanted again.
func TestButtonOfWithdrawnPopup(t *testing.T) {
	table, srv := newTable()
	a, _, buttons := table.offer(srv, "a", []Action{{"1", "x"}})
	if _, err := table.record(a, srv, &dbus.Call{Body: []any{uint32(1)}}); err != nil {
		t.Fatal(err)
	}
	table.revoke("a")
	table.pressed(1, buttons[0])
	table.offer(srv, "a", nil)
	table.pressed(1, buttons[0])
	if n := len(table.out.events); n != 0 {
		t.Errorf("%d events; want none", n)
	}
}

func TestClosings(t *testing.T) {
	_, n, p := desk(t)
	for reason := range uint32(5) {
		key := fmt.Sprint(reason)
		id := choose(t, p, key, "x")
		token := n.key(id, "x")
		n.tell("NotificationClosed", id, reason)
		if reason == byHuman {
			wants(t, p, Event{Kind: Closed, Key: key})
		}
		n.tell("ActionInvoked", id, token)
		onlyThis(t, n, p)
		if choose(t, p, key, "x") == id {
			t.Errorf("reason %d: a closed popup was replaced", reason)
		}
		if err := p.Withdraw(t.Context(), key); err != nil {
			t.Error(err)
		}
		onlyThis(t, n, p)
	}
	plain := number(t, show(t, p, "plain", "without buttons"))
	n.tell("NotificationClosed", plain, uint32(byHuman))
	wants(t, p, Event{Kind: Closed, Key: "plain"})
}

// TestClosedWhileReplaced: a closing during a replacement concerns the old popup if it came before the reply.
func TestClosedWhileReplaced(t *testing.T) {
	for at, want := range map[dbus.Sequence]int{4: 0, 6: 1} {
		table, srv := newTable()
		table.all["a"] = &popup{key: "a", id: 1}
		a, _, _ := table.offer(srv, "a", []Action{{"1", "x"}})
		table.left(1, true, at)
		if _, err := table.record(a, srv, &dbus.Call{Body: []any{uint32(1)}, ResponseSequence: 5}); err != nil {
			t.Fatal(err)
		}
		if n := len(table.out.events); n != want || (a.id == 0) != (want == 1) {
			t.Errorf("closed at %d: %d events, popup %+v", at, n, a)
		}
	}
}

// TestPressBeforeTheAnswer: a server may show a popup and report its press before it replies.
func TestPressBeforeTheAnswer(t *testing.T) {
	_, n, p := desk(t)
	n.before(func(id uint32) { n.press(id, n.key(id, "x")) })
	choose(t, p, "a", "x")
	wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
	n.before(func(id uint32) { n.tell("ActionInvoked", id+1, n.key(id, "x")) })
	choose(t, p, "b", "x")
	n.before(nil)
	onlyThis(t, n, p)

	paused := make(chan struct{})
	n.before(func(id uint32) {
		<-paused
		n.press(id, n.key(id, "x"))
	})
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	if _, err := p.Show(ctx, Message{Key: "c", Title: "c", Actions: []Action{{"1", "x"}}}); err == nil {
		t.Fatal("shown by a paused server")
	}
	if err := p.Withdraw(ctx, "c"); err == nil {
		t.Error("withdrawn before the server knew of it")
	}
	close(paused)
	eventually(t, "the press of a withdrawn popup is refused, the popup closed", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.closed) == 1
	})
	n.before(nil)
	onlyThis(t, n, p)
}

// TestRestartLosesPopups: a restarted server counts ids from 1, so our ids now mean popups of other programs or
// incidents.
func TestRestartLosesPopups(t *testing.T) {
	lost := []Event{{Kind: Lost, Key: "a"}, {Kind: Lost, Key: "b"}}
	for name, restart := range map[string]func(*testing.T, *privateBus, *notifyd) *notifyd{
		"gives the name up and takes it again": func(t *testing.T, _ *privateBus, n *notifyd) *notifyd {
			_, _ = n.conn.ReleaseName(serverName)
			n.mu.Lock()
			n.last = 0
			n.mu.Unlock()
			_, _ = n.conn.RequestName(serverName, 0)
			return n
		},
		"ends": func(t *testing.T, b *privateBus, n *notifyd) *notifyd {
			n.conn.Close()
			second := &notifyd{abilities: n.abilities}
			eventually(t, "the name is free", func() bool { return second.try(b) })
			return second
		},
		"ends with its bus": func(t *testing.T, b *privateBus, n *notifyd) *notifyd {
			b.process.Kill()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, n, p := desk(t)
			a := choose(t, p, "a", "x")
			show(t, p, "b", "b")
			gone := choose(t, p, "gone", "x")
			old, pressed := n.key(a, "x"), n.key(gone, "x")
			n.tell("ActionInvoked", gone, pressed)
			wants(t, p, Event{Kind: Pressed, Key: "gone", Action: "x!"})
			n = restart(t, b, n)
			wants(t, p, lost...)
			if n == nil {
				b = startBusIn(t, filepath.Dir(b.path))
				n = (&notifyd{abilities: []string{"actions"}}).serve(t, b)
			}
			if c := choose(t, p, "c", "y"); c != a {
				t.Fatalf("the new server did not count from 1 (%d, %d)", a, c)
			}
			n.tell("ActionInvoked", a, old)
			onlyThis(t, n, p)
			again := choose(t, p, "a", "x")
			if again == a {
				t.Error("replaced another incident's popup")
			}
			n.press(again, n.key(again, "x"))
			wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
		})
	}
}

// TestServerThatChangesWhileItOpens: an id from a server that loses its name before it replies is invalid.
func TestServerThatChangesWhileItOpens(t *testing.T) {
	for times, want := range map[int]string{1: "", 9: errEnded.Error()} {
		_, n, p := desk(t)
		var left atomic.Int32
		left.Store(int32(times))
		n.before(func(uint32) {
			if left.Add(-1) >= 0 {
				_, _ = n.conn.ReleaseName(serverName)
				_, _ = n.conn.RequestName(serverName, 0)
			}
		})
		proof, err := p.Show(t.Context(), Message{Key: "a", Title: "a", Actions: []Action{{"1", "x"}}})
		if want != "" {
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, errEnded) || e.Hint == "" {
				t.Errorf("%+v, %v", proof, err)
			}
			continue
		}
		if err != nil || number(t, proof) != 2 {
			t.Errorf("%+v, %v", proof, err)
		}
		n.tell("ActionInvoked", uint32(1), n.key(1, "x"))
		onlyThis(t, n, p)
	}
}

// TestServerThatKeepsChanging: a server that keeps changing is an error, not an endless search.
func TestServerThatKeepsChanging(t *testing.T) {
	_, n, p := desk(t)
	var most atomic.Int32
	most.Store(100)
	n.mu.Lock()
	n.asked = func() {
		if most.Add(-1) >= 0 {
			_, _ = n.conn.ReleaseName(serverName)
			_, _ = n.conn.RequestName(serverName, 0)
		}
	}
	n.mu.Unlock()
	_, err := p.Show(t.Context(), Message{Key: "a", Title: "a"})
	var e *Error
	if !errors.As(err, &e) || e.Hint == "" || !strings.Contains(err.Error(), "keeps changing") {
		t.Error(err)
	}
	most.Store(1)
	if id := choose(t, p, "a", "x"); id != 1 {
		t.Errorf("popup %d", id)
	}
	onlyThis(t, n, p)
}

func TestIdleAndClosed(t *testing.T) {
	desk(t)
	before := runtime.NumGoroutine()
	p := NewPopups()
	if events := p.Events(); events == nil || runtime.NumGoroutine() > before {
		t.Error("something runs before the first popup")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, ok := <-p.Events(); ok {
		t.Error("an event of popups that never were")
	}
	b, n, p := desk(t)
	id := choose(t, p, "a", "x")
	conn := p.screen.session.conn
	token := n.key(id, "x")
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	n.press(id, token)
	b.process.Kill()
	if e, ok := <-p.Events(); ok {
		t.Errorf("after Close: %+v", e)
	}
	if conn.Connected() {
		t.Error("the connection outlives Close")
	}
}

func TestEventsThatNobodyTakes(t *testing.T) {
	_, n, p := desk(t)
	const most = outboxSize + 10
	for i := range most {
		id := choose(t, p, fmt.Sprint(i), "x")
		n.press(id, n.key(id, "x"))
	}
	barrier := choose(t, p, "barrier", "x") // its reply follows all presses
	if err := p.Withdraw(t.Context(), "barrier"); err != nil || barrier == 0 {
		t.Fatal(err)
	}
	for i := range outboxSize {
		if e := next(t, p); e.Key != fmt.Sprint(i) {
			t.Fatalf("%+v as number %d", e, i)
		}
	}
	onlyThis(t, n, p)
}
