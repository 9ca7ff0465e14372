package torture

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// A project's folder is removed repeatedly during a flood of requests, and steward recreates nothing in it.
func TestFoldersThatAreRemovedStayGone(t *testing.T) {
	t.Parallel()
	r := rig.New(t, quickRules)
	r.Write("config.toml", quickRules+fmt.Sprintf("[[project]]\npath = %q\n[[project]]\npath = %q\n[project.mode]\nralph = \"act\"\n[ralph]\ngrace = \"1s\"\n", r.At("p"), r.At("q")))
	if err := os.Mkdir(r.At("q"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Boot("p")
	r.Start()
	rounds, stubborn := rig.Long(8, 30), 0
	for n := range rounds {
		if n > 0 {
			r.Boot("p")
		}
		writeFlood(r, "p", n)
		rewriteBoard(r, "q", n)
		time.Sleep(time.Duration(50+n*17%400) * time.Millisecond)
		for _, dir := range []string{"p/tmp", "q/.ralph"} {
			if out, err := exec.Command("rm", "-rf", r.At(dir)).CombinedOutput(); err != nil {
				stubborn++ // a file came between the listing and the removal
				if out2, err := exec.Command("rm", "-rf", r.At(dir)).CombinedOutput(); err != nil {
					t.Fatalf("%s%s", out, out2)
				}
			}
		}
		time.Sleep(300 * time.Millisecond)
		for _, dir := range []string{"p/tmp", "q/.ralph"} {
			if left := filesBelow(r, dir); len(left) > 0 {
				t.Fatalf("round %d: these are back: %s", n, strings.Join(left, ", "))
			}
		}
	}
	r.Shows("the folder of protocol agentstatus is gone")
	t.Logf("%d rounds; rm had to be called twice %d times", rounds, stubborn)
}

// writeFlood writes requests that always exceed their limit, so that each task is held.
func writeFlood(r *rig.Rig, project string, round int) {
	for i := range 40 {
		id := fmt.Sprintf("%08d-1111-4111-8111-%012d", round, i)
		r.Put(r.Task(project, id, ".request.json"), rig.Doc{"task_id": id, "request_type": "execute", "priority": "medium", "source_agent": "livhana-layer1.1",
			"target_agent": "codex-cursor", "created_at": time.Now().UTC().Format(time.RFC3339), "timeout_seconds": 300, "throttle_capacity": 0.0,
			"payload": rig.Doc{"task_type": "execute"}})
	}
}

// rewriteBoard writes a kanban of protocol 002 with work in progress that no agent does.
func rewriteBoard(r *rig.Rig, project string, round int) {
	r.Helper()
	dir := r.At(project, ".ralph")
	text := "# Board\n\n## TASKS\n"
	for i := range 20 {
		text += fmt.Sprintf("\n- [=] **[TASK-%d%02d]** Do it\n  - Description: do it\n  - Priority: HIGH\n  - Dependencies: none\n", round%9+1, i)
	}
	if err := os.MkdirAll(filepath.Join(dir, "workers"), 0o755); err != nil {
		r.Fatal(err)
	}
	r.Write(filepath.Join(project, ".ralph/kanban.md"), text)
}

// filesBelow lists a folder and its contents.
func filesBelow(r *rig.Rig, dir string) (names []string) {
	_ = filepath.WalkDir(r.At(dir), func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			names = append(names, path)
		}
		return nil
	})
	return names
}

// Without write permission steward keeps scanning, reports the folder's owner and the remedy, and acts once it may write.
func TestFolderThatMayNotBeWritten(t *testing.T) {
	protocoltest.AsNobody(t, func(t *testing.T) {
		dir := t.TempDir()
		own := agentstatus.OwnDir(dir)
		if err := os.MkdirAll(own, 0o755); err != nil {
			t.Fatal(err)
		}
		s := &daemon.ProjectLock{Dir: dir, Own: own}
		defer s.Close()
		for _, closed := range []string{own, filepath.Dir(own)} {
			if closed != own {
				if err := os.Remove(own); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(closed, 0o555); err != nil {
				t.Fatal(err)
			}
			if err := s.Ready(); err == nil || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("%s may not be written: %v", closed, err)
			}
			if err := os.Chmod(closed, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Ready(); err != nil || s.Lock != nil {
			t.Errorf("without a folder of steward's there is nothing to lock: %v, %v", err, s.Lock)
		}
		if err := os.Mkdir(own, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(); err != nil || s.Lock == nil {
			t.Errorf("it may be written: %v, %v", err, s.Lock)
		}
		speaker, err := daemon.Adapters[0].Speak(config.ProjectRef{Path: dir}, config.Defaults(), true, protocol.ModeAct)
		if err == nil || !strings.Contains(err.Error(), "another steward acts in this project ({") {
			t.Errorf("a second steward: %v", err)
		}
		if err == nil {
			speaker.Close()
		}
	})
}

// A project lock removed while steward runs is not recreated at once: the folder is probably being removed.
func TestLockOfTheProjectIsRemoved(t *testing.T) {
	dir := t.TempDir()
	own := agentstatus.OwnDir(dir)
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &daemon.ProjectLock{Dir: dir, Own: own}
	defer s.Close()
	if err := s.Ready(); err != nil || s.Lock == nil {
		t.Fatalf("%v, %v", err, s.Lock)
	}
	file := filepath.Join(own, daemon.LockFile)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	root, err := jsonfile.Open(own)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for range 2 {
		if err := s.Ready(); err != nil {
			t.Errorf("a removal is no fault: %v", err)
		}
		if _, err := s.Guarded(t.Context(), root); !errors.Is(err, protocol.ErrConflict) {
			t.Errorf("a change a moment after: %v", err)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the lock is back at once")
	}
	s.Lost = s.Lost.Add(-daemon.LockRecreateDelay)
	if err := s.Ready(); err != nil || s.Lock == nil {
		t.Errorf("a while after: %v, %v", err, s.Lock)
	}
}

// Files left by root's steward are reported, with their owner and the remedy.
func TestFolderOfRoots(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can leave files of root's")
	}
	dir := t.TempDir()
	own, err := jsonfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	got := daemon.InOwn(own, fmt.Errorf("open the lock: %w", fs.ErrPermission)).Error()
	for _, want := range []string{dir, daemon.AccountOf(65534), "sudo chown -R " + daemon.AccountOf(0) + " " + dir} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}

// A run as root in another user's project leaves no file that the project's owner cannot write.
func TestRootLeavesEverythingToTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can shut others out")
	}
	r := rig.New(t, quickRules)
	const owner = 65534
	if err := os.Mkdir(r.At("p"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(r.At("p"), owner, owner); err != nil {
		t.Fatal(err)
	}
	r.Boot("p")
	writeFlood(r, "p", 1)
	r.Steward("run", "--once", "--project", "p")
	r.Steward("lock", "run", "build", "--project", "p", "--", "true")
	script := r.At("p/ok.sh")
	if err := errors.Join(os.WriteFile(script, []byte("#!/bin/sh\necho ok\n"), 0o755), os.Chown(script, owner, owner)); err != nil {
		t.Fatal(err)
	}
	r.Steward("task", "submit", "execute", "--project", "p", "--", "ok.sh")
	r.Steward("worker", "--agent", "codex-cursor", "--project", "p", "--drain")
	if logs, _ := filepath.Glob(r.At("p/tmp/agent_status/steward/output/*.log")); len(logs) == 0 {
		t.Error("the worker kept no output")
	}
	for _, path := range filesBelow(r, "p") {
		if strings.HasSuffix(path, ".request.json") {
			continue // created by the test
		}
		if st, err := os.Lstat(path); err != nil || uidOf(st) != owner {
			t.Errorf("%s belongs to %d (%v)", path, uidOf(st), err)
		}
	}
}

func uidOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }
