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

// After steward saw its own folder removed, the folder stays away while the rest is being removed, and comes back
// later.
func TestOwnFolderIsNotMadeWhileItIsRemoved(t *testing.T) {
	r := newRoom(t, "{}")
	nothing := func() error { return nil }
	r.do(r.Guarded(t.Context(), nothing))
	r.do(os.RemoveAll(r.path("steward")))
	for range 2 {
		if err := r.Guarded(t.Context(), nothing); !errors.Is(err, protocol.ErrConflict) {
			t.Errorf("a moment after it was removed: %v", err)
		}
	}
	if _, err := os.Stat(r.path("steward")); err == nil {
		t.Error("it is back at once")
	}
	r.Begin(r.Now.Add(ownRests))
	r.do(r.Guarded(t.Context(), nothing))
}

// If a protocol's folder is gone or was moved, steward creates no folder for it.
func TestOwnFolderOfAFolderThatIsGone(t *testing.T) {
	for name, remove := range map[string]func(r *room) error{
		"removed": func(r *room) error { return os.RemoveAll(r.path(".")) },
		"moved":   func(r *room) error { return os.Rename(r.path("."), r.path(".")+".old") },
	} {
		r := newRoom(t, "{}")
		r.do(remove(r))
		if _, err := r.MakeOwn(); !errors.Is(err, protocol.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
		for _, dir := range []string{r.path("."), r.path(".") + ".old/steward"} {
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s: %s is there", name, dir)
			}
		}
	}
}

// A link in the place of steward's folder is not followed.
func TestOwnFolderIsALink(t *testing.T) {
	r := newRoom(t, "{}")
	out := t.TempDir()
	if err := os.Symlink(out, r.path("steward")); err != nil {
		t.Skip(err)
	}
	if _, err := r.MakeOwn(); !errors.Is(err, jsonfile.ErrHostile) {
		t.Errorf("%v, want ErrHostile", err)
	}
	if names, _ := os.ReadDir(out); len(names) > 0 {
		t.Errorf("%s was made outside", names[0].Name())
	}
}

// Steward's folder grants others the same write access as the protocol's.
func TestOwnFolderFollowsTheMode(t *testing.T) {
	for perm, want := range map[os.FileMode]os.FileMode{0o755: 0o755, 0o775: 0o775, 0o777: 0o777} {
		r := newRoom(t, "{}")
		r.do(os.Chmod(r.path("."), perm))
		r.do(r.Guarded(t.Context(), func() error { return nil }))
		if info, err := os.Stat(filepath.Join(r.path("."), "steward")); err != nil || info.Mode().Perm() != want && os.PathSeparator == '/' {
			t.Errorf("in a folder of mode %v: %v, %v", perm, info.Mode(), err)
		}
	}
}

// The removal is also detected before steward has written anything.
func TestOwnFolderThatWasThere(t *testing.T) {
	r := newRoom(t, "")
	r.do(os.MkdirAll(r.path("steward"), 0o755))
	r.do(r.Open())
	r.do(os.RemoveAll(r.path("steward")))
	if _, err := r.MakeOwn(); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("removed before the first change: %v", err)
	}
	r.Begin(time.Now().Add(time.Minute))
	if _, err := r.MakeOwn(); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}

// The removal of a lock file is the beginning of the folder's removal: steward creates nothing in it for a while.
func TestOwnFolderLosesAFile(t *testing.T) {
	for _, name := range []string{"guard.lock", CapacityFile} {
		r := newRoom(t, "{}")
		r.do(os.MkdirAll(r.path("steward"), 0o755))
		r.do(os.WriteFile(r.path("steward/"+name), nil, 0o600))
		r.do(os.WriteFile(r.path("steward/audit.jsonl"), nil, 0o600))
		if _, err := r.MakeOwn(); err != nil {
			t.Errorf("%s is there: %v", name, err)
		}
		r.do(os.Remove(r.path("steward/audit.jsonl")))
		if _, err := r.MakeOwn(); err != nil {
			t.Errorf("a file that may go is gone: %v", err)
		}
		r.do(os.Remove(r.path("steward/" + name)))
		for range 2 {
			if _, err := r.MakeOwn(); !errors.Is(err, protocol.ErrConflict) {
				t.Errorf("%s was removed a moment ago: %v", name, err)
			}
		}
		r.Begin(r.Now.Add(ownRests))
		if _, err := r.MakeOwn(); err != nil {
			t.Errorf("%s was removed a while ago: %v", name, err)
		}
	}
}
