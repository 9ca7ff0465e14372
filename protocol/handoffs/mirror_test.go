package handoffs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

const mirrorText = `{"locks": {"a": {"agent": "builder", "acquired": "2026-01-02T03:04:05Z", "expires": "2026-01-02T03:34:05Z", "fence": 1790000000000007, "pid": 42}}, "agents": {"builder": {"status": "idle"}}}`

// The mirror of a real lock shows its process and the end of its whole lease. It is not released while the lock is held;
// a mirror with another fencing token is not completed.
func TestMirrorsOfRealLocks(t *testing.T) {
	s := newSite(t, file(statePath, mirrorText))
	process := protocol.Identity{PID: 42, Start: 1, Boot: "b"}
	ends := time.Date(2026, 1, 2, 3, 5, 5, 0, time.UTC)
	real := protocol.Lock{Resource: "a", Holder: "builder", Fence: 1790000000000007, Process: process, Expires: ends, Kernel: true}
	s.p = New(s.Dir, Options{Granted: func(resource string) (protocol.Lock, bool) { return real, resource == "a" }})
	t.Cleanup(s.p.Close)
	snap := s.look()
	if l := snap.Locks[0]; l.Process != process || !l.Expires.Equal(ends) || l.Fence != 1790000000000007 || l.Kernel {
		t.Errorf("%+v", l)
	}
	if err := s.apply(unlockChange(snap, "a")); !errors.Is(err, protocol.ErrConflict) || s.Read(statePath) != mirrorText {
		t.Errorf("held: %v, %s", err, s.Read(statePath))
	}
	for what, change := range map[string]func(){
		"another number": func() { real.Fence = 1790000000000008 },
		"another agent":  func() { real.Holder, real.Fence = "fixer", 1790000000000007 },
		"another host":   func() { real.Holder, real.Process = "builder", protocol.Identity{} },
	} {
		before := real
		change()
		if l := s.look().Locks[0]; l.Process.Proves() || l.Expires.Equal(ends) {
			t.Errorf("%s: %+v", what, l)
		}
		real = before
	}
	real.Kernel = false
	if err := s.apply(unlockChange(s.look(), "a")); err != nil || strings.Contains(s.Read(statePath), "fence") {
		t.Errorf("nobody holds it: %v, %s", err, s.Read(statePath))
	}
}

// Renewing a mirrored entry is no sign of its agent's life; taking a lock is.
func TestMirrorsAreNoSignOfLife(t *testing.T) {
	s := newSite(t, file(statePath, mirrorText))
	signs := func() string { a, _ := s.look().Agent("builder"); return a.Signs }
	first := signs()
	s.Write(statePath, strings.Replace(mirrorText, "03:34:05", "03:49:05", 1))
	if signs() != first {
		t.Error("prolonging it counts")
	}
	s.Do(s.apply(unlockChange(s.look(), "a")))
	if signs() != first {
		t.Error("that it was taken away counts")
	}
	s.Write(statePath, strings.Replace(mirrorText, `"fence": 1790000000000007`, `"fence": 1790000000000008`, 1))
	if signs() == first {
		t.Error("taking a lock does not count")
	}
}
