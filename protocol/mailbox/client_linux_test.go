package mailbox

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// The orchestrator rewrites queue.json and status.json without a lock. While it lives, only messages are written, which
// it reads when the agent that writes them has ended.
func TestWhileTheOrchestratorLives(t *testing.T) {
	r := newTestProject(t, around)
	cmd := r.child("exec sleep 100")
	r.Now = time.Now()
	r.Write(pidPath, pidText(cmd))
	r.Write(boardPath, boardOf(pidText(cmd), "+0s"))
	c := r.client()
	for _, act := range []func() (protocol.Receipt, error){
		func() (protocol.Receipt, error) { return c.submit(protocol.Order{Title: "T"}) },
		func() (protocol.Receipt, error) {
			return c.submit(protocol.Order{To: developer, Title: "T", Text: "t"})
		},
		func() (protocol.Receipt, error) { return c.accept("task-004", "team-lead") },
		func() (protocol.Receipt, error) {
			return c.report("task-003", "team-lead", protocol.ReportApproved, protocol.Report{})
		},
		func() (protocol.Receipt, error) {
			return c.report("task-003", "team-lead", protocol.ReportRejected, protocol.Report{Summary: "no"})
		},
		func() (protocol.Receipt, error) {
			return c.report("task-001", "developer", protocol.ReportReturned, protocol.Report{})
		},
	} {
		before := c.texts()
		if _, err := act(); err == nil || !strings.Contains(err.Error(), "stop it (claude-orchestrator stop)") || c.texts() != before {
			t.Errorf("%v", err)
		}
	}
	queue, board := r.Read(queuePath), r.Read(boardPath)
	c.must(protocol.TaskPending)(c.submit(protocol.Order{ID: "task-001", To: developer, Text: "a login page with tests"}))
	c.must(protocol.TaskWaiting)(c.report("task-001", "developer", protocol.ReportBlocked, protocol.Report{Summary: "Which colour?"}))
	done, err := c.report("task-001", "developer", protocol.ReportDone, protocol.Report{Summary: "it is there"})
	if err != nil || !strings.Contains(done.Note, "moves the task on") {
		t.Errorf("%+v %v", done, err)
	}
	if n := len(c.box(Base + "/messages/to-team-lead.json").Messages); n != 2 || r.Read(queuePath) != queue || r.Read(boardPath) != board {
		t.Errorf("%d messages; %s %s", n, r.Read(queuePath), r.Read(boardPath))
	}
	r.Do(c.c.Join(t.Context(), protocol.AgentRun{Agent: developer, Task: "task-001"}, c.now()))
	if r.Read(boardPath) != board {
		t.Error("Join wrote under a living orchestrator")
	}
	if list, err := c.c.Pending(t.Context(), developer, c.now()); err != nil || len(list) > 0 && !strings.Contains(list[0].Waits, "runs") {
		t.Errorf("%+v %v", list, err)
	}
}

// A task whose recorded process is gone is lost at once. A task whose process lives is not.
func TestClaimOfAProcess(t *testing.T) {
	bothLayouts(t, func(t *testing.T, r *testProject, base string) {
		c := r.client()
		cmd := r.child("exec sleep 100")
		id, err := proc.Inspect(cmd.Process.Pid)
		r.Do(err)
		c.must(protocol.TaskPending)(c.submit(login()))
		accept := func(agent string, id protocol.Identity) (protocol.Receipt, error) {
			return c.c.Accept(t.Context(), "task-007", protocol.Acceptance{Agent: agent, Worker: id}, c.now())
		}
		c.must(protocol.TaskRunning)(accept("developer", protocol.Identity(id)))
		s := r.look()
		if k := taskOf(t, s, "task-007"); len(k.Workers) != 1 || k.Workers[0] != protocol.Identity(id) || k.Claim == "" || k.Lost != "" {
			t.Errorf("%+v", k.Flight)
		}
		if a, err := c.c.Show(t.Context(), "task-007", c.now()); err != nil || a.Worker != protocol.Identity(id) {
			t.Errorf("%+v %v", a, err)
		}
		c.fails(protocol.ErrTaken, "developer", func() (protocol.Receipt, error) { return accept("developer", protocol.Identity(id)) })
		c.fails(protocol.ErrTaken, "developer", func() (protocol.Receipt, error) {
			return c.report("task-007", "team-lead", protocol.ReportFailed, protocol.Report{Summary: "no"})
		})
		r.end(cmd)
		s = r.look()
		k := taskOf(t, s, "task-007")
		r.Do(r.apply(requeueChange(k)))
		if c.pending("developer") == "" {
			t.Errorf("requeued: %s", r.Read(base+"/queue.json"))
		}
		c.must(protocol.TaskRunning)(accept("developer", protocol.Identity{}))
		if k := taskOf(t, r.pass(14*time.Minute), "task-007"); len(k.Workers) > 0 || k.Lost != "" {
			t.Errorf("a claim without a process: %+v", k.Flight)
		}
		if k := taskOf(t, r.pass(2*time.Minute), "task-007"); k.Lost == "" {
			t.Errorf("silent for longer than a developer may be: %+v", k.Flight)
		}
	})
}

// The program exits with code 0 after one of its agents has failed, and leaves the task in progress. Its files are as
// version 1.0.18 writes them then; if a person stops it, current and the role's status stay.
func TestExitAfterAFailedAgent(t *testing.T) {
	board := `{"orchestrator": {"running": false, "pid": null, "startedAt": null}, "planner": {"status": "%s", "lastActivity": "{{now-5s}}"},
  "developer": {"status": "idle", "currentTask": null, "lastActivity": "{{now-1h}}"}, "lastCycle": %s}`
	queue := `{"version": "1.0", "tasks": [{"id": "task-001", "type": "feature", "priority": "high", "title": "T", "description": "d", "status": "in_progress",
  "createdAt": "{{now-1h}}", "updatedAt": "{{now-5s}}"}], "completed": [], "current": %s, "lastUpdated": "{{now-5s}}"}`
	text := func(form string, words ...string) string {
		for _, w := range words {
			form = strings.Replace(form, "%s", w, 1)
		}
		return form + "\n"
	}
	r := newTestProject(t, file(queuePath, text(queue, "null"))+file(boardPath, text(board, "idle", `{"number": 1, "completed": 0, "failed": 1, "remaining": 0}`)))
	s := r.look()
	if k := taskOf(t, s, "task-001"); k.Lost == "" {
		t.Errorf("%+v", k.Flight)
	}
	a, _ := s.Agent(orchestratorName)
	if a.Presence != protocol.PresenceGone || !strings.Contains(a.Evidence, "1 in progress") || a.Left != "" || protocoltest.Codes(s, orchestratorName) != "" {
		t.Errorf("%+v %s", a, protocoltest.Codes(s, orchestratorName))
	}
	r = newTestProject(t, file(queuePath, text(queue, `"task-001"`))+file(boardPath, text(board, "planning", "null")))
	s = r.look()
	if a, _ := s.Agent(orchestratorName); a.Left == "" || a.Presence == protocol.PresenceGone || taskOf(t, s, "task-001").Lost != "" {
		t.Errorf("stopped by a person: %+v", a)
	}
}

// Folders in place of files, or files with other content, end an action with an error that names the file, and nothing is written.
func TestActionsOnHostileFiles(t *testing.T) {
	outside := t.TempDir() + "/victim"
	for name, spoil := range map[string]func(r *testProject) error{
		"a list as queue": func(r *testProject) error { return os.WriteFile(r.Path(queuePath), []byte("[]"), 0o600) },
		"tasks is a text": func(r *testProject) error { return os.WriteFile(r.Path(queuePath), []byte(`{"tasks": "x"}`), 0o600) },
		"a link out as mailbox": func(r *testProject) error {
			_ = os.Remove(r.Path(devPath))
			return os.Symlink(outside, r.Path(devPath))
		},
		"a folder as mailbox": func(r *testProject) error { _ = os.Remove(r.Path(devPath)); return os.Mkdir(r.Path(devPath), 0o700) },
		"messages is a text":  func(r *testProject) error { return os.WriteFile(r.Path(devPath), []byte(`{"messages": "x"}`), 0o600) },
		"no queue":            func(r *testProject) error { return os.Remove(r.Path(queuePath)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestProject(t, around)
			r.Do(os.WriteFile(outside, []byte(`{"messages": [], "lastRead": null}`), 0o600))
			r.Do(spoil(r))
			c := r.client()
			_, err := c.submit(protocol.Order{ID: "task-004", To: developer, Text: "t"})
			if err == nil || !strings.Contains(err.Error(), "queue.json") && !strings.Contains(err.Error(), "to-developer.json") {
				t.Errorf("%v", err)
			}
			if text, _ := os.ReadFile(outside); string(text) != `{"messages": [], "lastRead": null}` {
				t.Errorf("written outside: %s", text)
			}
		})
	}
	r := newTestProject(t, "")
	if _, err := r.client().submit(protocol.Order{Title: "T"}); err == nil || !strings.Contains(err.Error(), protocol.ErrAbsent.Error()) {
		t.Errorf("no folder: %v", err)
	}
}

// Bytes that are not the action's stay as they are, in files that no encoder would write.
func TestOtherBytesStay(t *testing.T) {
	r := newTestProject(t, around)
	c := r.client()
	c.must(protocol.TaskPending)(c.submit(protocol.Order{ID: "task-004", To: developer, Text: "t", Fields: map[string]any{"x_more": json.RawMessage(`{"a": 1.50}`)}}))
	c.must(protocol.TaskRunning)(c.accept("task-004", "developer"))
	c.must(protocol.TaskWaiting)(c.report("task-004", "developer", protocol.ReportDone, protocol.Report{Summary: "s"}))
	c.must(protocol.TaskDone)(c.report("task-004", "team-lead", protocol.ReportApproved, protocol.Report{}))
	queue := r.Read(queuePath)
	for _, part := range []string{`"x_ours": [1.50, {"deep": null}]`, `"updatedAt": "2026-01-02T04:04:05.000Z", "x": 1.0}`, `"status" : "rejected"`, `{"id": "task-000", "title": "Set-up"`} {
		if !strings.Contains(queue, part) {
			t.Errorf("%s is gone:\n%s", part, queue)
		}
	}
	if !strings.Contains(queue, `"current": null`) || strings.Count(queue, "task-004") != 1 {
		t.Errorf("%s", queue)
	}
	if got, want := strings.ReplaceAll(r.Read(devPath), "\n", ""), strings.ReplaceAll(devText, "\n", ""); strings.Split(got, `"lastRead"`)[0] != strings.Split(want, `"lastRead"`)[0] {
		t.Errorf("%s", r.Read(devPath))
	}
}
