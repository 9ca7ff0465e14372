package ralph

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// While another process holds the kanban's lock, the answer is postponed to a later scan. Nothing is recorded before
// steward holds the lock.
func TestAnswerWaitsForTheKanbansLock(t *testing.T) {
	needFlock(t)
	text := kanban(line("*", "TASK-001", "x"))
	dir := lay(t, file(kanbanPath, text)+file(kanbanPath+".lock", ""))
	cmd := exec.Command("flock", filepath.Join(dir, kanbanPath+".lock"), "sh", "-c", "echo ready; read x")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 8))
	p, now := open(t, dir), time.Now()
	c := decided(t, look(t, p, now), answerComplete, now)
	if err := p.Apply(t.Context(), c, now); !errors.Is(err, protocol.ErrConflict) || !strings.Contains(err.Error(), "the kanban is locked by ") {
		t.Errorf("got %v", err)
	}
	if kanbanOf(t, dir) != text || onRecord(dir) != "" {
		t.Errorf("%s\n%s", kanbanOf(t, dir), onRecord(dir))
	}
	in.Close()
	cmd.Wait()
	if err := p.Apply(t.Context(), c, now.Add(lockRetry)); err != nil || kanbanOf(t, dir) != kanban(line("x", "TASK-001", "x")) {
		t.Errorf("when it is free again: %v\n%s", err, kanbanOf(t, dir))
	}
}

// An answer is rejected while a session of the task lives, whatever the task's marker and whichever pid file names the
// session.
func TestAnswerSparesLivingSessions(t *testing.T) {
	for _, worker := range []string{workerOne, "worker-TASK-001-plan-1705312001"} {
		for _, pid := range pidFiles {
			for _, resume := range [][]string{nil, {"touch", "ran-{task}"}} {
				t.Run(fmt.Sprint(worker, pid, len(resume)), func(t *testing.T) {
					text, now := kanban(line("*", "TASK-001", "x")), time.Now()
					dir := lay(t, file(kanbanPath, text)+file(home+"/prd.md", "x\n"))
					at := filepath.Join(dir, Base, workersDir, worker)
					k := found(t, at, at, ":")
					write(t, dir, Base+"/"+workersDir+"/"+worker+"/"+pid, pidText(k.leader))
					p := open(t, dir)
					p.opts.Resume, p.write.resumes.moment = resume, time.Minute
					for _, option := range []string{answerRetry, answerComplete} {
						c := decided(t, look(t, p, now), option, now)
						if err := p.Apply(t.Context(), c, now); !errors.Is(err, protocol.ErrConflict) || !strings.Contains(err.Error(), worker+" is at work") {
							t.Errorf("%s: %v", option, err)
						}
					}
					if _, err := os.Stat(filepath.Join(dir, "ran-TASK-001")); err == nil || kanbanOf(t, dir) != text || onRecord(dir) != "" {
						t.Errorf("%v\n%s\n%s", err, kanbanOf(t, dir), onRecord(dir))
					}
				})
			}
		}
	}
}

// A user can decide about lost work as about failed work, but not about work that is not proved lost.
func TestAnswerAboutWorkInHand(t *testing.T) {
	for name, c := range map[string]struct {
		files, err string
	}{
		"lost":          {file(home+"/agent.pid", nobody), ""},
		"will resume":   {file(home+"/agent.pid", nobody) + file(home+"/"+resumeFile, `{"attempt_count": 1, "max_attempts": 5}`), "its own program resumes it"},
		"being set up":  {file(home+"/prd.md", "x\n"), "nothing proves any more"},
		"no more tries": {file(home+"/agent.pid", nobody) + file(home+"/"+resumeFile, `{"attempt_count": 5, "max_attempts": 5}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := lay(t, file(kanbanPath, kanban(line("=", "TASK-001", "x")))+c.files)
			p, now := open(t, dir), time.Now()
			err := p.Apply(t.Context(), decided(t, look(t, p, now), answerRetry, now), now)
			if c.err == "" && err != nil || c.err != "" && (!errors.Is(err, protocol.ErrConflict) || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if changed := kanbanOf(t, dir) == kanban(line(" ", "TASK-001", "x")); changed != (c.err == "") {
				t.Errorf("the kanban is\n%s", kanbanOf(t, dir))
			}
		})
	}
}

func TestAnswerInAReadOnlyFolder(t *testing.T) { protocoltest.AsNobody(t, readOnly) }

func readOnly(t *testing.T) {
	text, now := kanban(line("*", "TASK-001", "x")), time.Now()
	for _, resume := range [][]string{nil, {"touch", "ran-{task}"}} {
		dir := lay(t, file(kanbanPath, text)+file(kanbanPath+".lock", "")+file(Base+"/steward/guard.lock", ""))
		p := open(t, dir)
		p.opts.Resume, p.write.resumes.moment = resume, time.Minute
		c := decided(t, look(t, p, now), answerRetry, now)
		for _, mode := range []os.FileMode{0o555, 0o755} {
			for _, name := range []string{Base, Base + "/" + own} {
				if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
					t.Fatal(err)
				}
			}
			err := p.Apply(t.Context(), c, now)
			_, ran := os.Stat(filepath.Join(dir, "ran-TASK-001"))
			if mode == 0o555 && (!errors.Is(err, os.ErrPermission) || kanbanOf(t, dir) != text || ran == nil) {
				t.Errorf("read-only: %v, ran %v\n%s", err, ran, kanbanOf(t, dir))
			}
			if mode == 0o755 && (err != nil || resume == nil && kanbanOf(t, dir) == text || resume != nil && ran != nil) {
				t.Errorf("writable again: %v, ran %v\n%s", err, ran, kanbanOf(t, dir))
			}
		}
	}
}
