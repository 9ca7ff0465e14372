package desktop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// victims returns the keys that a victim shows in turn.
func victims() []string { return []string{"a", "b", "c"} }

// startVictim starts a process that shows popups until it is killed.
func startVictim(t *testing.T, b *privateBus, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STEWARD_TEST_VICTIM="+dir, "DBUS_SESSION_BUS_ADDRESS="+b.address())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// victim is the process that startVictim starts. It ends with the bus.
func victim(dir string) {
	p := NewPopupsIn(dir)
	for i := 0; ; i++ {
		key := victims()[i%len(victims())]
		_, err := p.Show(context.Background(), Message{Key: key, Title: key})
		if err == nil && i%5 == 4 {
			err = p.Withdraw(context.Background(), key)
		}
		if err != nil {
			os.Exit(1)
		}
	}
}

// TestFileThatCannotBeUsed: an unusable file yields no popups and does not prevent new ones.
func TestFileThatCannotBeUsed(t *testing.T) {
	b, n, good := office(t)
	p := run(t, b, good)
	choose(t, p, "a", "x")
	die(p)
	text, err := os.ReadFile(filepath.Join(good, bookFile))
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) func(path string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for name, prepare := range map[string]func(path string) error{
		"missing":        func(string) error { return nil },
		"empty":          write(""),
		"torn":           write(string(text[:len(text)/2])),
		"two in one":     write(string(text) + string(text)),
		"another format": write(strings.Replace(string(text), `"format":1`, `"format":2`, 1)),
		"no format":      write(`{"popups":[{"key":"a"}]}`),
		"another thing":  write(`["a"]`),
		"huge":           write(string(text) + strings.Repeat(" ", maxBook)),
		"too many":       write(`{"format":1,"popups":[` + strings.Repeat(`{"key":"a"},`, maxMarks) + `{"key":"a"}]}`),
		"a pipe":         func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a leftover": func(path string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(path), bookTemp), []byte("x"), 0o400)
		},
		"a link":        func(path string) error { return os.Symlink(filepath.Join(good, bookFile), path) },
		"unreadable id": write(strings.Replace(string(text), `"id":1`, `"id":-1`, 1)),
		"another's key": write(`{"format":1,"popups":[{"key":""},{"key":"` + strings.Repeat("k", maxKey+1) + `"}]}`),
	} {
		dir := t.TempDir()
		if err := prepare(filepath.Join(dir, bookFile)); err != nil {
			t.Fatal(err)
		}
		p := run(t, b, dir)
		if keys := p.Inherited(); keys != nil {
			t.Errorf("%s: inherited %q", name, keys)
		}
		if id := choose(t, p, "a", "x"); id == 1 {
			t.Errorf("%s: touched popup 1", name)
		}
		if keys := remembered(dir); !slices.Equal(keys, []string{"a"}) || p.Tally().Unsaved != 0 {
			t.Errorf("%s: remembered %q, %+v", name, keys, p.Tally())
		}
		p.Close()
	}
	if got, _ := os.ReadFile(filepath.Join(good, bookFile)); string(got) != string(text) || n.screen()[1].Title != "a" {
		t.Error("the file behind the link was written")
	}
}

func TestFileThatCannotBeWritten(t *testing.T) {
	b, n, _ := office(t)
	taken := t.TempDir()
	if err := os.MkdirAll(filepath.Join(taken, bookFile, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{taken, filepath.Join(taken, "none")} {
		p := run(t, b, dir)
		id := choose(t, p, "a", "x")
		if p.Tally().Unsaved != 1 {
			t.Errorf("%+v", p.Tally())
		}
		n.press(id, n.key(id, "x"))
		wants(t, p, Event{Kind: Pressed, Key: "a", Action: "x!"})
	}
}

// TestBookIsBounded: the number of recorded popups is limited, whatever the keys; the newest are kept.
func TestBookIsBounded(t *testing.T) {
	b, n, dir := office(t)
	p := run(t, b, dir)
	title := "t"
	for i := range maxMarks + 20 {
		show(t, p, fmt.Sprint(i)+strings.Repeat("\x01", maxKey-4), title)
	}
	for _, key := range []string{strings.Repeat("k", maxKey+1), "no text \xff"} {
		show(t, p, key, title)
	}
	f, err := os.Stat(filepath.Join(dir, bookFile))
	if err != nil || f.Size() > maxBook {
		t.Fatal(f.Size(), err)
	}
	keys := remembered(dir)
	if len(keys) != maxMarks || !strings.HasPrefix(keys[0], "20\x01") || !utf8.ValidString(keys[maxMarks-1]) {
		t.Errorf("%d remembered, from %q", len(keys), keys[:min(1, len(keys))])
	}
	die(p)
	p = run(t, b, dir)
	if err := p.Withdraw(t.Context(), keys[0]); err != nil || len(n.screen()) != maxMarks+21 {
		t.Errorf("%v, %d popups", err, len(n.screen()))
	}
}

// TestLateAnswerIsRemembered: a reply that arrives after its caller gave up is recorded, and so is an earlier
// withdrawal.
func TestLateAnswerIsRemembered(t *testing.T) {
	for _, withdrawn := range []bool{false, true} {
		b := startBus(t)
		n := (&notifyd{pause: make(chan struct{})}).serve(t, b)
		dir := t.TempDir()
		p := run(t, b, dir)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-n.signal
			cancel()
		}()
		if _, err := p.Show(ctx, Message{Key: "a", Title: "a"}); err == nil {
			t.Error("shown by a paused server")
		}
		if withdrawn && p.Withdraw(ctx, "a") == nil {
			t.Error("withdrawn before the server knew of it")
		}
		w := p.screen.window("a")
		close(n.pause)
		w.turn <- struct{}{} // free after the late reply
		if s := n.screen(); (remembered(dir) == nil) != withdrawn || (len(s) == 0) != withdrawn {
			t.Errorf("withdrawn %v: remembered %q, screen %+v", withdrawn, remembered(dir), s)
		}
		<-w.turn
	}
}

// TestOneIDForTwoKeys: a server that returns an id twice has replaced the popup: the two keys do not share it.
func TestOneIDForTwoKeys(t *testing.T) {
	b, n, dir := office(t)
	p := run(t, b, dir)
	id := choose(t, p, "a", "x")
	n.mu.Lock()
	n.last = 0
	n.mu.Unlock()
	if choose(t, p, "b", "x") != id {
		t.Fatal("the server gave another id")
	}
	for range 2 {
		die(p)
		p = run(t, b, dir)
		if keys := p.Inherited(); !slices.Equal(keys, []string{"a", "b"}) || choose(t, p, "b", "x") != id {
			t.Errorf("inherited %q", keys)
		}
		wants(t, p, Event{Kind: Lost, Key: "a"})
	}
	if choose(t, p, "a", "x") == id {
		t.Error("the two share a popup")
	}
	n.mu.Lock()
	n.last = 0
	n.mu.Unlock()
	if choose(t, p, "c", "x") != id {
		t.Fatal("the server gave another id")
	}
	if err := p.Withdraw(t.Context(), "b"); err != nil || n.screen()[id].Title != "c" {
		t.Errorf("%v; screen %+v", err, n.screen())
	}
}

// TestDiskThatHangs: a hanging disk blocks neither popups nor presses.
func TestDiskThatHangs(t *testing.T) {
	b, n, dir := office(t)
	p := run(t, b, dir)
	other := choose(t, p, "b", "x")
	p.book.writer.Lock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shown := make(chan error)
	go func() {
		_, err := p.Show(ctx, Message{Key: "a", Title: "a", Actions: []Action{{"1", "x"}}})
		shown <- err
	}()
	eventually(t, "the popup stands", func() bool { srv, _ := p.screen.stands(p.screen.window("a")); return srv != nil })
	cancel()
	if err := <-shown; err != nil {
		t.Error(err)
	}
	n.press(2, n.key(2, "x"))
	wants(t, p, Event{Kind: Pressed, Key: "a", Action: "1"})
	n.press(other, n.key(other, "x"))
	wants(t, p, Event{Kind: Pressed, Key: "b", Action: "x!"})
	p.book.writer.Unlock()
	eventually(t, "written after all", func() bool { return slices.Equal(remembered(dir), []string{"b", "a"}) })
}

func FuzzBook(f *testing.F) {
	f.Add([]byte(`{"format":1,"popups":[{"key":"a","bus":"0","owner":":1.1","id":7},{"key":"b","bus":"0","owner":":1.1","id":7},{"key":"a"}]}`))
	f.Add([]byte(`{"format":1,"popups":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all := decodeMarks(text)
		keys, popups := map[string]bool{}, map[popupRef]bool{}
		for _, e := range all {
			if e.Key == "" || keys[e.Key] || e.ID != 0 && popups[e.popupRef] {
				t.Errorf("%+v in %+v", e, all)
			}
			keys[e.Key], popups[e.popupRef] = true, true
		}
		dir := t.TempDir()
		if err := writeMarks(dir, all); err != nil || !slices.Equal(readMarks(dir), all) {
			t.Errorf("%v: read %+v, wrote %+v", err, readMarks(dir), all)
		}
	})
}

// TestAlertsAreRemembered: alerter's popups are recorded by their keys alone.
func TestAlertsAreRemembered(t *testing.T) {
	_, b := alerting(t)
	dir := t.TempDir()
	b.book = newBook(dir)
	for _, m := range []Message{{Key: "a", Title: "t", Actions: []Action{{"1", "x"}}}, {Key: "b", Title: "t"}} {
		if _, err := b.show(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if keys := remembered(dir); !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("remembered %q", keys)
	}
	b.close()
	scripts, alerters := t.TempDir(), `case $1 in --remove=*) exit;; esac; echo @CLOSED`
	t.Setenv("PATH", toolbox(t, scripts, map[string]string{"alerter": alerters}))
	next := &banner{settle: time.Second, out: newOutbox(), book: newBook(dir)}
	if err := next.withdraw(t.Context(), "a"); err != nil || !slices.Equal(remembered(dir), []string{"b"}) {
		t.Errorf("%v; remembered %q", err, remembered(dir))
	}
	next.settle = watchdog
	if _, err := next.show(t.Context(), Message{Key: "b", Title: "t"}); err != nil || remembered(dir) != nil {
		t.Errorf("closed at once: %v; remembered %q", err, remembered(dir))
	}
}
