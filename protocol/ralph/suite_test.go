//go:build linux

package ralph

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// The kanban's formatting is one that no program would write: everything that a change does not mean must survive.
const kanbanText = "# Kanban \r\n\n##  TASKS\n\n" +
	"- [x] **[TASK-002]** Done before\n  - Description: keep [=] **[TASK-001]** as it stands\n\n" +
	"- [%s] **[TASK-001]** Ship   it\n  - Description: x\n  - Priority: HIGH\n  - Dependencies: TASK-002\n  - Scope\n    - [ ] a box\n\n\n" +
	"- [ ] **[TASK-003]** Next\n   \n## Notes\n- [=] **[no task]**\nno newline at the end"

func around(marker string) string {
	return file(kanbanPath, fmt.Sprintf(kanbanText, marker)) + "\n" + file(home+"/agent.pid", nobody) + file(home+"/prd.md", "theirs\n") +
		file(Base+"/logs/worker.log", "theirs\n") + file("src/main.go", "package main\n")
}

// patient waits for the end of processes that were signalled or resumed, because the suite scans at once.
type patient struct{ *Project }

func (p patient) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	err := p.Project.Apply(ctx, c, now)
	for busy := len(p.opts.Resume) > 0; busy; time.Sleep(time.Millisecond) {
		if p.Root == nil {
			break
		}
		busy, _ = p.write.resumes.busy(c.Subject.ID)
	}
	for _, id := range c.Processes {
		for err == nil && proc.Check(proc.Identity(id)) != proc.Gone {
			time.Sleep(time.Millisecond)
		}
	}
	return err
}

func shows(want string, ok func(*protocol.Snapshot) bool) func(*protocol.Snapshot) error {
	return func(s *protocol.Snapshot) error {
		if !ok(s) {
			return fmt.Errorf("want %s", want)
		}
		return nil
	}
}

func find(s *protocol.Snapshot, id string) *protocol.Task {
	for i := range s.Tasks {
		if s.Tasks[i].ID == id {
			return &s.Tasks[i]
		}
	}
	return &protocol.Task{}
}

func change(v protocol.Verb) func(*protocol.Snapshot, time.Time) protocol.Change {
	return func(s *protocol.Snapshot, _ time.Time) protocol.Change {
		c := about(v, find(s, "TASK-001"))
		c.Subject = task("TASK-001")
		return c
	}
}

func TestSuite(t *testing.T) {
	protocoltest.Run(t, protocoltest.Suite{
		Open: func(t testing.TB, dir string) protocol.Adapter { return patient{openFor(t, dir)} },
		Now:  time.Now,
		Unsupported: []protocol.Verb{protocol.VerbRecord, protocol.VerbHold, protocol.VerbRelease, protocol.VerbRenew, protocol.VerbRetry, protocol.VerbBury,
			protocol.VerbFile, protocol.VerbMark, protocol.VerbLog, protocol.VerbUnlock, protocol.VerbPause, protocol.VerbResume},
		Cases: append(cases(), answerCases()...),
		Torn: []protocoltest.Torn{{
			Name: "kanban", File: kanbanPath, Files: around("="),
			Shows: shows("three tasks, one of them in hand", func(s *protocol.Snapshot) bool {
				return len(s.Tasks) == 3 && find(s, "TASK-001").Named == "kanban" && find(s, "TASK-003").Visible
			}),
		}, {
			Name: "pid file", File: home + "/agent.pid", Files: around("="),
			Shows: shows("the worker", func(s *protocol.Snapshot) bool { return len(s.Agents) == 1 && s.Agents[0].PID == 4999999 }),
		}},
		Logs: []string{home + "/agent.pid"}, // contains a different pid in each run
	})
}

func cases() []protocoltest.Case {
	free := []string{kanbanPath + ".lock"}
	locked := func(marker string) string { return around(marker) + file(kanbanPath+".lock", "") } // from an earlier write
	want := func(marker string) string { return file(kanbanPath, fmt.Sprintf(kanbanText, marker)) + "\n" }
	meddle := func(dir string) error {
		return protocoltest.Rewrite(filepath.Join(dir, kanbanPath), "Ship   it", "Ship it tomorrow")
	}
	return []protocoltest.Case{{
		Name: "conclude", Verb: protocol.VerbConclude, Files: around("="), Change: change(protocol.VerbConclude),
		Shows: shows("a failed task", func(s *protocol.Snapshot) bool {
			o := find(s, "TASK-001").Outcome
			return o != nil && o.Status == "failed" && o.Failures[0].Code == "NEEDS_HUMAN"
		}),
		Want: want("*"), Free: append(free, Base+"/"+failuresFile), Meddle: meddle,
	}, {
		Name: "close a violation", Verb: protocol.VerbConclude, Files: around("=") + file(home+"/"+violationFile, violationWord+"\n"),
		Before: func(t testing.TB, _ protocol.Adapter, dir string, now time.Time) {
			age(t, dir, home+"/"+violationFile, now.Add(-2*defaultGrace))
		},
		Change: func(s *protocol.Snapshot, now time.Time) protocol.Change {
			c := change(protocol.VerbConclude)(s, now)
			c.Code, c.Agent = protocol.CodeViolation, workerOne
			return c
		},
		Shows: shows("the reason", func(s *protocol.Snapshot) bool {
			o := find(s, "TASK-001").Outcome
			return o != nil && strings.Contains(o.Failures[0].Message, workerOne+" left its workspace")
		}),
		Want: want("*"), Free: append(free, Base+"/"+failuresFile, Base+"/"+violationsFile), Meddle: meddle,
	}, {
		Name: "cancel", Verb: protocol.VerbCancel, Files: locked(" "), Change: change(protocol.VerbCancel),
		Shows: shows("a task that is not planned", func(s *protocol.Snapshot) bool { return find(s, "TASK-001").Cancelled }),
		Want:  want("N"), Free: free, Meddle: meddle,
	}, {
		Name: "requeue what failed", Verb: protocol.VerbRequeue, Files: locked("*"), Change: change(protocol.VerbRequeue),
		Shows: shows("a visible task", func(s *protocol.Snapshot) bool { return find(s, "TASK-001").Visible }),
		Want:  want(" "), Free: free, Meddle: meddle,
	}, {
		Name: "reap", Verb: protocol.VerbReap, Files: around("="), Before: orphan,
		Change: func(s *protocol.Snapshot, _ time.Time) protocol.Change {
			c := protocol.Change{Verb: protocol.VerbReap, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: workerOne}, Status: "SIGKILL"}
			if a, ok := s.Agent(workerOne); ok {
				c.Processes = a.Orphans
			}
			return c
		},
		Shows: shows("no orphans", func(s *protocol.Snapshot) bool {
			a, ok := s.Agent(workerOne)
			return ok && len(a.Orphans) == 0 && a.Presence == protocol.PresenceGone
		}),
		Meddle: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, home, "agent.pid"), []byte(nobody), 0o640)
		},
	}}
}

// orphan gives the worker a session whose leader is gone, with one process that continues in the worker's folder.
func orphan(t testing.TB, _ protocol.Adapter, dir string, _ time.Time) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!")
	cmd.Dir = filepath.Join(dir, home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	killLater(t, strings.TrimSpace(string(out)))
	pidfile := filepath.Join(dir, home, "agent.pid")
	if err := os.WriteFile(pidfile, []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o640); err != nil {
		t.Fatal(err)
	}
}

// killLater kills a process that a test started, by its identity, when the test ends.
func killLater(t testing.TB, pid string) proc.Identity {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	id, err := proc.Inspect(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proc.Signal(id, "SIGKILL") })
	return id
}
