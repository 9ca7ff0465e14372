//go:build unix

package agentstatus

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// What is no plain file in a file's place is a fault that says what it is; it is not followed, and nothing hangs.
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
					s.do(os.Remove(s.path(f)))
				}
				if err := make(s.path(f)); errors.Is(err, syscall.EPERM) {
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
			s.do(os.Remove(s.path(requestPath)))
			s.write(requestPath, requestText)
			if snap := s.look(); len(snap.Tasks) != 1 || len(snap.Faults) != 2 {
				t.Errorf("repaired: %+v", snap.Faults)
			}
		})
	}
}

func TestLinkInPlaceOfTheFolder(t *testing.T) {
	s := newSite(t, "-- elsewhere/codex_tasks/x --\n")
	s.do(os.MkdirAll(s.path("tmp"), 0o755))
	s.do(os.Symlink(s.path("elsewhere"), s.path(Base)))
	if !Detect(s.dir) {
		t.Error("not detected, so nobody would hear of it")
	}
	first := s.look()
	if f := faultAt(first, Base); f == nil || !strings.Contains(f.Problem, "symbolic link") {
		t.Fatalf("%+v", first.Faults)
	}
	if again := s.look(); !again.Faults[0].Since.Equal(first.Faults[0].Since) {
		t.Errorf("since %v, was %v", again.Faults[0].Since, first.Faults[0].Since)
	}
	if err := s.p.Prepare(t.Context(), boot(livhana, 1, s.now)); !errors.Is(err, jsonfile.ErrHostile) {
		t.Errorf("boot through the link: %v", err)
	}
	s.do(os.Remove(s.path(Base)))
	if snap := s.look(); len(snap.Faults) > 0 || Detect(s.dir) {
		t.Errorf("removed: %+v", snap.Faults)
	}
}

const envNobody = "AGENTSTATUS_NOBODY"

// As another user than root: what may not be read or written is a fault or an error that names the permission, and
// nobody is taken for gone.
func TestWithoutPermission(t *testing.T) {
	if dir := os.Getenv(envNobody); dir != "" {
		withoutPermission(t, dir)
		return
	}
	if os.Geteuid() != 0 {
		dir := t.TempDir()
		withoutPermission(t, dir)
		return
	}
	dir, err := os.MkdirTemp("/tmp", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary := filepath.Join(dir, "test")
	text, err := os.ReadFile(os.Args[0])
	if err = errors.Join(err, os.WriteFile(binary, text, 0o755), os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "p"), 0o755), os.Chown(filepath.Join(dir, "p"), 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestWithoutPermission$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), envNobody+"="+filepath.Join(dir, "p"), "TMPDIR="+filepath.Join(dir, "p"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); errors.Is(err, syscall.EPERM) {
		t.Skip("this process may not become another user: skipped")
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func withoutPermission(t *testing.T, dir string) {
	s := &site{t: t, dir: dir, now: time.Now()}
	s.write("tmp/x", "")
	for name, text := range map[string]string{requestPath: requestText, Base + "/" + registry: registryText, Base + "/codex_status/heartbeat.json": beatText(codex)} {
		s.write(name, text)
	}
	s.reopen()
	before := s.look()
	tasks := s.path(Base + "/" + tasksDir)
	defer func() { _ = os.Chmod(tasks, 0o755) }()

	s.do(os.Chmod(s.path(Base+"/codex_status/heartbeat.json"), 0))
	snap := s.look()
	if f := faultAt(snap, "heartbeat"); f == nil || !strings.Contains(f.Hint, "read permission") || agentNames(snap) != agentNames(before) || snap.Agents[0].Beat.Mark == "" {
		t.Errorf("unreadable: %+v, agents %s", snap.Faults, agentNames(snap))
	}
	s.do(os.Chmod(s.path(Base+"/codex_status/heartbeat.json"), 0o644))
	if snap := s.look(); len(snap.Faults) > 0 {
		t.Errorf("readable: %+v", snap.Faults)
	}

	s.do(os.Chmod(tasks, 0o555))
	err := s.apply(holdChange(only(t, s.look()), s.now))
	var e *jsonfile.Error
	if !errors.As(err, &e) || !errors.Is(err, jsonfile.ErrPermission) || !strings.Contains(e.Hint, "permission") || errors.Is(err, protocol.ErrConflict) {
		t.Errorf("hold in a read-only folder: %v", err)
	}
	if k := only(t, s.look()); k.Hold != nil || !k.Visible {
		t.Errorf("after it: %+v", k)
	}

	s.do(os.Chmod(dir, 0)) // the way to the folder is shut, but the folder is open
	snap = s.look()
	f := faultAt(snap, Base)
	s.do(os.Chmod(dir, 0o755))
	if f == nil || f.Since.IsZero() || !strings.Contains(f.Problem, "permission") || len(snap.Tasks) != 1 || agentNames(snap) != agentNames(before) {
		t.Errorf("a project that may not be searched: %+v, %d tasks, agents %s", snap.Faults, len(snap.Tasks), agentNames(snap))
	}
	if snap := s.look(); len(snap.Faults) > 0 {
		t.Errorf("and again: %+v", snap.Faults)
	}

	s.do(os.Chmod(tasks, 0))
	if snap := s.look(); len(snap.Tasks) != 1 || len(snap.Faults) == 0 {
		t.Errorf("a folder that may not be searched: %d tasks, %+v", len(snap.Tasks), snap.Faults)
	}
	s.do(os.Chmod(tasks, 0o755))
	if snap := s.look(); len(snap.Tasks) != 1 || len(snap.Faults) > 0 {
		t.Errorf("and again: %d tasks, %+v", len(snap.Tasks), snap.Faults)
	}
}
