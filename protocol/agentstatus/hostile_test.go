package agentstatus

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// Anything but a plain file in a file's place is a fault that names its kind; it is not followed, and nothing hangs.
func TestHostileFiles(t *testing.T) {
	for what, make := range map[string]func(at string) error{
		"symbolic link": func(at string) error { return os.Symlink("/etc/passwd", at) },
		"FIFO":          func(at string) error { return syscall.Mkfifo(at, 0o644) },
		"folder":        func(at string) error { return os.Mkdir(at, 0o755) },
		"device":        func(at string) error { return syscall.Mknod(at, syscall.S_IFCHR|0o644, 1<<8|3) },
		"too big":       func(at string) error { return os.Truncate(at, maxFile+1) },
	} {
		t.Run(what, func(t *testing.T) {
			s := newSite(t, around+file(requestPath, requestText))
			_ = s.look()
			for _, f := range []string{requestPath, Base + "/codex_status/heartbeat.json", Base + "/" + registry} {
				if what != "too big" {
					s.Do(os.Remove(s.Path(f)))
				}
				if err := make(s.Path(f)); errors.Is(err, syscall.EPERM) {
					t.Skip("this user may not make a device: skipped")
				} else if err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				snap := s.look(requestPath, Base+"/codex_status/heartbeat.json")
				if len(snap.Tasks) > 0 || len(snap.Faults) != 3 {
					t.Fatalf("tasks %+v, faults %+v", snap.Tasks, snap.Faults)
				}
				for _, f := range snap.Faults {
					if !strings.Contains(f.Problem, what) || f.Since.IsZero() {
						t.Errorf("%+v", f)
					}
				}
			}
			c := protocol.Change{Verb: protocol.VerbHold, Subject: protocol.Subject{Kind: protocol.KindTask, ID: taskID}, Hold: "x"}
			if err := s.apply(c); !errors.Is(err, protocol.ErrConflict) {
				t.Errorf("hold: %v", err)
			}
			s.Do(os.Remove(s.Path(requestPath)))
			s.Write(requestPath, requestText)
			if snap := s.look(); len(snap.Tasks) != 1 || len(snap.Faults) != 2 {
				t.Errorf("repaired: %+v", snap.Faults)
			}
		})
	}
}

func TestLinkInPlaceOfTheFolder(t *testing.T) {
	s := newSite(t, "-- elsewhere/codex_tasks/x --\n")
	s.Do(os.MkdirAll(s.Path("tmp"), 0o755))
	s.Do(os.Symlink(s.Path("elsewhere"), s.Path(Base)))
	if !Detect(s.Dir) {
		t.Error("not detected, so nobody would hear of it")
	}
	first := s.look()
	if f := protocoltest.FaultAt(first, Base); f == nil || !strings.Contains(f.Problem, "symbolic link") {
		t.Fatalf("%+v", first.Faults)
	}
	if again := s.look(); !again.Faults[0].Since.Equal(first.Faults[0].Since) {
		t.Errorf("since %v, was %v", again.Faults[0].Since, first.Faults[0].Since)
	}
	if err := s.p.Prepare(t.Context(), boot(livhana, 1, s.Now)); !errors.Is(err, jsonfile.ErrHostile) {
		t.Errorf("boot through the link: %v", err)
	}
	s.Do(os.Remove(s.Path(Base)))
	if snap := s.look(); len(snap.Faults) > 0 || Detect(s.Dir) {
		t.Errorf("removed: %+v", snap.Faults)
	}
}

// As a user other than root: a file or folder without permission is a fault or an error that names the permission,
// and no agent or task counts as gone.
func TestWithoutPermission(t *testing.T) { protocoltest.AsNobody(t, withoutPermission) }

func withoutPermission(t *testing.T) {
	s := newSite(t, "")
	for name, text := range map[string]string{requestPath: requestText, Base + "/" + registry: registryText, Base + "/codex_status/heartbeat.json": beatText(codex)} {
		s.Write(name, text)
	}
	before := s.look()
	tasks := s.Path(Base + "/" + tasksDir)
	defer func() { _ = os.Chmod(tasks, 0o755) }()

	s.Do(os.Chmod(s.Path(Base+"/codex_status/heartbeat.json"), 0))
	snap := s.look()
	if f := protocoltest.FaultAt(snap, "heartbeat"); f == nil || !strings.Contains(f.Hint, "read permission") || agentNames(snap) != agentNames(before) || snap.Agents[0].Beat.Mark == "" {
		t.Errorf("unreadable: %+v, agents %s", snap.Faults, agentNames(snap))
	}
	s.Do(os.Chmod(s.Path(Base+"/codex_status/heartbeat.json"), 0o644))
	if snap := s.look(); len(snap.Faults) > 0 {
		t.Errorf("readable: %+v", snap.Faults)
	}

	s.Do(os.Chmod(tasks, 0o555))
	err := s.apply(holdChange(only(t, s.look()), s.Now))
	var e *jsonfile.Error
	if !errors.As(err, &e) || !errors.Is(err, jsonfile.ErrPermission) || !strings.Contains(e.Hint, "permission") || errors.Is(err, protocol.ErrConflict) {
		t.Errorf("hold in a read-only folder: %v", err)
	}
	if k := only(t, s.look()); k.Hold != nil || !k.Visible {
		t.Errorf("after it: %+v", k)
	}

	s.Do(os.Chmod(s.Dir, 0)) // the path to the folder is closed, but the folder is open
	snap = s.look()
	f := protocoltest.FaultAt(snap, Base)
	s.Do(os.Chmod(s.Dir, 0o755))
	if f == nil || f.Since.IsZero() || !strings.Contains(f.Problem, "permission") || len(snap.Tasks) != 1 || agentNames(snap) != agentNames(before) {
		t.Errorf("a project that may not be searched: %+v, %d tasks, agents %s", snap.Faults, len(snap.Tasks), agentNames(snap))
	}
	if snap := s.look(); len(snap.Faults) > 0 {
		t.Errorf("and again: %+v", snap.Faults)
	}

	s.Do(os.Chmod(tasks, 0))
	if snap := s.look(); len(snap.Tasks) != 1 || len(snap.Faults) == 0 {
		t.Errorf("a folder that may not be searched: %d tasks, %+v", len(snap.Tasks), snap.Faults)
	}
	s.Do(os.Chmod(tasks, 0o755))
	if snap := s.look(); len(snap.Tasks) != 1 || len(snap.Faults) > 0 {
		t.Errorf("and again: %d tasks, %+v", len(snap.Tasks), snap.Faults)
	}
}
