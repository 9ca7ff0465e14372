package desktop

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// breakConnection ends the connection; bus and server live on.
func breakConnection(p *Popups) {
	p.screen.turn <- struct{}{}
	defer func() { <-p.screen.turn }()
	p.screen.session.sock.Close()
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

// TestConnectionBreaks: the connection breaks, but the server lives. The popups count as lost, because their presses do
// not reach the next connection, and the next message opens another popup with buttons that work.
func TestConnectionBreaks(t *testing.T) {
	_, n, p := desk(t)
	old := choose(t, p, "a", "x")
	choose(t, p, "b", "x")
	stale := n.key(old, "x")
	breakConnection(p)
	wants(t, p, Event{Kind: Lost, Key: "a"}, Event{Kind: Lost, Key: "b"})
	if err := p.Withdraw(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	a := choose(t, p, "a", "x")
	if a == old || n.notes()[2].Replaces != 0 {
		t.Errorf("popup %d replaced popup %d of the broken connection", a, n.notes()[2].Replaces)
	}
	n.tell("ActionInvoked", old, stale)
	onlyThis(t, n, p)
	n.press(a, n.key(a, "x"))
	wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
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
