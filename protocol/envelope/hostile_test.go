package envelope

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
		"device":        func(at string) error { return syscall.Mknod(at, syscall.S_IFCHR|0o644, 1<<8|3) },
	} {
		t.Run(what, func(t *testing.T) {
			s := newSite(t, file(logFile, ack("t", "X").String()+"\n"))
			deploy := s.send(assign("dep", "DEPLOYMENT"))
			c := holdOf(taskOf(s.look(), "dep"), s.Now)
			for _, f := range []string{deploy, logFile} {
				s.Do(os.Remove(s.Path(f)))
				if err := make(s.Path(f)); errors.Is(err, syscall.EPERM) {
					t.Skip("this user may not make a device: skipped")
				} else if err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				snap := s.look(deploy, logFile)
				if f := protocoltest.FaultAt(snap, deploy); f == nil || !strings.Contains(f.Problem, what) || len(snap.Faults) != 2 || len(snap.Tasks) > 0 {
					t.Fatalf("tasks %+v, faults %+v", snap.Tasks, snap.Faults)
				}
			}
			if err := s.apply(c); !errors.Is(err, protocol.ErrConflict) {
				t.Errorf("hold: %v", err)
			}
			s.Do(os.Remove(s.Path(deploy)))
			s.Do(os.Remove(s.Path(logFile)))
			s.Write(deploy, assign("dep", "DEPLOYMENT").String())
			if snap := s.look(); len(snap.Faults) > 0 || len(snap.Tasks) != 1 {
				t.Errorf("repaired: %+v", snap.Faults)
			}
		})
	}
}

// Links in place of folders are rejected: nothing outside is read or written.
func TestLinkInPlaceOfFolders(t *testing.T) {
	for _, link := range []string{".agents", messagesDir, own, holdsDir} {
		s := newSite(t, file("elsewhere/messages/x.json", assign("x", "DEPLOYMENT").String()))
		s.Do(os.MkdirAll(filepath.Dir(s.Path(link)), 0o755))
		s.Do(os.Symlink(s.Path("elsewhere"), s.Path(link)))
		if strings.Contains(messagesDir, link) {
			if !Detect(s.Dir, messagesDir, logFile) {
				t.Errorf("%s: not detected, so nobody would hear of it", link)
			}
			if snap := s.look(); len(snap.Faults) == 0 || len(snap.Tasks) > 0 {
				t.Errorf("%s: %+v", link, snap)
			}
			if err := s.p.Prepare(t.Context(), protocol.Boot{Agent: "X", Now: s.Now}); !errors.Is(err, jsonfile.ErrHostile) {
				t.Errorf("%s: boot: %v", link, err)
			}
			continue
		}
		deploy := s.send(assign("dep", "DEPLOYMENT"))
		snap := s.look()
		if err := s.apply(holdOf(taskOf(snap, "dep"), s.Now)); !errors.Is(err, jsonfile.ErrHostile) || !s.has(deploy) {
			t.Errorf("%s: hold: %v", link, err)
		}
		if names, _ := os.ReadDir(s.Path("elsewhere")); len(names) != 1 {
			t.Errorf("%s: something was written outside", link)
		}
	}
}

// Huge, deep, binary or mistyped content is a fault or a finding, and hides nothing else.
func TestHostileContents(t *testing.T) {
	s := newSite(t, "")
	s.send(assign("good", "DEVELOPER"))
	for name, text := range map[string]string{
		"empty": "", "binary": "\x00\x01\xff", "array": "[]", "half": `{"message_type": "TASK_`, "deep": strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		"huge": `{"message_type":"` + strings.Repeat("x", maxFile) + `"}`, "twice": `{"task_id":"a","task_id":"b"}`,
	} {
		s.Write(messagesDir+"/"+name+".json", text)
	}
	s.Write(messagesDir+"/types.json", `{"message_type":"TASK_COMPLETION","task_id":"good","from_agent":7,"status":[],"timestamp":{},"output":"x","validation":[1]}`)
	s.Write(messagesDir+"/long.json", assign("long", "X").with(fields{"task_name": strings.Repeat("ü", 5000), "to_agent": strings.Repeat("y", 9000)}).String())
	s.Do(os.WriteFile(s.Path(messagesDir+"/bad\nname.json"), []byte("{}"), 0o644))
	_ = s.look()
	s.Now = s.Now.Add(jsonfile.BadAfter)
	snap := s.look()
	if len(snap.Faults) != 8 || taskOf(snap, "good").Agent == "" || len([]rune(taskOf(snap, "long").Title)) > maxText {
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

// Hostile ids never become file names.
func TestHostileIDs(t *testing.T) {
	s := newSite(t, "")
	ids := []string{"..", "../x", "a/b", "/etc/passwd", ".hidden", "a\\b", "a\x00b", strings.Repeat("x", 300), "a\nb"}
	for _, id := range ids {
		s.send(assign(id, "DEPLOYMENT"))
	}
	snap := s.look()
	if len(snap.Tasks) != len(ids) || len(snap.Faults) != len(ids) || protocoltest.Codes(snap, "001") != "security_gate critical, incomplete medium, schema medium" {
		t.Errorf("tasks %+v, faults %d, findings %+v", snap.Tasks, len(snap.Faults), snap.Findings)
	}
	for i := range snap.Tasks {
		s.Do(s.apply(holdOf(&snap.Tasks[i], s.Now))) // tracked under its file's name
		if s.has(fmt.Sprintf("%s/%03d.json", messagesDir, i+1)) {
			t.Errorf("%s is not held", snap.Tasks[i].ID)
		}
	}
	log := newSite(t, file(logFile, assign("../x", "DEPLOYMENT").String()+"\n"))
	if snap := log.look(); len(snap.Tasks) > 0 || len(snap.Faults) != 1 || len(snap.Findings) != 1 || snap.Findings[0].Severity != protocol.Critical {
		t.Errorf("in the log: %+v", snap)
	}
	for _, id := range ids {
		if err := s.apply(releaseOf(id)); err == nil {
			t.Errorf("release of %q", id)
		}
	}
}

// Without root: a file that may not be read or written is a fault or an error that names the permission.
func TestWithoutPermission(t *testing.T) { protocoltest.AsNobody(t, withoutPermission) }

func withoutPermission(t *testing.T) {
	s := newSite(t, "")
	deploy := s.send(assign("dep", "DEPLOYMENT"))
	other := s.send(assign("t", "DEVELOPER"))
	_ = s.look()
	folder := s.Path(messagesDir)
	defer func() { _ = os.Chmod(folder, 0o755) }()

	s.Do(os.Chmod(s.Path(other), 0))
	snap := s.look(other)
	if f := protocoltest.FaultAt(snap, other); f == nil || !strings.Contains(f.Hint, "read permission") || taskOf(snap, "t").Agent == "" {
		t.Errorf("unreadable: %+v, %+v", snap.Faults, snap.Tasks)
	}
	s.Do(os.Chmod(s.Path(other), 0o644))
	if snap = s.look(other); len(snap.Faults) > 0 {
		t.Errorf("readable: %+v", snap.Faults)
	}
	s.Do(os.Chmod(folder, 0o555))
	err := s.apply(holdOf(taskOf(snap, "dep"), s.Now))
	if !errors.Is(err, jsonfile.ErrPermission) || errors.Is(err, protocol.ErrConflict) {
		t.Errorf("hold in a read-only folder: %v", err)
	}
	if k := taskOf(s.look("x"), "dep"); k.Hold != nil || !k.Visible || !s.has(deploy) {
		t.Errorf("%+v", k)
	}
	s.Do(os.Chmod(folder, 0))
	if snap = s.look(); len(snap.Tasks) != 2 || protocoltest.FaultAt(snap, messagesDir) == nil {
		t.Errorf("closed folder: tasks %+v, faults %+v", snap.Tasks, snap.Faults)
	}
	s.Do(os.Chmod(folder, 0o755))
	if snap = s.look(); len(snap.Tasks) != 2 || len(snap.Faults) > 0 {
		t.Errorf("opened again: %+v", snap.Faults)
	}
}
