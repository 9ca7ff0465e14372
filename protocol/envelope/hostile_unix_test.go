//go:build unix

package envelope

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
	} {
		t.Run(what, func(t *testing.T) {
			s := newSite(t, file(logFile, ack("t", "X").String()+"\n"))
			deploy := s.send(assign("dep", "DEPLOYMENT"))
			c := holdOf(task(s.look(), "dep"), s.now)
			for _, f := range []string{deploy, logFile} {
				s.do(os.Remove(s.path(f)))
				if err := make(s.path(f)); errors.Is(err, syscall.EPERM) {
					t.Skip("this user may not make a device: skipped")
				} else if err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				snap := s.look(deploy, logFile)
				if f := faultAt(snap, deploy); f == nil || !strings.Contains(f.Problem, what) || len(snap.Faults) != 2 || len(snap.Tasks) > 0 {
					t.Fatalf("tasks %+v, faults %+v", snap.Tasks, snap.Faults)
				}
			}
			if err := s.apply(c); !errors.Is(err, protocol.ErrConflict) {
				t.Errorf("hold: %v", err)
			}
			s.do(os.Remove(s.path(deploy)))
			s.do(os.Remove(s.path(logFile)))
			s.write(deploy, assign("dep", "DEPLOYMENT").String())
			if snap := s.look(); len(snap.Faults) > 0 || len(snap.Tasks) != 1 {
				t.Errorf("repaired: %+v", snap.Faults)
			}
		})
	}
}

// Links in the place of folders lead nowhere: nothing outside is read or written.
func TestLinkInPlaceOfFolders(t *testing.T) {
	for _, link := range []string{".agents", messagesDir, own, holdsDir} {
		s := newSite(t, file("elsewhere/messages/x.json", assign("x", "DEPLOYMENT").String()))
		s.do(os.MkdirAll(filepath.Dir(s.path(link)), 0o755))
		s.do(os.Symlink(s.path("elsewhere"), s.path(link)))
		if strings.Contains(messagesDir, link) {
			if !Detect(s.dir, messagesDir, logFile) {
				t.Errorf("%s: not detected, so nobody would hear of it", link)
			}
			if snap := s.look(); len(snap.Faults) == 0 || len(snap.Tasks) > 0 {
				t.Errorf("%s: %+v", link, snap)
			}
			if err := s.p.Prepare(t.Context(), protocol.Boot{Agent: "X", Now: s.now}); !errors.Is(err, jsonfile.ErrHostile) {
				t.Errorf("%s: boot: %v", link, err)
			}
			continue
		}
		deploy := s.send(assign("dep", "DEPLOYMENT"))
		snap := s.look()
		if err := s.apply(holdOf(task(snap, "dep"), s.now)); !errors.Is(err, jsonfile.ErrHostile) || !s.has(deploy) {
			t.Errorf("%s: hold: %v", link, err)
		}
		if names, _ := os.ReadDir(s.path("elsewhere")); len(names) != 1 {
			t.Errorf("%s: something was written outside", link)
		}
	}
}

// Huge, deep, binary, mistyped: each is a fault or a finding, and hides nothing else.
func TestHostileContents(t *testing.T) {
	s := newSite(t, "")
	s.send(assign("good", "DEVELOPER"))
	for name, text := range map[string]string{
		"empty": "", "binary": "\x00\x01\xff", "array": "[]", "half": `{"message_type": "TASK_`, "deep": strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		"huge": `{"message_type":"` + strings.Repeat("x", maxFile) + `"}`, "twice": `{"task_id":"a","task_id":"b"}`,
	} {
		s.write(messagesDir+"/"+name+".json", text)
	}
	s.write(messagesDir+"/types.json", `{"message_type":"TASK_COMPLETION","task_id":"good","from_agent":7,"status":[],"timestamp":{},"output":"x","validation":[1]}`)
	s.write(messagesDir+"/long.json", assign("long", "X").with(fields{"task_name": strings.Repeat("ü", 5000), "to_agent": strings.Repeat("y", 9000)}).String())
	s.do(os.WriteFile(s.path(messagesDir+"/bad\nname.json"), []byte("{}"), 0o644))
	_ = s.look()
	s.now = s.now.Add(jsonfile.BadAfter)
	snap := s.look()
	if len(snap.Faults) != 8 || task(snap, "good").Agent == "" || len([]rune(task(snap, "long").Title)) > maxText {
		for _, f := range snap.Faults {
			t.Logf("%+v", f)
		}
		t.Errorf("%d faults, %+v", len(snap.Faults), snap.Tasks)
	}
	for _, f := range append(snap.Faults, s.look().Faults...) {
		if f.Since.IsZero() || strings.Contains(f.Path, "\n") {
			t.Errorf("%+q", f)
		}
	}
}

// Hostile ids reach no file name.
func TestHostileIDs(t *testing.T) {
	s := newSite(t, "")
	ids := []string{"..", "../x", "a/b", "/etc/passwd", ".hidden", "a\\b", "a\x00b", strings.Repeat("x", 300), "a\nb"}
	for _, id := range ids {
		s.send(assign(id, "DEPLOYMENT"))
	}
	snap := s.look()
	if len(snap.Tasks) > 0 || len(snap.Faults) != len(ids) || len(snap.Events) > 0 || len(snap.Findings) != len(ids) || snap.Findings[0].Severity != protocol.Critical {
		t.Errorf("tasks %+v, faults %d, findings %+v", snap.Tasks, len(snap.Faults), snap.Findings)
	}
	for _, id := range ids {
		if err := s.apply(releaseOf(id)); err == nil {
			t.Errorf("release of %q", id)
		}
	}
}

const envNobody = "ENVELOPE_NOBODY"

// As another user than root: what may not be read or written is a fault or an error that names the permission.
func TestWithoutPermission(t *testing.T) {
	if dir := os.Getenv(envNobody); dir != "" {
		withoutPermission(t, dir)
		return
	}
	if os.Geteuid() != 0 {
		withoutPermission(t, t.TempDir())
		return
	}
	dir, err := os.MkdirTemp("/tmp", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary, project := filepath.Join(dir, "test"), filepath.Join(dir, "p")
	text, err := os.ReadFile(os.Args[0])
	if err = errors.Join(err, os.WriteFile(binary, text, 0o755), os.Chmod(dir, 0o755), os.Mkdir(project, 0o755), os.Chown(project, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestWithoutPermission$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), envNobody+"="+project, "TMPDIR="+project)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); errors.Is(err, syscall.EPERM) {
		t.Skip("this process may not become another user: skipped")
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func withoutPermission(t *testing.T, dir string) {
	s := &site{t: t, dir: dir, now: time.Now()}
	s.reopen()
	deploy := s.send(assign("dep", "DEPLOYMENT"))
	other := s.send(assign("t", "DEVELOPER"))
	_ = s.look()
	folder := s.path(messagesDir)
	defer func() { _ = os.Chmod(folder, 0o755) }()

	s.do(os.Chmod(s.path(other), 0))
	snap := s.look(other)
	if f := faultAt(snap, other); f == nil || !strings.Contains(f.Hint, "read permission") || task(snap, "t").Agent == "" {
		t.Errorf("unreadable: %+v, %+v", snap.Faults, snap.Tasks)
	}
	s.do(os.Chmod(s.path(other), 0o644))
	if snap = s.look(other); len(snap.Faults) > 0 {
		t.Errorf("readable: %+v", snap.Faults)
	}
	s.do(os.Chmod(folder, 0o555))
	err := s.apply(holdOf(task(snap, "dep"), s.now))
	if !errors.Is(err, jsonfile.ErrPermission) || errors.Is(err, protocol.ErrConflict) {
		t.Errorf("hold in a read-only folder: %v", err)
	}
	if k := task(s.look("x"), "dep"); k.Hold != nil || !k.Visible || !s.has(deploy) {
		t.Errorf("%+v", k)
	}
	s.do(os.Chmod(folder, 0))
	if snap = s.look(); len(snap.Tasks) != 2 || faultAt(snap, messagesDir) == nil {
		t.Errorf("closed folder: tasks %+v, faults %+v", snap.Tasks, snap.Faults)
	}
	s.do(os.Chmod(folder, 0o755))
	if snap = s.look(); len(snap.Tasks) != 2 || len(snap.Faults) > 0 {
		t.Errorf("opened again: %+v", snap.Faults)
	}
}
