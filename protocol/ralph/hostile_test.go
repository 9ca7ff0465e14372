package ralph

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/protocoltest"
)

// Whatever the folder contains, a scan ends, stays inside the folder, and shows the tasks that can be read.
func TestHostileFolder(t *testing.T) {
	outside := lay(t, file("kanban.md", kanban(line(" ", "EVIL-001", "x")))+file("worker/agent.pid", "1\n"))
	link := func(dir, name, to string) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		os.RemoveAll(path)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	pipe := func(dir, name string) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		os.RemoveAll(path)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
	for name, spoil := range map[string]func(dir string){
		"links": func(dir string) {
			link(dir, home, filepath.Join(outside, "worker"))
			link(dir, Base+"/logs/activity.jsonl", "/etc/passwd")
			link(dir, Base+"/logs/violations.log", "/etc/passwd")
			link(dir, ".git/HEAD", "/etc/passwd")
			link(dir, kanbanPath+".lock", "/etc/passwd")
		},
		"pipes": func(dir string) {
			for _, f := range []string{home + "/agent.pid", home + "/resume-state.json", home + "/violation_status.txt", home + "/results/1-x-result.json",
				home + "/checkpoints/checkpoint-1.json", Base + "/logs/events.jsonl", Base + "/orchestrator/orchestrator.pid", kanbanPath + ".lock", ".git/HEAD"} {
				pipe(dir, f)
			}
		},
		"folders in the place of files": func(dir string) {
			for _, f := range []string{home + "/agent.pid", home + "/resume-state.json", home + "/results/1-x-result.json", Base + "/logs/activity.jsonl", kanbanPath + ".lock"} {
				os.RemoveAll(filepath.Join(dir, f))
				os.MkdirAll(filepath.Join(dir, f), 0o755)
			}
		},
		"files in the place of folders": func(dir string) {
			for _, f := range []string{home, Base + "/logs", Base + "/orchestrator"} {
				os.RemoveAll(filepath.Join(dir, f))
				write(t, dir, f, "x")
			}
		},
		"huge and deep": func(dir string) {
			write(t, dir, home+"/agent.pid", strings.Repeat("1", 1<<20))
			write(t, dir, home+"/resume-state.json", deep)
			write(t, dir, home+"/results/1-x-result.json", deep)
			write(t, dir, home+"/checkpoints/checkpoint-1.json", strings.Repeat(" ", 4<<20))
			write(t, dir, Base+"/logs/activity.jsonl", deep+"\n"+strings.Repeat("\x00", 1<<20))
		},
		"wrong types": func(dir string) {
			write(t, dir, home+"/resume-state.json", `{"attempt_count": "x", "max_attempts": {}, "cooldown_until": [], "terminal": 1}`)
			write(t, dir, home+"/results/1-x-result.json", `{"outputs": [], "errors": {}, "completed_at": {}}`)
			write(t, dir, home+"/checkpoints/checkpoint-1.json", `{"iteration": "x", "next_steps": "x", "timestamp": 1e999}`)
		},
		"names": func(dir string) {
			for i, n := range []string{"worker-TASK-001-..", "worker-TASK-001-\n", "worker-TASK-001-" + strings.Repeat("9", 200), "worker--", "worker-TASK-001", "worker-TASK-001-plan-"} {
				write(t, dir, Base+"/"+workersDir+"/"+n+"/agent.pid", fmt.Sprintln(4999000+i))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := lay(t, file(kanbanPath, kanban(line("=", "TASK-001", "x"), line(" ", "TASK-002", "y")))+file(home+"/agent.pid", nobody))
			spoil(dir)
			p := open(t, dir)
			now := time.Now()
			for i := range 3 {
				s := sameByHints(t, p, now.Add(time.Duration(i)*3*time.Second))
				if len(s.Tasks) != 2 || !shown(s, "TASK-002") || strings.Contains(protocoltest.Describe(s), "EVIL") {
					t.Errorf("look %d:\n%s", i, protocoltest.Describe(s))
				}
			}
		})
	}
}

func TestUnreadableFileIsAFaultThatSaysSo(t *testing.T) { protocoltest.AsNobody(t, unreadable) }

func unreadable(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line(" ", "TASK-001", "x"))))
	if err := os.Chmod(filepath.Join(dir, kanbanPath), 0); err != nil {
		t.Fatal(err)
	}
	s := sameByHints(t, open(t, dir), time.Now())
	if len(s.Faults) != 1 || s.Faults[0].Path != kanbanPath {
		t.Errorf("%+v", s.Faults)
	}
}
