package folder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

func TestAttempts(t *testing.T) {
	dir := t.TempDir()
	root, err := jsonfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := os.Mkdir(filepath.Join(dir, "own"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, p := NewAttempts("own/attempts"), &jsonfile.TolerantReader{}
	refresh := func() []protocol.Attempt {
		t.Helper()
		now = now.Add(time.Minute)
		p.Begin(now)
		l.Refresh(root, p, now)
		return l.Of("a.b")
	}
	if got := refresh(); len(got) != 0 {
		t.Fatalf("an empty record has %v", got)
	}
	c := protocol.Change{Subject: protocol.Subject{Kind: protocol.KindTask, ID: "a.b"}, Entry: protocol.Entry{Attempt: 1, Rule: "code=AGENT_LOST", Code: "AGENT_LOST"}, Agent: "builder"}
	for range 2 { // a crash came between, and it is entered again
		if err := l.Enter(root, c, now); err != nil {
			t.Fatal(err)
		}
	}
	if got := refresh(); len(got) != 1 || got[0].Committed || got[0].Rule != c.Rule || got[0].Agent != "builder" {
		t.Fatalf("after Enter: %+v", got)
	}
	for range 2 {
		if err := l.Commit(root, c); err != nil {
			t.Fatal(err)
		}
	}
	if got := refresh(); len(got) != 1 || !got[0].Committed || got[0].Code != "AGENT_LOST" {
		t.Fatalf("after Commit: %+v", got)
	}
	if err := l.Enter(root, c, now); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("the same attempt again: %v", err)
	}
	c.Attempt = 2
	if err := l.Commit(root, c); err == nil {
		t.Error("an attempt that was never entered was committed")
	}
	if err := os.WriteFile(filepath.Join(dir, "own/attempts/a.b.2.sched.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := refresh(); len(got) != 2 || got[1].N != 2 || got[1].Action != protocol.ActionRetry || !got[1].Unread || got[0].Unread {
		t.Errorf("a damaged entry gives its attempt away: %+v", got)
	}
	if l.stamp != (jsonfile.Stamp{}) || p.Calm() {
		t.Error("what could not be read is not read again")
	}
	if err := os.Rename(filepath.Join(dir, "own/attempts/a.b.2.sched.json"), filepath.Join(dir, "own/attempts/other")); err != nil {
		t.Fatal(err)
	}
	if got := refresh(); len(got) != 1 || !p.Calm() {
		t.Errorf("a file that is gone is a fault for ever: %+v", p.Troubles())
	}
	if bad := (protocol.Change{Subject: protocol.Subject{ID: "../x"}, Entry: protocol.Entry{Attempt: 1}}); l.Enter(root, bad, now) == nil {
		t.Error("a hostile id went on record")
	}
}

// An entry of a newer steward counts as an attempt, its words do not, and the file stays.
func TestAttemptOfANewerSteward(t *testing.T) {
	dir := t.TempDir()
	root, err := jsonfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	file := filepath.Join(dir, "attempts", "a.1.sched.json")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	const text = `{"version": 2, "action": "stop", "rule": "new"}`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	l, p, now := NewAttempts("attempts"), &jsonfile.TolerantReader{}, time.Now()
	p.Begin(now)
	l.Refresh(root, p, now)
	if got := l.Of("a"); len(got) != 1 || got[0].Rule != "" || got[0].Action != protocol.ActionRetry {
		t.Errorf("%+v", got)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != text {
		t.Errorf("%s, %v", data, err)
	}
}
