package desktop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// run returns Popups with state in dir.
func run(t *testing.T, b *privateBus, dir string) *Popups {
	t.Helper()
	p := NewPopupsIn(dir)
	p.screen.address = b.address
	p.limit = watchdog
	t.Cleanup(func() { p.Close() })
	return p
}

// die ends a run like a kill: nothing more is written, and the bus sees the connection close.
func die(p *Popups) {
	p.book.writer.Lock()
	p.book.mu.Lock()
	p.book.shut = true
	p.book.mu.Unlock()
	p.book.writer.Unlock()
	p.screen.turn <- struct{}{}
	defer func() { <-p.screen.turn }()
	if p.screen.bus != nil {
		p.screen.bus.close()
	}
}

// remembered returns the keys that the next run would inherit.
func remembered(dir string) []string { return NewPopupsIn(dir).Inherited() }

// office returns a server with buttons on its own bus, and a state folder.
func office(t *testing.T) (*privateBus, *notifyd, string) {
	b := startBus(t)
	return b, (&notifyd{abilities: []string{"body", "actions"}}).serve(t, b), t.TempDir()
}

func TestRestart(t *testing.T) {
	for name, end := range map[string]func(*Popups){"killed": die, "ended": func(p *Popups) { p.Close() }} {
		t.Run(name, func(t *testing.T) {
			b, n, dir := office(t)
			p := run(t, b, dir)
			if keys := p.Inherited(); keys != nil {
				t.Errorf("inherited from nobody: %q", keys)
			}
			idA, idB := choose(t, p, "a", "x"), choose(t, p, "b", "x")
			old := n.key(idA, "x")
			end(p)

			p = run(t, b, dir)
			if keys := p.Inherited(); !slices.Equal(keys, []string{"a", "b"}) {
				t.Fatalf("inherited %q", keys)
			}
			if id := choose(t, p, "a", "x"); id != idA || len(n.screen()) != 2 || n.notes()[2].Replaces != idA {
				t.Errorf("popup %d in place of %d; screen %+v", id, idA, n.screen())
			}
			fresh := n.key(idA, "x")
			n.tell("ActionInvoked", idA, old)
			n.tell("ActionInvoked", idB, n.key(idB, "x"))
			onlyThis(t, n, p)
			n.press(idA, fresh)
			wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
			if got := p.Tally(); got != (Tally{Refused: 2}) {
				t.Errorf("%+v, want 2 refused", got)
			}
			if err := p.Withdraw(t.Context(), "b"); err != nil {
				t.Error(err)
			}
			if s := n.screen(); s[idB].Title != "" {
				t.Errorf("not withdrawn: %+v", s)
			}
			if keys := remembered(dir); slices.Contains(keys, "b") {
				t.Errorf("remembered %q", keys)
			}
		})
	}
}

// TestWhatIsRemembered: a popup is removed from the file when it closes; a pressed popup is removed once it was
// handled.
func TestWhatIsRemembered(t *testing.T) {
	b, n, dir := office(t)
	p := run(t, b, dir)
	forgets := func(what string) {
		t.Helper()
		eventually(t, what, func() bool { return remembered(dir) == nil })
	}
	info := func() os.FileInfo {
		f, err := os.Lstat(filepath.Join(dir, bookFile))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	id := choose(t, p, "a", "x")
	first := info()
	choose(t, p, "a", "y")
	if first.Mode() != 0o600 || !os.SameFile(first, info()) {
		t.Errorf("%v, or written though nothing has changed", first.Mode())
	}
	n.tell("NotificationClosed", id, uint32(byHuman))
	forgets("a closed popup")
	wants(t, p, Event{Kind: Closed, Key: "a"})
	id = choose(t, p, "a", "x")
	n.tell("NotificationClosed", id, uint32(1))
	forgets("an expired popup")

	id = choose(t, p, "a", "x")
	n.press(id, n.key(id, "x"))
	wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
	show(t, p, "b", "b") // this also writes earlier changes
	if err := p.Withdraw(t.Context(), "b"); err != nil || !slices.Equal(remembered(dir), []string{"a"}) {
		t.Errorf("%v; a kill would swallow the press: remembered %q", err, remembered(dir))
	}
	if err := p.Withdraw(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	forgets("a press that was dealt with")
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left in the folder: %v", left)
	}
}

// TestLostBetweenRuns: the server or the bus (at the same address) restarts between the runs, so our ids mean other
// popups.
func TestLostBetweenRuns(t *testing.T) {
	for name, restart := range map[string]func(*testing.T, *privateBus, *notifyd) (*privateBus, *notifyd){
		"server": func(t *testing.T, b *privateBus, n *notifyd) (*privateBus, *notifyd) {
			n.conn.Close()
			second := &notifyd{abilities: n.abilities}
			eventually(t, "the name is free", func() bool { return second.try(b) })
			return b, second
		},
		"bus": func(t *testing.T, b *privateBus, n *notifyd) (*privateBus, *notifyd) {
			owner := n.conn.Names()[0]
			b.process.Kill()
			<-n.conn.Context().Done()
			b = startBusIn(t, filepath.Dir(b.path))
			n = (&notifyd{abilities: n.abilities}).serve(t, b)
			if got := n.conn.Names()[0]; got != owner {
				t.Fatalf("the server is %s, was %s: this proves nothing", got, owner)
			}
			return b, n
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, n, dir := office(t)
			p := run(t, b, dir)
			choose(t, p, "a", "x")
			choose(t, p, "b", "x")
			choose(t, p, "c", "x")
			die(p)
			b, n = restart(t, b, n)
			for range 3 {
				n.Notify("", "other", 0, "", "not ours", "", nil, nil, 0)
			}

			p = run(t, b, dir)
			if err := p.Withdraw(t.Context(), "c"); err != nil {
				t.Error(err)
			}
			wants(t, p, Event{Kind: Lost, Key: "a"}, Event{Kind: Lost, Key: "b"})
			die(p) // before any popup was shown again
			p = run(t, b, dir)
			if keys := p.Inherited(); !slices.Equal(keys, []string{"a", "b"}) {
				t.Errorf("what was lost is forgotten: %q", keys)
			}
			if id := choose(t, p, "b", "x"); id != 4 {
				t.Errorf("popup %d", id)
			}
			wants(t, p, Event{Kind: Lost, Key: "a"}) // b has already been shown again
			onlyThis(t, n, p)
			s := n.screen()
			for id := range uint32(3) {
				if s[id+1].Title != "not ours" {
					t.Errorf("somebody else's popup was touched: %+v", s)
				}
			}
		})
	}
}

// TestLostWithinTheLastRun: a server that released its name and took it again restarts its ids under the same unique
// name.
func TestLostWithinTheLastRun(t *testing.T) {
	b, n, dir := office(t)
	p := run(t, b, dir)
	choose(t, p, "a", "x")
	n.conn.ReleaseName(serverName)
	n.mu.Lock()
	n.last = 0
	n.mu.Unlock()
	n.Notify("", "other", 0, "", "not ours", "", nil, nil, 0)
	n.conn.RequestName(serverName, 0)
	wants(t, p, Event{Kind: Lost, Key: "a"})
	eventually(t, "noted", func() bool { return readMarks(dir)[0].ID == 0 })
	die(p)
	p = run(t, b, dir)
	show(t, p, "b", "b")
	wants(t, p, Event{Kind: Lost, Key: "a"})
	if id := choose(t, p, "a", "x"); id != 3 || n.screen()[1].Title != "not ours" {
		t.Errorf("popup %d; screen %+v", id, n.screen())
	}
}

// TestBusWithoutID: on a bus without an id, no popup id is reused in a later run.
func TestBusWithoutID(t *testing.T) {
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	deny := `<busconfig><policy context="mandatory"><deny send_interface="` + busName + `" send_member="GetId"/></policy></busconfig>`
	if err := os.WriteFile(filepath.Join(dir, "limits.conf"), []byte(deny), 0o600); err != nil {
		t.Fatal(err)
	}
	b := startBusIn(t, dir)
	n := (&notifyd{abilities: []string{"actions"}}).serve(t, b)
	state := t.TempDir()
	p := run(t, b, state)
	first := choose(t, p, "a", "x")
	if choose(t, p, "a", "x") != first {
		t.Error("not replaced within a run")
	}
	die(p)
	p = run(t, b, state)
	show(t, p, "b", "b")
	wants(t, p, Event{Kind: Lost, Key: "a"})
	if choose(t, p, "a", "x") == first {
		t.Error("an id without a life was used")
	}
	onlyThis(t, n, p)
	die(p)
	if err := os.WriteFile(filepath.Join(state, bookFile), []byte(`{"format":1,"popups":[{"key":"a","id":1}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if choose(t, run(t, b, state), "a", "x") == first {
		t.Error("an id without a life was used")
	}
}

// TestMarksOfOtherLives: an id is valid only for the same instance of the server.
func TestMarksOfOtherLives(t *testing.T) {
	b, n, dir := office(t)
	p := run(t, b, dir)
	id := choose(t, p, "a", "x")
	die(p)
	text, err := os.ReadFile(filepath.Join(dir, bookFile))
	if err != nil {
		t.Fatal(err)
	}
	guid, owner := readMarks(dir)[0].Bus, readMarks(dir)[0].Owner
	for name, other := range map[string]string{
		"another bus":    strings.Replace(string(text), guid, strings.Repeat("0", len(guid)), 1),
		"another server": strings.Replace(string(text), owner, ":9.9", 1),
		"no bus":         strings.Replace(string(text), guid, "", 1),
		"no server":      strings.Replace(string(text), owner, "", 1),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, bookFile), []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		p := run(t, b, dir)
		if err := p.Probe(t.Context()); err != nil || len(p.Inherited()) != 1 {
			t.Fatal(err, p.Inherited())
		}
		if fresh := choose(t, p, "a", "x"); fresh == id {
			t.Errorf("%s: touched", name)
		}
		p.Close()
	}
	if n.screen()[id].Title != "a" {
		t.Error("gone")
	}
	p = run(t, b, dir)
	if err := p.Withdraw(t.Context(), "a"); err != nil || n.screen()[id].Title != "" {
		t.Errorf("the untouched file does not count: %v", err)
	}
}

// TestClosedBetweenRuns: the server does not know a popup that was closed between the runs; it opens a new one, or
// reuses the id.
func TestClosedBetweenRuns(t *testing.T) {
	for _, renews := range []bool{true, false} {
		b := startBus(t)
		n := (&notifyd{abilities: []string{"actions"}, renews: renews}).serve(t, b)
		dir := t.TempDir()
		p := run(t, b, dir)
		id := choose(t, p, "a", "x")
		die(p)
		n.CloseNotification(id)
		p = run(t, b, dir)
		again := choose(t, p, "a", "x")
		if (again != id) != renews || len(n.screen()) != 1 {
			t.Errorf("renews %v: %d after %d; %+v", renews, again, id, n.screen())
		}
		die(p)
		p = run(t, b, dir)
		if keys := p.Inherited(); !slices.Equal(keys, []string{"a"}) {
			t.Errorf("inherited %q", keys)
		}
		if got := choose(t, p, "a", "x"); got != again || len(n.screen()) != 1 {
			t.Errorf("renews %v: %d after %d; %+v", renews, got, again, n.screen())
		}
		n.press(again, n.key(again, "x"))
		wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
	}
}

// TestServerThatKeepsIDsApart: a server that rejects ids of other connections gets a new popup, which is then
// recorded.
func TestServerThatKeepsIDsApart(t *testing.T) {
	b := startBus(t)
	n := (&notifyd{abilities: []string{"actions"}, denies: true}).serve(t, b)
	dir := t.TempDir()
	p := run(t, b, dir)
	id := choose(t, p, "a", "x")
	die(p)
	p = run(t, b, dir)
	again := choose(t, p, "a", "x")
	if s := n.screen(); again == id || len(s) != 1 {
		t.Errorf("popup %d after %d; screen %+v", again, id, s)
	}
	if choose(t, p, "a", "x") != again || readMarks(dir)[0].ID != again {
		t.Errorf("remembered %+v", readMarks(dir))
	}
	for len(n.signal) > 0 {
		<-n.signal
	}
	n.mu.Lock()
	n.refuse = true
	n.mu.Unlock()
	if _, err := p.Show(t.Context(), Message{Key: "a", Title: "a"}); err == nil || len(n.signal) != 1 {
		t.Errorf("%v after %d messages; a refusal of our own popup is one", err, len(n.signal))
	}
}

// TestKilledBeforeTheID covers the kill that no order of writes can handle: the popup is open, and its id is not on
// disk.
func TestKilledBeforeTheID(t *testing.T) {
	for abilities, want := range map[string]int{"actions": 2, "actions " + stackTag: 1} {
		b := startBus(t)
		n := (&notifyd{abilities: strings.Fields(abilities)}).serve(t, b)
		dir := t.TempDir()
		p := run(t, b, dir)
		n.before(func(uint32) { die(p) })
		if _, err := p.Show(t.Context(), Message{Key: "a", Title: "a"}); err == nil {
			t.Error("a dead run has shown it")
		}
		n.before(nil)
		for range 3 {
			p = run(t, b, dir)
			choose(t, p, "a", "x")
			die(p)
		}
		if s := n.screen(); len(s) != want {
			t.Errorf("%s: %d popups, want %d: %+v", abilities, len(s), want, s)
		}
		for _, m := range n.notes() {
			if m.Replaces != 0 && m.Tag != nil {
				t.Errorf("a tag beside an id: %+v", m)
			}
		}
		// The id on disk stays valid during a replacement.
		p = run(t, b, dir)
		n.before(func(uint32) { die(p) })
		p.Show(t.Context(), Message{Key: "a", Title: "a"})
		n.before(nil)
		p = run(t, b, dir)
		choose(t, p, "a", "x")
		if s := n.screen(); len(s) != want {
			t.Errorf("%s: %d popups, want %d: %+v", abilities, len(s), want, s)
		}
	}
}

func TestManyRestarts(t *testing.T) {
	b, n, dir := office(t)
	keys := []string{"a", "b", "c", "d"}
	dice := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		p := run(t, b, dir)
		for range dice.IntN(4) {
			key := keys[dice.IntN(len(keys))]
			if dice.IntN(4) > 0 {
				show(t, p, key, key)
			} else if err := p.Withdraw(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		die(p)
		seen := map[string]uint32{}
		for id, m := range n.screen() {
			if seen[m.Title] != 0 {
				t.Fatalf("two popups of %s", m.Title)
			}
			seen[m.Title] = id
		}
		for _, e := range readMarks(dir) {
			if seen[e.Key] != e.ID {
				t.Fatalf("remembered %+v, screen %v", e, seen)
			}
			delete(seen, e.Key)
		}
		if len(seen) != 0 {
			t.Fatalf("not remembered: %v", seen)
		}
	}
}

// TestKill kills a process at random moments while it shows popups as fast as it can.
func TestKill(t *testing.T) {
	b := startBus(t)
	n := (&notifyd{abilities: []string{"actions", stackTag}}).serve(t, b)
	dir := t.TempDir()
	for range 12 {
		victim := startVictim(t, b, dir)
		most := len(n.notes()) + 5 + rand.IntN(20)
		eventually(t, "popups of the victim", func() bool { return len(n.notes()) >= most })
		time.Sleep(rand.N(2 * time.Millisecond)) // to vary the moment of the kill; the result does not depend on it
		victim.Process.Kill()
		victim.Wait()
	}
	p := run(t, b, dir)
	for _, key := range victims() {
		show(t, p, key, key)
	}
	if s := n.screen(); len(s) != len(victims()) {
		t.Errorf("%d popups, want %d: %+v", len(s), len(victims()), s)
	}
	if left, _ := os.ReadDir(dir); len(left) > 2 {
		t.Errorf("left in the folder: %v", left)
	}
}

// TestConnectionBreaks: the connection breaks, but the server lives: lost popups are found again and replaced in
// place.
func TestConnectionBreaks(t *testing.T) {
	b := startBus(t)
	n := (&notifyd{abilities: []string{"actions"}}).serve(t, b)
	for _, p := range []*Popups{popupsOn(t, b.address(), 0), run(t, b, t.TempDir())} {
		n.before(nil)
		stood := len(n.screen())
		a, gone := choose(t, p, "a", "x"), choose(t, p, "b", "x")
		p.screen.bus.sock.Close()
		wants(t, p, Event{Kind: Lost, Key: "a"}, Event{Kind: Lost, Key: "b"})
		if again := choose(t, p, "a", "x"); again != a {
			t.Errorf("popup %d beside %d", again, a)
		}
		if err := p.Withdraw(t.Context(), "b"); err != nil || n.screen()[gone].Title != "" {
			t.Errorf("%v; screen %+v", err, n.screen())
		}
		if len(n.screen()) != stood+1 {
			t.Errorf("screen %+v", n.screen())
		}
		n.press(a, n.key(a, "x"))
		wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
		p.Close()
	}
}

// TestWithdrawOfInherited: with a missing or hanging server, no popup that may still be shown is forgotten.
func TestWithdrawOfInherited(t *testing.T) {
	b, n, dir := office(t)
	p := run(t, b, dir)
	id := choose(t, p, "a", "x")
	die(p)
	b.process.Signal(syscall.SIGSTOP)
	p = run(t, b, dir)
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	if err := p.Withdraw(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	b.process.Signal(syscall.SIGCONT)
	die(p)
	p = run(t, b, dir)
	if err := p.Withdraw(t.Context(), "a"); err != nil || n.screen()[id].Title != "" || remembered(dir) != nil {
		t.Errorf("%v; screen %+v; remembered %q", err, n.screen(), remembered(dir))
	}
	choose(t, p, "b", "x")
	die(p)
	b.process.Kill()
	<-n.conn.Context().Done()
	p = run(t, b, dir)
	eventually(t, "the bus is gone, and its popups with it", func() bool { return p.Withdraw(t.Context(), "b") == nil })
	if keys := remembered(dir); keys != nil {
		t.Errorf("remembered %q", keys)
	}
}

func TestQuiet(t *testing.T) {
	b, n, _ := office(t)
	p := popupsOn(t, b.address(), 0)
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
		if got := n.notes()[i]; got.Urgency != byte(c.urgency) || (got.Quiet == true) != c.m.Quiet || got.Tag != nil {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
