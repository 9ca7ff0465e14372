package desktop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

const short = 200 * time.Millisecond // how long to wait for events that must not come

func TestMain(m *testing.M) {
	if os.Getenv("STEWARD_TEST_ACTIVATED") != "" {
		activated()
		return
	}
	os.Exit(m.Run())
}

// activated runs the notification server that the bus starts.
func activated() {
	conn, err := dbus.Connect(os.Getenv("DBUS_STARTER_ADDRESS"))
	if err != nil {
		os.Exit(1)
	}
	n := &notifyd{name: "activated", open: map[uint32]note{}, signal: make(chan struct{}, 1000)}
	_ = conn.Export(n, serverPath, serverName)
	_, _ = conn.RequestName(serverName, 0)
	<-conn.Context().Done()
}

func show(t *testing.T, p *Popups, key, title string) Proof {
	t.Helper()
	proof, err := p.Show(t.Context(), Message{Key: key, Title: title, Urgency: Normal})
	if err != nil {
		t.Fatal(err)
	}
	return proof
}

func TestShowReplaceWithdraw(t *testing.T) {
	b := startBus(t)
	n := (&notifyd{abilities: []string{"body"}}).serve(t, b)
	p := popupsOn(t, b.address(), 0)
	if err := p.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := show(t, p, "a", "one")
	other := show(t, p, "b", "two")
	again, err := p.Show(t.Context(), Message{Key: "a", Title: "three", Text: "text", Urgency: Critical})
	if err != nil || again.Result != Shown || again.ID != a.ID || a.ID == other.ID || !strings.Contains(again.Detail, "test 1") {
		t.Fatalf("%+v after %+v beside %+v, %v", again, a, other, err)
	}
	want := note{App: "steward", Title: "three", Text: "text", Replaces: 1, Urgency: byte(2), Expire: 0}
	if s := n.screen(); len(s) != 2 || s[1] != want || s[2].Expire != -1 || s[2].Urgency != byte(1) {
		t.Errorf("screen: %+v", s)
	}
	for range 2 { // the second call has nothing to do
		if err := p.Withdraw(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if s := n.screen(); len(s) != 1 || s[2].Title != "two" {
		t.Errorf("screen: %+v", s)
	}
	show(t, p, "a", "four")
	if n.notes()[3].Replaces != 0 {
		t.Errorf("a withdrawn popup was replaced: %+v", n.notes()[3])
	}
}

func TestWithdrawOfClosedPopup(t *testing.T) {
	b := startBus(t)
	n := (&notifyd{}).serve(t, b)
	p := popupsOn(t, b.address(), 0)
	show(t, p, "a", "one")
	n.CloseNotification(1) // closed by the user
	if err := p.Withdraw(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

func TestServerThatRefuses(t *testing.T) {
	for name, n := range map[string]*notifyd{"full": {refuse: true}, "names no popup": {nothing: true}} {
		b := startBus(t)
		n.serve(t, b)
		_, err := popupsOn(t, b.address(), 0).Show(t.Context(), Message{Key: "a", Title: "one"})
		var e *Error
		if !errors.As(err, &e) || errors.Is(err, ErrUnavailable) || e.Hint == "" || e.Op != "show popup" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPausedServer: a paused server gets one message per incident, and its late reply still identifies the popup to
// replace.
func TestPausedServer(t *testing.T) {
	b := startBus(t)
	n := (&notifyd{pause: make(chan struct{})}).serve(t, b)
	p := popupsOn(t, b.address(), 0)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), short)
		_, err := p.Show(ctx, Message{Key: "a", Title: "one"})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
	}
	<-n.signal
	if len(n.signal) != 0 {
		t.Errorf("the paused server got %d more messages", len(n.signal))
	}
	close(n.pause)
	show(t, p, "a", "two")
	if s := n.screen(); len(s) != 1 || s[1].Title != "two" {
		t.Errorf("screen: %+v", s)
	}
}

func TestOwnDeadline(t *testing.T) {
	b := startBus(t)
	n := (&notifyd{pause: make(chan struct{})}).serve(t, b)
	defer close(n.pause)
	_, err := popupsOn(t, b.address(), short).Show(context.Background(), Message{Key: "a", Title: "one"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestWithdrawBeforeTheAnswer(t *testing.T) {
	b := startBus(t)
	n := (&notifyd{pause: make(chan struct{})}).serve(t, b)
	p := popupsOn(t, b.address(), 0)
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	_, _ = p.Show(ctx, Message{Key: "a", Title: "one"})
	<-n.signal
	if err := p.Withdraw(ctx, "a"); err == nil {
		t.Error("withdrawn before the server knew of it")
	}
	close(n.pause)
	eventually(t, "the late popup is closed", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return slices.Equal(n.closed, []uint32{1})
	})
}

func TestSlowServer(t *testing.T) {
	b := startBus(t)
	n := (&notifyd{pause: make(chan struct{})}).serve(t, b)
	p := popupsOn(t, b.address(), 0)
	go func() {
		<-n.signal
		close(n.pause)
	}()
	if proof := show(t, p, "a", "one"); proof.Result != Shown {
		t.Error(proof)
	}
}

// TestRestartedServer: a restarted server counts ids from 1, so our old id is another program's popup.
func TestRestartedServer(t *testing.T) {
	b := startBus(t)
	first := (&notifyd{}).serve(t, b)
	p := popupsOn(t, b.address(), 0)
	show(t, p, "a", "one")
	first.conn.Close()
	eventually(t, "the name is free", func() bool { return errors.Is(p.Probe(t.Context()), ErrUnavailable) })
	if _, err := p.Show(t.Context(), Message{Key: "a", Title: "one"}); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	second := (&notifyd{abilities: []string{"body", "body-markup"}}).serve(t, b)
	second.Notify("other", 0, "", "not ours", "", nil, nil, 0)
	if err := p.Withdraw(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	show(t, p, "b", "two")
	proof, err := p.Show(t.Context(), Message{Key: "a", Title: "three", Text: "a<b"})
	s := second.screen()
	if err != nil || len(s) != 3 || s[1].Title != "not ours" || s[3].Text != "a&lt;b" || !strings.HasSuffix(proof.ID, "/3") {
		t.Errorf("%+v, %v; screen %+v", proof, err, s)
	}
}

func TestRestartWithoutWithdraw(t *testing.T) {
	b := startBus(t)
	first := (&notifyd{}).serve(t, b)
	p := popupsOn(t, b.address(), 0)
	show(t, p, "a", "one")
	first.conn.Close()
	eventually(t, "the name is free", func() bool { return p.Probe(t.Context()) != nil })
	second := (&notifyd{}).serve(t, b)
	second.Notify("other", 0, "", "not ours", "", nil, nil, 0)
	show(t, p, "a", "two")
	if s := second.screen(); len(s) != 2 || s[1].Title != "not ours" {
		t.Errorf("screen: %+v", s)
	}
}

// TestRestartedBus: a restarted bus assigns the same unique names again, so the owner's name alone does not identify
// a server.
func TestRestartedBus(t *testing.T) {
	b := startBus(t)
	(&notifyd{}).serve(t, b)
	p := popupsOn(t, b.address(), 0)
	before := show(t, p, "a", "one")
	b.process.Kill()
	eventually(t, "the bus is gone", func() bool { return errors.Is(p.Probe(t.Context()), ErrUnavailable) })
	b = startBusIn(t, filepath.Dir(b.path))
	n := (&notifyd{}).serve(t, b)
	after := show(t, p, "a", "two")
	if before.ID != after.ID {
		t.Logf("the names differ (%s, %s); the test is weaker than meant", before.ID, after.ID)
	}
	if n.notes()[0].Replaces != 0 {
		t.Errorf("replaces a popup of the old bus: %+v", n.notes()[0])
	}
}

func TestFrozenBus(t *testing.T) {
	b := startBus(t)
	(&notifyd{}).serve(t, b)
	p := popupsOn(t, b.address(), 0)
	show(t, p, "a", "one")
	b.process.Signal(syscall.SIGSTOP)
	for _, key := range []string{"a", "b"} { // on the old connection, then on a new one
		ctx, cancel := context.WithTimeout(t.Context(), short)
		_, err := p.Show(ctx, Message{Key: key, Title: "two"})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", key, err)
		}
	}
	b.process.Signal(syscall.SIGCONT)
	show(t, p, "b", "three")
}

// TestFrozenBusIsReplaced: a permanently frozen bus is abandoned, and the next popup goes to the bus that replaced
// it.
func TestFrozenBusIsReplaced(t *testing.T) {
	b := startBus(t)
	(&notifyd{}).serve(t, b)
	p := popupsOn(t, b.address(), 0)
	show(t, p, "a", "one")
	b.process.Signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	if _, err := p.Show(ctx, Message{Key: "a", Title: "two"}); err == nil {
		t.Error("a frozen bus showed it")
	}
	os.Remove(b.path)
	next := startBusIn(t, filepath.Dir(b.path))
	n := (&notifyd{}).serve(t, next)
	show(t, p, "a", "three")
	if s := n.screen(); len(s) != 1 || n.notes()[0].Replaces != 0 {
		t.Errorf("screen: %+v", s)
	}
}

// TestBusEndsBeforeTheAnswer: the end of the bus during a call does not count as a refusal.
func TestBusEndsBeforeTheAnswer(t *testing.T) {
	b := startBus(t)
	n := (&notifyd{pause: make(chan struct{})}).serve(t, b)
	defer close(n.pause)
	go func() {
		<-n.signal
		b.process.Kill()
	}()
	_, err := popupsOn(t, b.address(), 0).Show(t.Context(), Message{Key: "a", Title: "one"})
	if err == nil || errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "session bus ended") {
		t.Error(err)
	}
}

func BenchmarkShow(b *testing.B) {
	bus := startBus(b)
	(&notifyd{}).serve(b, bus)
	p := popupsOn(b, bus.address(), 0)
	for b.Loop() {
		if _, err := p.Show(b.Context(), Message{Key: "a", Title: "one"}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestNothingHere(t *testing.T) {
	empty := startBus(t)
	dead := filepath.Join(t.TempDir(), "none")
	for name, address := range map[string]string{
		"no bus": "", "no socket": "unix:path=" + dead, "other transport": "tcp:host=localhost,port=1", "no server": empty.address(),
	} {
		p := popupsOn(t, address, 0)
		_, err := p.Show(t.Context(), Message{Key: "a", Title: "one"})
		for _, err := range []error{err, p.Probe(t.Context())} {
			var e *Error
			if !errors.Is(err, ErrUnavailable) || !errors.As(err, &e) || e.Hint == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := p.Withdraw(t.Context(), "a"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBusThatNeverGreets(t *testing.T) {
	dir, _ := os.MkdirTemp("", "bus")
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := popupsOn(t, "unix:path="+l.Addr().String(), short).Probe(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestServerIsStarted(t *testing.T) {
	self, _ := filepath.Abs(os.Args[0])
	b := startBus(t, "[D-BUS Service]\nName="+serverName+"\nExec=/usr/bin/env STEWARD_TEST_ACTIVATED=1 "+self+"\n")
	p := popupsOn(t, b.address(), 0)
	if err := p.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	if proof := show(t, p, "a", "one"); !strings.HasPrefix(proof.Detail, "activated") {
		t.Error(proof)
	}
	broken := startBus(t, "[D-BUS Service]\nName="+serverName+"\nExec=/bin/false\n")
	_, err := popupsOn(t, broken.address(), 0).Show(t.Context(), Message{Key: "a", Title: "one"})
	if err == nil || errors.Is(err, ErrUnavailable) {
		t.Errorf("a server that does not start: %v", err)
	}
}

func TestMarkupAndHostileText(t *testing.T) {
	hostile := "a<b>c</b> & d\x00\x1b[31m\xff\u202egnp\n\n\nend"
	for _, c := range []struct {
		abilities []string
		text      string
	}{
		{[]string{"body"}, "a<b>c</b> & d[31m\ufffdgnp\nend"},
		{[]string{"body", "body-markup"}, "a&lt;b&gt;c&lt;/b&gt; &amp; d[31m\ufffdgnp\nend"},
	} {
		b := startBus(t)
		n := (&notifyd{abilities: c.abilities}).serve(t, b)
		p := popupsOn(t, b.address(), 0)
		if _, err := p.Show(t.Context(), Message{Key: "a\x00", Title: "  t\nwo " + strings.Repeat("é", 200), Text: hostile}); err != nil {
			t.Fatal(err)
		}
		if n.notes()[0].Text != c.text {
			t.Errorf("text %q, want %q", n.notes()[0].Text, c.text)
		}
		if title := n.notes()[0].Title; !strings.HasPrefix(title, "t wo é") || len([]rune(title)) != titleLimit {
			t.Errorf("title %q", title)
		}
	}
}

func TestDoNotDisturb(t *testing.T) {
	for _, c := range []struct {
		server, iface, property string
		on                      bool
		want                    string
	}{
		{"dunst", "org.dunstproject.cmd0", "paused", true, Sent},
		{"dunst", "org.dunstproject.cmd0", "paused", false, Shown},
		{"Plasma", serverName, "Inhibited", true, Sent},
		{"other", serverName, "Inhibited", true, Shown},
	} {
		b := startBus(t)
		n := (&notifyd{name: c.server, abilities: []string{"body"}}).serve(t, b)
		_, err := prop.Export(n.conn, serverPath, prop.Map{c.iface: {c.property: {Value: c.on}}})
		if err != nil {
			t.Fatal(err)
		}
		if proof := show(t, popupsOn(t, b.address(), 0), "a", "one"); proof.Result != c.want {
			t.Errorf("%+v: %+v", c, proof)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	b := startBus(t)
	n := (&notifyd{}).serve(t, b)
	p := popupsOn(t, b.address(), 0)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if i%8 == 7 {
				_ = p.Withdraw(t.Context(), fmt.Sprint(i%4))
				return
			}
			if _, err := p.Show(t.Context(), Message{Key: fmt.Sprint(i % 4), Title: fmt.Sprint(i % 4)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	seen := map[string]int{}
	for _, m := range n.screen() {
		if seen[m.Title]++; seen[m.Title] > 1 {
			t.Errorf("two popups of incident %s", m.Title)
		}
	}
}

func TestMessageWithoutKeyOrTitle(t *testing.T) {
	p := popupsOn(t, "", 0)
	for _, m := range []Message{{Title: "t"}, {Key: "k", Title: " \x00\n"}} {
		if _, err := p.Show(t.Context(), m); err == nil || errors.Is(err, ErrUnavailable) {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

func TestClosed(t *testing.T) {
	b := startBus(t)
	(&notifyd{}).serve(t, b)
	p := popupsOn(t, b.address(), 0)
	show(t, p, "a", "one")
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.Show(t.Context(), Message{Key: "a", Title: "one"}); err == nil {
		t.Error("shown after Close")
	}
}

func FuzzSockets(f *testing.F) {
	for _, s := range []string{"unix:path=/run/user/0/bus", "unix:abstract=x,guid=1;unix:path=%2ftmp", "tcp:host=a", ";;unix:", "unix:path=%zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		for _, s := range sockets(address) {
			if s == "" {
				t.Error("empty socket")
			}
		}
	})
}

func TestSockets(t *testing.T) {
	got := sockets("tcp:host=x;unix:guid=1,path=/a%20b;unix:abstract=c;unix:tmpdir=/d")
	if !slices.Equal(got, []string{"/a b", "@c"}) {
		t.Error(got)
	}
}
