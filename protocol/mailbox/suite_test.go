package mailbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// The paths of the program's files.
const (
	queuePath = Base + "/queue.json"
	boardPath = Base + "/status.json"
	devPath   = Base + "/messages/to-developer.json"
	leadPath  = Base + "/messages/to-tech-lead.json"
	pidPath   = Base + "/orchestrator.pid"
)

// The files' formatting is one that no encoder would produce: everything that a change does not mean must survive.
const queueText = `{
    "version": "1.0.0",   "x_ours": [1.50, {"deep": null}],
    "tasks": [
        {"id": "task-001", "type": "feature", "priority": "high", "title": "Login", "description": "a login page",
         "status": "in_progress", "createdAt": "2026-01-02T03:04:05.000Z", "updatedAt": "2026-01-02T04:04:05.000Z", "x": 1.0},
        {"id": "task-002","type":"bug_fix", "priority":"low","title":"Typo","status" : "rejected", "createdAt": "2026-01-02T03:04:05Z",
         "updatedAt": "2026-01-02T04:00:00Z", "rejectionReason": "the tests fail"},
        {"id": "task-003", "type": "feature", "priority": 2, "title": "Logout", "status": "awaiting_review", "createdAt": "2026-01-02T03:04:05Z", "updatedAt": "2026-01-02T04:04:05Z"},
        {"id": "task-004", "type": "feature", "priority": "medium", "title": "Profile", "status": "pending", "createdAt": "2026-01-02T03:04:05Z"}
    ],
    "completed": [ {"id": "task-000", "title": "Set-up", "status": "completed", "createdAt": "2026-01-02T03:04:05Z", "updatedAt": "2026-01-02T03:30:00Z"} ],
    "current": "task-001", "lastUpdated": "2026-01-02T04:04:05.000Z"
}
`

// No process can have that pid (pid_max is 4194304 at most).
const boardText = `{
 "orchestrator" : { "running": true, "pid": 4999999, "startedAt": "2026-01-02T03:00:00.000Z" , "x": [ 1 ] },
 "planner": {"status": "idle", "lastActivity": "2026-01-02T03:00:00.000Z"},
 "designer": {"status": "idle", "lastActivity": "2026-01-02T03:00:00.000Z"},
 "techLead": {"status": "idle", "lastActivity": "2026-01-02T03:00:00.000Z"},
 "developer": {"status": "implementing", "currentTask": "task-001", "lastActivity": "2026-01-02T04:04:05.000Z"},
 "lastCycle": null
}
`

const devText = `{
  "messages": [
    {"type": "task_assignment", "taskId": "task-000", "platform": "web", "title": "Set-up", "instructions": "set it up",
     "filesToCreate": [], "architecture": "MVC", "timestamp": "2026-01-02T03:10:00.000Z"},
    {"type": "task_assignment", "taskId": "task-001", "platform": "web", "title": "Login", "instructions": "a login page", "filesToCreate": ["login.ts"], "architecture": "MVC", "timestamp": "2026-01-02T04:04:00.000Z", "x": 1.0},
    {"type": "review_result", "taskId": "task-000", "platform": "web", "timestamp": "2026-01-02T03:25:00.000Z"}
  ],
  "lastRead": "2026-01-02T04:05:00.000Z", "x": {}
}
`

var around = file(queuePath, queueText) + file(boardPath, boardText) + file(devPath, devText) +
	file(leadPath, `{"messages": [], "lastRead": null}`+"\n") + file(Base+"/logs/log.md", "# Log\n") +
	file(Base+"/config.json", "{}\n") + file("src/main.ts", "export {}\n")

func TestSuite(t *testing.T) {
	protocoltest.Run(t, protocoltest.Suite{
		Open: func(t testing.TB, dir string) protocol.Adapter {
			p := New(dir, limits)
			t.Cleanup(p.Close)
			return p
		},
		Now:   time.Now,
		Cases: append(cases(), answerCases()...),
		Unsupported: []protocol.Verb{protocol.VerbRecord, protocol.VerbHold, protocol.VerbRelease, protocol.VerbRenew, protocol.VerbRetry, protocol.VerbBury, protocol.VerbConclude,
			protocol.VerbCancel, protocol.VerbLog, protocol.VerbUnlock, protocol.VerbReap, protocol.VerbPause, protocol.VerbResume},
		Torn: tornCases(),
	})
}

func cases() []protocoltest.Case {
	ledger := Base + "/" + attemptsDir + "/*"
	back := func(id, from string) protocoltest.Case {
		return protocoltest.Case{
			Name: "requeue what is " + from, Verb: protocol.VerbRequeue, Files: around, Change: onTask(id, requeueChange),
			Shows: shows(id, "pending, one attempt on record", func(t *protocol.Task) bool {
				return t.Visible && t.Named == "" && t.Outcome == nil && t.Lost == "" && len(t.Attempts) == 1 && t.Attempts[0].Committed && t.Attempt() == 2
			}),
			Free: []string{ledger, queuePath}, // TestReset checks the queue's text
			Meddle: func(dir string) error {
				return protocoltest.Rewrite(filepath.Join(dir, queuePath), fmt.Sprintf(`"id": %q`, id), fmt.Sprintf(`"id": %q, "note": 1`, id))
			},
		}
	}
	return []protocoltest.Case{
		back("task-001", "in progress"), back("task-002", "rejected"),
		{
			Name: "correct running", Verb: protocol.VerbMark, Files: around,
			Change: func(s *protocol.Snapshot, _ time.Time) protocol.Change {
				a, _ := s.Agent(orchestratorName)
				return protocol.Change{Verb: protocol.VerbMark, Subject: about(protocol.KindAgent, a.Name), Agent: a.Name, Judged: protocol.Judged{Ref: a.Ref}, Status: "error",
					Reason: protocol.ReasonGone, Why: "its process is gone"}
			},
			Shows: func(s *protocol.Snapshot) error {
				if a, ok := s.Agent(orchestratorName); !ok || a.Status != "stopped" || a.Recorded != "error" || a.Ref != (protocol.Ref{}) || !a.Idle {
					return fmt.Errorf("orchestrator %+v", a)
				}
				return nil
			},
			Want: file(boardPath, strings.Replace(boardText, `"running": true`, `"running": false`, 1)),
			Free: []string{},
			Meddle: func(dir string) error {
				return protocoltest.Rewrite(filepath.Join(dir, boardPath), "4999999", "4999998")
			},
		},
		{
			Name: "clear the messages of a completed task", Verb: protocol.VerbFile, Files: around,
			Change: onTask("task-000", func(t *protocol.Task) protocol.Change {
				c := change(t, protocol.VerbFile)
				if t.Late != nil {
					c.Ref = *t.Late
				}
				return c
			}),
			Shows: shows("task-000", "no message left", func(t *protocol.Task) bool { return t.Late == nil && t.Outcome.Succeeded() }),
			Want:  file(devPath, cleared), Free: []string{},
			Meddle: func(dir string) error { return protocoltest.Rewrite(filepath.Join(dir, devPath), "MVC", "MVVM") },
		},
	}
}

// cleared is devText without the two messages of task-000.
const cleared = `{
  "messages": [
    {"type": "task_assignment", "taskId": "task-001", "platform": "web", "title": "Login", "instructions": "a login page", "filesToCreate": ["login.ts"], "architecture": "MVC", "timestamp": "2026-01-02T04:04:00.000Z", "x": 1.0}
  ],
  "lastRead": "2026-01-02T04:05:00.000Z", "x": {}
}
`

func onTask(id string, f func(*protocol.Task) protocol.Change) func(*protocol.Snapshot, time.Time) protocol.Change {
	return func(s *protocol.Snapshot, _ time.Time) protocol.Change {
		for i := range s.Tasks {
			if s.Tasks[i].ID == id {
				return f(&s.Tasks[i])
			}
		}
		return protocol.Change{}
	}
}

func change(t *protocol.Task, v protocol.Verb) protocol.Change {
	return protocol.Change{Verb: v, Subject: about(protocol.KindTask, t.ID), Why: "because", Judged: protocol.Judged{Ref: t.Ref}, Agent: t.Agent}
}

func requeueChange(t *protocol.Task) protocol.Change {
	c := change(t, protocol.VerbRequeue)
	c.Action, c.Rule, c.Code, c.Attempt, c.Reason = protocol.ActionRetry, "code=AGENT_LOST", "AGENT_LOST", 1, protocol.ReasonLost
	if t.Outcome != nil && len(t.Outcome.Failures) > 0 {
		c.Code, c.Reason = t.Outcome.Failures[0].Code, protocol.ReasonRule
	}
	for _, k := range t.Attempts {
		if k.Committed {
			c.Attempt = k.N + 1
		}
	}
	return c
}

func shows(id, want string, ok func(*protocol.Task) bool) func(*protocol.Snapshot) error {
	return func(s *protocol.Snapshot) error {
		for i := range s.Tasks {
			if s.Tasks[i].ID == id {
				if !ok(&s.Tasks[i]) {
					return fmt.Errorf("want %s: %s; have %+v", id, want, s.Tasks[i])
				}
				return nil
			}
		}
		return errors.New(id + " is not there")
	}
}

func tornCases() []protocoltest.Torn {
	whole := func(s *protocol.Snapshot) error {
		if len(s.Agents) != 5 || len(s.Tasks) != 5 || s.Tasks[0].ID != "task-001" || s.Tasks[0].Lost == "" || s.Tasks[4].Late == nil || s.Yield != "" {
			return fmt.Errorf("%s", protocoltest.Describe(s))
		}
		if a, _ := s.Agent(orchestratorName); a.Presence != protocol.PresenceGone {
			return fmt.Errorf("orchestrator %+v", a)
		}
		return nil
	}
	runs := func(s *protocol.Snapshot) error {
		if a, _ := s.Agent(orchestratorName); a == nil || a.Presence != protocol.PresenceHere || s.Yield == "" {
			return fmt.Errorf("orchestrator %+v, yield %q", a, s.Yield)
		}
		return nil
	}
	return []protocoltest.Torn{
		{Name: "queue", Files: around, File: queuePath, Shows: whole},
		{Name: "status", Files: around, File: boardPath, Shows: whole},
		{Name: "messages", Files: around, File: devPath, Shows: whole},
		{Name: "pid file", Files: around + file(pidPath, fmt.Sprintf("%d\n", os.Getpid())), File: pidPath, Shows: runs},
	}
}
