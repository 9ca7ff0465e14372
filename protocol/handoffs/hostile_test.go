package handoffs

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// Anything but a regular file in a file's place is a fault that names its kind. Steward does not follow it, and does not
// hang.
func TestHostileFiles(t *testing.T) {
	for what, make := range map[string]func(at string) error{
		"symbolic link": func(at string) error { return os.Symlink("/etc/passwd", at) },
		"FIFO":          func(at string) error { return syscall.Mkfifo(at, 0o644) },
		"folder":        func(at string) error { return os.Mkdir(at, 0o755) },
		"too big":       func(at string) error { return os.Truncate(at, maxFile+1) },
	} {
		t.Run(what, func(t *testing.T) {
			s := newSite(t, file(statePath, stateText)+file(boxPath(pending, id), task(id, "pending"))+file(boxPath(completed, "z"), task("z", "completed")))
			s.look()
			places := []string{statePath, boxPath(pending, id), boxPath(completed, "z")}
			for _, f := range places {
				if what != "too big" {
					s.Do(os.Remove(s.Path(f)))
				}
				s.Do(make(s.Path(f)))
			}
			for _, hints := range [][]string{nil, {}, places} {
				s.Now = s.Now.Add(time.Second)
				if snap := s.at(hints); len(snap.Faults) != 3 || len(snap.Tasks)+len(snap.Agents)+len(snap.Locks) > 0 {
					t.Fatalf("%+v", snap)
				} else if !strings.Contains(fmt.Sprint(snap.Faults), what) {
					t.Errorf("%+v", snap.Faults)
				}
			}
			s.reopen()
			s.look()
			for _, f := range places {
				s.Do(os.RemoveAll(s.Path(f)))
			}
			s.Write(statePath, stateText)
			s.Write(boxPath(pending, id), task(id, "pending"))
			if snap := s.look(); len(snap.Faults) > 0 || len(snap.Tasks) != 1 || len(snap.Agents) != 2 {
				t.Errorf("repaired: %+v", snap)
			}
		})
	}
}

func TestLinkedFolders(t *testing.T) {
	for _, at := range []string{Base, Base + "/handoffs", Base + "/handoffs/pending"} {
		s := newSite(t, file("away/handoffs/pending/x.json", task("x", "pending"))+file("away/pending/x.json", task("x", "pending"))+file("away/x.json", task("x", "pending")))
		s.Do(os.MkdirAll(s.Path(at), 0o755))
		s.Do(os.Remove(s.Path(at)))
		s.Do(os.Symlink(s.Path("away"), s.Path(at)))
		if snap := s.look(); len(snap.Tasks) > 0 || len(snap.Faults) == 0 {
			t.Errorf("%s: %+v", at, snap)
		}
		if at != Base+"/handoffs" && !Detect(s.Dir) {
			t.Errorf("%s: nobody would hear of it", at)
		}
		if err := s.boot("builder"); err == nil {
			t.Errorf("%s: booted through a link", at)
		}
	}
}

// Without root: a file that may not be read is a fault that names the permission, and its last good content stays known.
func TestWithoutPermission(t *testing.T) { protocoltest.AsNobody(t, withoutPermission) }

func withoutPermission(t *testing.T) {
	s := newSite(t, "")
	s.Write(statePath, stateText)
	s.Write(boxPath(accepted, id), task(id, "accepted"))
	c := requeueChange(s.look(), id)
	u := unlockChange(s.look(), "src/a.go")
	for _, f := range []string{statePath, boxPath(accepted, id)} {
		s.Do(os.Chmod(s.Path(f), 0))
	}
	snap := s.look()
	if len(snap.Faults) != 2 || len(snap.Agents) != 2 || len(snap.Tasks) != 1 {
		t.Errorf("unreadable: %+v", snap)
	}
	for _, f := range snap.Faults {
		if !strings.Contains(f.Problem+f.Hint, "permission") {
			t.Errorf("%+v", f)
		}
	}
	for _, change := range []protocol.Change{c, u} {
		if err := s.apply(change); err == nil || errors.Is(err, protocol.ErrConflict) || !errors.Is(err, jsonfile.ErrPermission) {
			t.Errorf("%s: %v", change.Verb, err)
		}
	}
	for _, f := range []string{statePath, boxPath(accepted, id)} {
		s.Do(os.Chmod(s.Path(f), 0o644))
	}
	if snap := s.look(); len(snap.Faults) > 0 || len(snap.Locks) != 2 || taskOf(snap, id).Named == "" {
		t.Errorf("readable again: %+v", snap)
	}
	s.Do(os.Chmod(s.Path(Base+"/handoffs/accepted"), 0))
	if snap := s.look(); len(snap.Faults) == 0 || len(snap.Tasks) != 1 {
		t.Errorf("a folder that may not be searched: %+v", snap)
	}
	s.Do(os.Chmod(s.Path(Base+"/handoffs/accepted"), 0o755))
	if snap := s.look(); len(snap.Faults) > 0 || len(snap.Tasks) != 1 {
		t.Errorf("and again: %+v", snap)
	}
}

// Invalid names, incomplete documents, and more entries than the limits allow.
func TestHostileDocuments(t *testing.T) {
	s := newSite(t, file(statePath, stateText))
	var locks []string
	for i := range 3 * maxEntries {
		locks = append(locks, fmt.Sprintf(`"l%d": {"agent": "a", "acquired": %d}`, i, i))
	}
	s.Write(statePath, `{"agents": {"a": {"status": "active", "last_active": "9999-01-01T00:00:00Z"}}, "locks": {`+strings.Join(locks, ",")+"}}\n")
	s.Do(os.MkdirAll(s.Path(Base+"/handoffs/pending"), 0o755))
	s.Do(os.WriteFile(s.Path(Base+"/handoffs/pending/bad\xff.json"), []byte("{}"), 0o644))
	s.Do(os.WriteFile(s.Path(Base+"/handoffs/pending/line\nbreak.json"), []byte("{}"), 0o644))
	s.Write(Base+"/handoffs/pending/deep.json", strings.Repeat(`{"a":`, 5000)+"\n")
	s.Write(Base+"/handoffs/pending/same.json", `{"id": "a", "id": "b"}`+"\n")
	s.Write(Base+"/handoffs/pending/empty.json", "")
	s.Write(Base+"/handoffs/pending/list.json", "[]\n")
	s.look()
	snap := s.after(5 * time.Second)
	if len(snap.Locks) != maxEntries || len(snap.Tasks) > 0 || len(snap.Faults) != 6 {
		t.Errorf("%d locks, tasks %+v, %d faults %+v", len(snap.Locks), snap.Tasks, len(snap.Faults), snap.Faults)
	}
	if a, _ := snap.Agent("a"); a == nil || a.Beat.At.After(s.Now) {
		t.Errorf("%+v", a)
	}
	for _, f := range snap.Faults {
		if strings.Contains(f.Path, "\n") || !utf8.ValidString(f.Path) {
			t.Errorf("%q", f.Path)
		}
	}
}

// A torn state file of this protocol becomes a fault after a while, and no agent disappears because of it.
func TestTornState(t *testing.T) {
	s := newSite(t, file(statePath, stateText))
	s.look()
	s.Write(statePath, "")
	for _, after := range []time.Duration{time.Millisecond, time.Second} {
		if snap := s.after(after); len(snap.Faults) > 0 || len(snap.Agents) != 2 || snap.Again.IsZero() {
			t.Errorf("at once: %+v", snap)
		}
	}
	if snap := s.after(3 * time.Second); len(snap.Faults) != 1 || len(snap.Agents) != 2 || len(snap.Locks) != 2 {
		t.Errorf("for good: %+v", snap)
	}
	var fault []protocol.Fault
	s.Write(statePath, stateText)
	if fault = s.after(6 * time.Second).Faults; len(fault) > 0 {
		t.Errorf("mended: %+v", fault)
	}
}
