package mailbox

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/protocoltest"
)

// Anything but a plain file in a file's place is a fault that names its kind. It is not followed, and no scan hangs.
func TestHostileFiles(t *testing.T) {
	for what, make := range map[string]func(at string) error{
		"symbolic link": func(at string) error { return os.Symlink("/etc/passwd", at) },
		"FIFO":          func(at string) error { return syscall.Mkfifo(at, 0o644) },
		"folder":        func(at string) error { return os.Mkdir(at, 0o755) },
		"too big":       func(at string) error { return os.WriteFile(at, nil, 0o644) },
	} {
		t.Run(what, func(t *testing.T) {
			r := newTestProject(t, around+file(pidPath, "4999999"))
			k := taskOf(t, r.look(), "task-001")
			places := []string{queuePath, boardPath, devPath, pidPath}
			for _, f := range places {
				r.Do(os.Remove(r.Path(f)))
				r.Do(make(r.Path(f)))
				if what == "too big" {
					r.Do(os.Truncate(r.Path(f), maxQueue+1))
				}
			}
			for range 2 {
				s := r.look()
				if len(s.Tasks) > 0 || len(s.Faults) != len(places) {
					t.Fatalf("tasks %+v, faults %+v", s.Tasks, s.Faults)
				}
				for _, f := range s.Faults {
					if !strings.Contains(f.Problem, what) || f.Since.IsZero() || !strings.HasPrefix(f.Path, Base+"/") {
						t.Errorf("%+v", f)
					}
				}
			}
			if err := r.apply(requeueChange(k)); !errors.Is(err, protocol.ErrConflict) {
				t.Error("a change was carried out")
			}
			r.Do(os.Remove(r.Path(queuePath)))
			r.Write(queuePath, queueText)
			if s := r.look(); len(s.Tasks) == 0 || len(s.Faults) != len(places)-1 {
				t.Errorf("repaired: %+v", s.Faults)
			}
		})
	}
}

func TestLinkInPlaceOfTheFolder(t *testing.T) {
	r := newTestProject(t, file("elsewhere/queue.json", queueText))
	r.Do(os.Symlink(r.Path("elsewhere"), r.Path(Base)))
	if !Detect(r.Dir) {
		t.Error("not detected, so nobody would hear of it")
	}
	first := r.look()
	if f := protocoltest.FaultAt(first, Base); f == nil || !strings.Contains(f.Problem, "symbolic link") || len(first.Tasks) > 0 {
		t.Fatalf("%+v", first)
	}
	if again := r.look(); !again.Faults[0].Since.Equal(first.Faults[0].Since) {
		t.Errorf("since %v, was %v", again.Faults[0].Since, first.Faults[0].Since)
	}
	if err := r.boot(developer); err == nil {
		t.Error("boot went through the link")
	}
	r.Do(os.Remove(r.Path(Base)))
	if s := r.look(); len(s.Faults) > 0 || Detect(r.Dir) {
		t.Errorf("removed: %+v", s.Faults)
	}
}

// A file that stays broken is a fault after two seconds; before and after that, the last good reading is kept.
func TestBrokenFile(t *testing.T) {
	r := newTestProject(t, around)
	r.look()
	for what, text := range map[string]string{"empty": "", "cut": queueText[:200], "deep": strings.Repeat("[", 100000), "array": "[]", "twice": `{"tasks": [], "tasks": []}`} {
		r.Write(queuePath, text)
		if s := r.look(); len(s.Tasks) != 5 || len(s.Faults) > 0 || s.Again.IsZero() {
			t.Errorf("%s: %d tasks, faults %+v, again %v", what, len(s.Tasks), s.Faults, s.Again)
		}
		for range 3 {
			r.look()
		}
		if s := r.look(); len(s.Tasks) != 5 || protocoltest.FaultAt(s, "queue.json") == nil {
			t.Errorf("%s for long: %d tasks, faults %+v", what, len(s.Tasks), s.Faults)
		}
		r.Write(queuePath, queueText)
		if s := r.pass(10 * time.Second); len(s.Faults) > 0 {
			t.Errorf("%s repaired: %+v", what, s.Faults)
		}
	}
}

// Wrong types everywhere, and values out of range, are tolerated.
func TestWrongTypes(t *testing.T) {
	r := newTestProject(t, file(queuePath, `{"tasks": [{"id": 7}, {"id": "a", "status": [], "priority": {}, "title": 1, "createdAt": "1e999", "rejectionCount": "many"}, []], "completed": "none", "lastUpdated": {}}`+"\n")+
		file(boardPath, `{"orchestrator": [], "planner": {"status": 1}, "developer": {"currentTask": {}, "lastActivity": {}}}`+"\n")+
		file(devPath, `{"messages": [[], 1, {"type": [], "taskId": {}}, {"type": "completion_report", "taskId": "a", "buildResult": []}]}`+"\n"))
	for range 2 {
		s := r.look()
		if len(s.Faults) > 0 || len(s.Findings) < 8 || len(s.Tasks) != 1 {
			t.Errorf("%+v", s)
		}
	}
}

// A hundred mailboxes with hundreds of messages each cause a bounded number of findings.
func TestFloods(t *testing.T) {
	r := newTestProject(t, file(queuePath, oneTask(inProgress, "")))
	for i := range 100 {
		r.Write(fmt.Sprintf("%s/messages/to-%d.json", Base, i), `{"messages": [`+strings.Repeat(`{"type": "task_assignment"},`, 700)+`{}]}`)
	}
	s := r.look()
	if most := maxBoxes * (folder.MaxFindings + 2); len(s.Findings) == 0 || len(s.Findings) > most {
		t.Errorf("%d findings, want at most %d", len(s.Findings), most)
	}
}

// The folder disappears and is recreated.
func TestFolderVanishes(t *testing.T) {
	r := newTestProject(t, around)
	k := taskOf(t, r.look(), "task-001")
	r.Do(os.Rename(r.Path(Base), r.Path("aside")))
	if s := r.look(); len(s.Tasks)+len(s.Agents)+len(s.Faults)+len(s.Findings) > 0 {
		t.Errorf("gone: %+v", s)
	}
	if err := r.apply(requeueChange(k)); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("a change without a folder: %v", err)
	}
	r.Write(queuePath, oneTask(pending, ""))
	s := r.look()
	if len(s.Tasks) != 1 || !s.Tasks[0].Visible || protocoltest.Codes(s, "task-001") != "" {
		t.Errorf("another one: %+v", s)
	}
}

// For a user other than root, an unreadable file is a fault that names the permission, and the last good reading is kept.
// An unreadable pid file does not prove a process gone.
func TestUnreadable(t *testing.T) { protocoltest.AsNobody(t, unreadable) }

func unreadable(t *testing.T) {
	r := newTestProject(t, around+file(pidPath, "4999999"))
	r.pass(pidSettled)
	if s := r.look(); s.Yield != "" || len(s.Faults) > 0 {
		t.Fatalf("%q %+v", s.Yield, s.Faults)
	}
	r.Do(os.Chmod(r.Path(queuePath), 0))
	s := r.look()
	if f := protocoltest.FaultAt(s, "queue.json"); len(s.Tasks) != 5 || f == nil || !strings.Contains(f.Problem, "permission") {
		t.Errorf("%d tasks, faults %+v", len(s.Tasks), s.Faults)
	}
	if err := r.apply(requeueChange(taskOf(t, s, "task-001"))); err == nil {
		t.Error("a change of a file that may not be read")
	}
	r.Do(os.Chmod(r.Path(pidPath), 0))
	r.reopen()
	if s = r.look(); s.Yield == "" || protocoltest.FaultAt(s, "orchestrator.pid") == nil {
		t.Errorf("yield %q, faults %+v", s.Yield, s.Faults)
	}
	r.Do(errors.Join(os.Chmod(r.Path(pidPath), 0o600), os.Chmod(r.Path(queuePath), 0o600)))
	if s = r.look(); s.Yield != "" || len(s.Faults) > 0 || len(s.Tasks) != 5 {
		t.Errorf("repaired: yield %q, faults %+v", s.Yield, s.Faults)
	}
}
