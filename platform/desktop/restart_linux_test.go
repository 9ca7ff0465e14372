package desktop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
)

// breakConnection ends the connection; bus and server live on.
func breakConnection(p *Popups) {
	p.screen.finder.turn <- struct{}{}
	defer func() { <-p.screen.finder.turn }()
	if p.screen.finder.bus != nil {
		p.screen.finder.bus.sock.Close()
	}
}

// TestRestart: a later run shows an incident again, and its buttons work. A run that ends in order takes its popups
// along; after a kill they stay, and their buttons have no effect.
func TestRestart(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*Popups)
		left int
	}{"killed": {breakConnection, 2}, "ended": {func(p *Popups) { p.Close() }, 0}} {
		t.Run(name, func(t *testing.T) {
			b, n, p := desk(t)
			old := choose(t, p, "a", "x")
			show(t, p, "plain", "without buttons")
			stale := n.key(old, "x")
			c.end(p)
			eventually(t, "what stays", func() bool { return len(n.screen()) == c.left })
			p = popupsOn(t, b.address(), 0)
			id := choose(t, p, "a", "x")
			if n.notes()[2].Replaces != 0 || len(n.screen()) != c.left+1 {
				t.Errorf("replaced %d; screen %+v", n.notes()[2].Replaces, n.screen())
			}
			n.tell("ActionInvoked", old, stale)
			onlyThis(t, n, p)
			n.press(id, n.key(id, "x"))
			wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
		})
	}
}

// TestConnectionBreaks: the connection breaks, but the server lives: lost popups are found again, and the next message
// takes their place. That also holds for a server that refuses to replace a popup of another connection, and on a bus
// whose id is unknown no popup of another program is touched.
func TestConnectionBreaks(t *testing.T) {
	for _, denies := range []bool{false, true} {
		b := startBus(t)
		n := (&notifyd{abilities: []string{"actions"}, denies: denies}).serve(t, b)
		p := popupsOn(t, b.address(), 0)
		choose(t, p, "a", "x")
		gone := choose(t, p, "b", "x")
		breakConnection(p)
		wants(t, p, Event{Kind: Lost, Key: "a"}, Event{Kind: Lost, Key: "b"})
		a := choose(t, p, "a", "x")
		if err := p.Withdraw(t.Context(), "b"); err != nil || n.screen()[gone].Title != "" {
			t.Errorf("%v; screen %+v", err, n.screen())
		}
		if s := n.screen(); len(s) != 1 || s[a].Title != "a" {
			t.Errorf("denies %v: screen %+v", denies, s)
		}
		if choose(t, p, "a", "x") != a {
			t.Error("a popup of this connection was not replaced in place")
		}
		n.press(a, n.key(a, "x"))
		wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
	}
}

// TestServerRestartsAfterBreak: an id from before the break means nothing to a server that gave its name up since.
func TestServerRestartsAfterBreak(t *testing.T) {
	_, n, p := desk(t)
	choose(t, p, "a", "x")
	breakConnection(p)
	wants(t, p, Event{Kind: Lost, Key: "a"})
	show(t, p, "b", "b") // on the new connection
	_, _ = n.conn.ReleaseName(serverName)
	n.mu.Lock()
	n.last = 0
	clear(n.open)
	n.mu.Unlock()
	n.Notify("", "other", 0, "", "not ours", "", nil, nil, 0)
	_, _ = n.conn.RequestName(serverName, 0)
	wants(t, p, Event{Kind: Lost, Key: "a"}, Event{Kind: Lost, Key: "b"})
	if id := choose(t, p, "a", "x"); id != 2 || n.screen()[1].Title != "not ours" {
		t.Errorf("popup %d; screen %+v", id, n.screen())
	}
}

// TestOneIDForTwoKeys: a server that returns an id twice has replaced the popup: the two keys do not share it.
func TestOneIDForTwoKeys(t *testing.T) {
	_, n, p := desk(t)
	again := func(key string) uint32 {
		n.mu.Lock()
		n.last = 0
		n.mu.Unlock()
		return choose(t, p, key, "x")
	}
	id := choose(t, p, "a", "x")
	if again("b") != id {
		t.Fatal("the server gave another id")
	}
	if choose(t, p, "a", "x") == id {
		t.Error("the two share a popup")
	}
	if again("c") != id {
		t.Fatal("the server gave another id")
	}
	if err := p.Withdraw(t.Context(), "b"); err != nil || n.screen()[id].Title != "c" {
		t.Errorf("%v; screen %+v", err, n.screen())
	}
}

// TestManyBreaks: whatever the order of messages, withdrawals and broken connections, the screen has exactly one popup
// for each incident that is shown.
func TestManyBreaks(t *testing.T) {
	_, n, p := desk(t)
	keys := []string{"a", "b", "c", "d"}
	want := map[string]bool{}
	dice := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		for range dice.IntN(4) {
			key := keys[dice.IntN(len(keys))]
			if dice.IntN(4) > 0 {
				show(t, p, key, key)
				want[key] = true
			} else if err := p.Withdraw(t.Context(), key); err != nil {
				t.Fatal(err)
			} else {
				delete(want, key)
			}
		}
		breakConnection(p)
		seen := map[string]bool{}
		for _, m := range n.screen() {
			if seen[m.Title] {
				t.Fatalf("two popups of %s", m.Title)
			}
			seen[m.Title] = true
		}
		if fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Fatalf("screen %v, want %v", seen, want)
		}
	}
}

// TestWithdrawOnFrozenBus: no popup that may still be shown is forgotten.
func TestWithdrawOnFrozenBus(t *testing.T) {
	b, n, p := desk(t)
	id := choose(t, p, "a", "x")
	b.process.Signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	if err := p.Withdraw(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	b.process.Signal(syscall.SIGCONT)
	if err := p.Withdraw(t.Context(), "a"); err != nil || n.screen()[id].Title != "" {
		t.Errorf("%v; screen %+v", err, n.screen())
	}
	choose(t, p, "b", "x")
	b.process.Kill()
	<-n.conn.Context().Done()
	eventually(t, "the bus is gone, and its popups with it", func() bool { return p.Withdraw(t.Context(), "b") == nil })
}

func TestQuiet(t *testing.T) {
	_, n, p := desk(t)
	button := []Action{{"1", "x"}}
	for i, c := range []struct {
		m       Message
		urgency Urgency
	}{
		{Message{Urgency: Normal}, Normal}, {Message{Urgency: Normal, Quiet: true}, Low},
		{Message{Urgency: Normal, Quiet: true, Actions: button}, Normal}, {Message{Urgency: Critical, Quiet: true}, Critical},
	} {
		c.m.Key, c.m.Title = fmt.Sprint(i), "t"
		if _, err := p.Show(t.Context(), c.m); err != nil {
			t.Fatal(err)
		}
		if got := n.notes()[i]; got.Urgency != byte(c.urgency) || (got.Quiet == true) != c.m.Quiet {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
