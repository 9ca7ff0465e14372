package agentstatus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

const taskID = "0b2f6a0e-6d2c-4a53-9d0b-5a54a3a3c001"

// No encoder formats a request like this: whatever a change does not touch must stay as it is.
const requestText = `{
    "task_id": "0b2f6a0e-6d2c-4a53-9d0b-5a54a3a3c001",   "request_type": "deploy",
    "x_ours": [1.50, {"deep": null}],
    "priority": "high", "source_agent": "livhana-layer1.1", "target_agent": "codex-cursor",
    "created_at": "2026-01-02T03:04:05Z",
    "timeout_seconds": 300, "throttle_capacity": 0.80,
    "context": {"jesse_directive": "ship it", "session_id": "7d9a44d4-91a5-4f3c-8d42-1a2b3c4d5e6f", "voice_mode_active": true, "related_tasks": []},
    "payload": {"task_type": "deploy", "parameters": {"service_name": "voice-service", "environment": "production"}},
    "coordination": {"blocking": true, "progress_updates_required": true, "update_interval_seconds": 30}
}
`

const resultText = `{"task_id": "0b2f6a0e-6d2c-4a53-9d0b-5a54a3a3c001", "status": "failed", "source_agent": "codex-cursor",
 "completed_at": "2026-01-02T03:09:05Z", "execution_time_seconds": 12, "capacity_used": 0.4,
 "result": {"success": false, "artifacts_created": [], "files_modified": [], "summary": "no file", "metrics": {}},
 "errors": [{"code": "FILE_NOT_FOUND", "message": "go.mod is missing", "severity": "error", "file": "go.mod", "line": 3}],
 "next_actions": [], "x": 1}
`

const registryText = `{
 "x_note" : "keep me",
 "updated_at": "2026-01-02T03:04:05Z",
 "agents": {
  "codex-cursor": {"type": "executor", "environment": "cursor-ide", "pid": null, "status": "active", "last_seen": "2026-01-02T03:04:05Z", "capabilities": ["code_execution"], "x": 1.0},
  "livhana-layer1.1": {"type": "orchestrator", "environment": "claude-code-cli", "pid": 7, "status": "idle", "last_seen": "2026-01-02T03:04:05Z", "capabilities": []}
 }
}
`

const (
	requestPath = Base + "/" + tasksDir + "/task_" + taskID + requestExt
	heldPath    = Base + "/" + tasksDir + "/task_" + taskID + heldExt
	noticePath  = Base + "/" + tasksDir + "/task_" + taskID + noticeExt
	resultPath  = Base + "/" + tasksDir + "/task_" + taskID + resultExt
	archiveReq  = Base + "/" + archiveDir + "/task_" + taskID + requestExt
	archiveRes  = Base + "/" + archiveDir + "/task_" + taskID + resultExt
	ledger      = Base + "/" + attemptsDir + "/*"
	logPath     = Base + "/" + logFile
)

// around is what lies in every project and no change may touch.
var around = file(Base+"/"+tasksDir+"/task_notes.txt", "theirs\n") + file(Base+"/"+registry, registryText) +
	file("src/main.go", "package main\n") + file(Base+"/codex_status/heartbeat.json", beatText("codex-cursor"))

func beatText(name string) string {
	return fmt.Sprintf(`{"agent_name": %q, "status": "idle", "last_heartbeat": "{{now}}", "uptime_seconds": 5, "current_capacity": 0.6,
 "active_tasks": [], "health": {"cpu_ok": true, "memory_ok": true, "disk_ok": true, "last_error": null}}
`, name)
}

func file(name, text string) string { return "-- " + name + " --\n" + text }

func attempt(n int, kind string) string { return Base + "/" + attemptFile(taskID, n, kind) }

// apply carries out the change that a case starts with.
func apply(t testing.TB, a protocol.Adapter, now time.Time, change func(*protocol.Task) protocol.Change) {
	t.Helper()
	s := a.Observe(t.Context(), protocol.ScanOrder{Now: now})
	c := change(only(t, &s))
	if err := a.Apply(t.Context(), c, now); err != nil {
		t.Fatalf("prepare: %s: %v", c.Verb, err)
	}
}

func only(t testing.TB, s *protocol.Snapshot) *protocol.Task {
	t.Helper()
	if len(s.Tasks) != 1 {
		t.Fatalf("%d tasks, faults %+v", len(s.Tasks), s.Faults)
	}
	return &s.Tasks[0]
}

func about(t *protocol.Task, v protocol.Verb) protocol.Change {
	return protocol.Change{Verb: v, Subject: protocol.Subject{Kind: protocol.KindTask, ID: taskID}, Why: "because",
		Judged: protocol.Judged{Ref: t.Ref, Asked: t.Ref, Created: t.Created}, Agent: t.Agent}
}

func holdChange(t *protocol.Task, now time.Time) protocol.Change {
	c := about(t, protocol.VerbHold)
	c.Reason, c.Hold, c.Until, c.ReleaseBy = protocol.ReasonCapacity, protocol.HoldCapacity, now.Add(time.Minute), now.Add(30*time.Second)
	c.Gate = &protocol.Gate{Dimension: "memory", Used: protocol.Used(0.93), Limit: 0.8}
	return c
}

func retryChange(t *protocol.Task, now time.Time, due time.Duration) protocol.Change {
	c := about(t, protocol.VerbRetry)
	c.Ref, c.Reason, c.Hold, c.Action, c.Rule, c.Code = t.Outcome.Ref, protocol.ReasonRule, protocol.HoldRetry, protocol.ActionRetry, "code=FILE_NOT_FOUND", "FILE_NOT_FOUND"
	c.Attempt, c.Until, c.ReleaseBy, c.Timeout = 1, now.Add(due).UTC().Truncate(time.Second), now.Add(time.Minute), 2*t.Timeout
	for _, k := range t.Attempts {
		if k.Committed {
			c.Attempt = k.N + 1
		}
	}
	return c
}

func holdFirst(t testing.TB, a protocol.Adapter, _ string, now time.Time) {
	apply(t, a, now, func(k *protocol.Task) protocol.Change { return holdChange(k, now) })
}

func retryFirst(t testing.TB, a protocol.Adapter, _ string, now time.Time) {
	apply(t, a, now, func(k *protocol.Task) protocol.Change { return retryChange(k, now, time.Hour) })
}

// onTask builds a case's Change or Shows from a function on the only task.
func onTask(f func(*protocol.Task, time.Time) protocol.Change) func(*protocol.Snapshot, time.Time) protocol.Change {
	return func(s *protocol.Snapshot, now time.Time) protocol.Change {
		if len(s.Tasks) != 1 {
			return protocol.Change{}
		}
		return f(&s.Tasks[0], now)
	}
}

func shows(want string, ok func(*protocol.Task) bool) func(*protocol.Snapshot) error {
	return func(s *protocol.Snapshot) error {
		if len(s.Tasks) != 1 || !ok(&s.Tasks[0]) {
			return fmt.Errorf("want %s", want)
		}
		return nil
	}
}

func meddle(path, old, new string) func(string) error {
	return func(dir string) error { return protocoltest.Rewrite(filepath.Join(dir, path), old, new) }
}

func grown(seconds int) string {
	return strings.Replace(requestText, `"timeout_seconds": 300`, fmt.Sprintf(`"timeout_seconds": %d`, seconds), 1)
}

func TestSuite(t *testing.T) {
	protocoltest.Run(t, protocoltest.Suite{
		Open: func(t testing.TB, dir string) protocol.Adapter {
			p := New(dir, Options{})
			t.Cleanup(p.Close)
			return p
		},
		Now:         time.Now,
		Unsupported: []protocol.Verb{protocol.VerbUnlock, protocol.VerbRequeue, protocol.VerbReap},
		Cases:       slices.Concat(holdCases(), retryCases(), endCases(), agentCases(), answerCases()),
		Torn:        tornCases(),
		Logs:        []string{logPath},
		Next:        decide,
	})
}

// decide plays the supervisor after a crash (supervisor: held, ended): it releases a half hold, continues a half-done
// retry, and applies the case's change again until the result shows.
func decide(c *protocoltest.Case, s *protocol.Snapshot, now time.Time) []protocol.Change {
	if c.Verb == protocol.VerbMark || c.Verb == protocol.VerbPause || c.Verb == protocol.VerbResume || c.Verb == protocol.VerbLog {
		if c.Shows(s) == nil {
			return nil
		}
		return []protocol.Change{c.Change(s, now)}
	}
	t := &s.Tasks[0]
	scheduled := len(t.Attempts) > 0 && !t.Attempts[len(t.Attempts)-1].Committed
	half := t.Outcome != nil && scheduled && !t.Outcome.Succeeded()
	if t.Hold != nil && t.Hold.Half && !half {
		return []protocol.Change{about(t, protocol.VerbRelease)}
	}
	if c.Shows(s) == nil {
		return nil
	}
	return []protocol.Change{c.Change(s, now)}
}

func holdCases() []protocoltest.Case {
	request := around + file(requestPath, requestText)
	isHeld := shows("a whole hold", func(t *protocol.Task) bool {
		return t.Hold != nil && !t.Hold.Half && t.Hold.Reason == protocol.HoldCapacity && !t.Visible && !t.Hold.ReleaseBy.IsZero()
	})
	isOpen := shows("a visible task", func(t *protocol.Task) bool { return t.Hold == nil && t.Visible && !t.Appeared.IsZero() })
	return []protocoltest.Case{{
		Name: "hold", Verb: protocol.VerbHold, Files: request,
		Change: onTask(holdChange), Shows: isHeld,
		Want: file(heldPath, requestText), Moves: map[string]string{heldPath: requestPath}, Gone: []string{requestPath},
		Free: []string{noticePath, logPath}, Meddle: meddle(requestPath, "ship it", "ship it now"),
	}, {
		Name: "release", Verb: protocol.VerbRelease, Files: request, Before: holdFirst,
		Change: onTask(func(t *protocol.Task, _ time.Time) protocol.Change { return about(t, protocol.VerbRelease) }), Shows: isOpen,
		Want: file(requestPath, requestText), Moves: map[string]string{requestPath: heldPath}, Gone: []string{heldPath, noticePath},
		Free: []string{logPath}, Careless: "releasing is right whatever the request says",
	}, {
		Name: "release beside a request written anew", Verb: protocol.VerbRelease, Files: request,
		Before: func(t testing.TB, a protocol.Adapter, dir string, now time.Time) {
			holdFirst(t, a, dir, now)
			protocoltest.Write(t, dir, file(requestPath, grown(77)), now)
		},
		Change: onTask(func(t *protocol.Task, _ time.Time) protocol.Change { return about(t, protocol.VerbRelease) }), Shows: isOpen,
		Want:  file(requestPath, grown(77)) + file(attempt(1, "held"), requestText),
		Moves: map[string]string{attempt(1, "held"): heldPath}, Gone: []string{heldPath, noticePath},
		Free: []string{logPath}, Careless: "releasing is right whatever the request says",
	}, {
		Name: "renew", Verb: protocol.VerbRenew, Files: request, Before: holdFirst,
		Change: onTask(func(t *protocol.Task, now time.Time) protocol.Change {
			c := about(t, protocol.VerbRenew)
			c.ReleaseBy = now.Add(time.Hour)
			return c
		}),
		Shows: shows("a longer lease", func(t *protocol.Task) bool {
			return t.Hold != nil && time.Until(t.Hold.ReleaseBy) > 30*time.Minute
		}),
		Free: []string{noticePath}, Meddle: func(dir string) error { return os.Remove(filepath.Join(dir, heldPath)) },
	}}
}

func retryCases() []protocoltest.Case {
	open := around + file(requestPath, requestText) + file(resultPath, resultText)
	archived := around + file(archiveReq, requestText) + file(archiveRes, resultText)
	waits := shows("a held task with its attempt on record", func(t *protocol.Task) bool {
		return t.Hold != nil && !t.Hold.Half && t.Hold.Reason == protocol.HoldRetry && !t.Visible && t.Outcome == nil &&
			len(t.Attempts) == 1 && t.Attempts[0].Committed && t.Hold.NotBefore.Equal(t.Attempts[0].Due) && t.Timeout == 600*time.Second && t.Attempt() == 2
	})
	again := onTask(func(t *protocol.Task, now time.Time) protocol.Change {
		if t.Outcome == nil { // already taken away
			return about(t, protocol.VerbRelease)
		}
		return retryChange(t, now, time.Hour)
	})
	want := file(heldPath, grown(600)) + file(attempt(1, "result"), resultText)
	return []protocoltest.Case{{
		Name: "retry", Verb: protocol.VerbRetry, Files: open, Change: again, Shows: waits, Want: want,
		Moves: map[string]string{heldPath: requestPath, attempt(1, "result"): resultPath}, Gone: []string{requestPath, resultPath},
		Free: []string{noticePath, logPath, ledger}, Meddle: meddle(resultPath, "no file", "no files"),
	}, {
		Name: "retry from the archive", Verb: protocol.VerbRetry, Files: archived, Change: again, Shows: waits, Want: want,
		Moves: map[string]string{heldPath: archiveReq, attempt(1, "result"): archiveRes}, Gone: []string{archiveReq, archiveRes},
		Free: []string{noticePath, logPath, ledger}, Meddle: meddle(archiveRes, "no file", "no files"),
	}, {
		Name: "retry that is due at once, with what an attempt leaves", Verb: protocol.VerbRetry,
		Files: open + file(Base+"/"+tasksDir+"/task_"+taskID+progressExt, `{"task_id": "`+taskID+`", "progress_percent": 10}`+"\n") +
			file(Base+"/"+deadFile(taskID), "{}\n"),
		Change: onTask(func(t *protocol.Task, now time.Time) protocol.Change {
			if t.Outcome == nil {
				return about(t, protocol.VerbRelease)
			}
			c := retryChange(t, now, 0)
			c.Until, c.Timeout = now, 0
			return c
		}),
		Shows: shows("a visible task in its second attempt", func(t *protocol.Task) bool {
			return t.Visible && t.Attempt() == 2 && t.Named == "" && !t.Buried && t.Progress.At.IsZero()
		}),
		Want:  file(requestPath, requestText) + file(attempt(1, "result"), resultText) + file(attempt(1, "letter"), "{}\n"),
		Moves: map[string]string{attempt(1, "result"): resultPath, attempt(1, "letter"): Base + "/" + deadFile(taskID)},
		Gone:  []string{resultPath, heldPath, noticePath, Base + "/" + deadFile(taskID), Base + "/" + tasksDir + "/task_" + taskID + progressExt},
		Free:  []string{logPath, ledger}, Meddle: meddle(resultPath, "no file", "no files"),
	}, {
		Name: "retry that only puts its schedule on record", Verb: protocol.VerbRetry, Files: open,
		Change: onTask(func(t *protocol.Task, now time.Time) protocol.Change {
			c := retryChange(t, now, time.Hour)
			c.NoHold = true
			return c
		}),
		Shows: shows("a schedule beside the result", func(t *protocol.Task) bool {
			return t.Outcome != nil && t.Hold == nil && len(t.Attempts) == 1 && !t.Attempts[0].Committed
		}),
		Free: []string{attempt(1, "sched")}, Meddle: meddle(resultPath, "no file", "no files"),
	}}
}

func endCases() []protocoltest.Case {
	request := around + file(requestPath, requestText)
	failed := request + file(resultPath, resultText)
	ofResult := func(v protocol.Verb) func(*protocol.Snapshot, time.Time) protocol.Change {
		return onTask(func(t *protocol.Task, _ time.Time) protocol.Change {
			c := about(t, v)
			c.Ref, c.Code, c.Rule = t.Outcome.Ref, "FILE_NOT_FOUND", "code=FILE_NOT_FOUND"
			return c
		})
	}
	plain := func(v protocol.Verb, reason protocol.Reason) func(*protocol.Snapshot, time.Time) protocol.Change {
		return onTask(func(t *protocol.Task, _ time.Time) protocol.Change {
			c := about(t, v)
			c.Reason, c.Code, c.Twice = reason, "AGENT_LOST", true
			return c
		})
	}
	cancelled := func(code string) func(*protocol.Snapshot) error {
		return shows("a cancelled task with a "+code+" result", func(t *protocol.Task) bool {
			return t.Cancelled && t.Hold == nil && t.Outcome != nil && len(t.Outcome.Failures) == 1 && t.Outcome.Failures[0].Code == code
		})
	}
	return []protocoltest.Case{{
		Name: "bury", Verb: protocol.VerbBury, Files: failed, Change: ofResult(protocol.VerbBury),
		Shows: shows("a dead letter", func(t *protocol.Task) bool { return t.Buried && t.Outcome != nil }),
		Free:  []string{Base + "/" + deadFile(taskID), Base + "/" + finalFile(taskID), logPath}, Meddle: meddle(resultPath, "no file", "no files"),
	}, {
		Name: "conclude", Verb: protocol.VerbConclude, Files: request, Change: plain(protocol.VerbConclude, protocol.ReasonLost),
		Shows: shows("steward's own result", func(t *protocol.Task) bool {
			return t.Outcome != nil && t.Outcome.Ours && t.Outcome.Twice && t.Outcome.Status == "failed" && t.Outcome.Failures[0].Code == "AGENT_LOST"
		}),
		Free: []string{resultPath, logPath},
		Meddle: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, resultPath), []byte(resultText), 0o640)
		},
	}, {
		Name: "cancel what is visible", Verb: protocol.VerbCancel, Files: request, Change: plain(protocol.VerbCancel, protocol.ReasonOperator),
		Shows: cancelled("CANCELLED"), Free: []string{resultPath, Base + "/" + cancelledFile(taskID), logPath},
		Meddle: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, resultPath), []byte(strings.Replace(resultText, "failed", "completed", 1)), 0o640)
		},
	}, {
		Name: "cancel what is held", Verb: protocol.VerbCancel, Files: request, Before: holdFirst, Change: plain(protocol.VerbCancel, protocol.ReasonOperator),
		Shows: cancelled("CANCELLED"), Want: file(requestPath, requestText), Moves: map[string]string{requestPath: heldPath}, Gone: []string{heldPath, noticePath},
		Free: []string{resultPath, Base + "/" + cancelledFile(taskID), logPath}, Careless: "the operator ends it whatever the request says",
	}, {
		Name: "cancel a retry", Verb: protocol.VerbCancel, Files: failed, Before: retryFirst, Change: plain(protocol.VerbCancel, protocol.ReasonSuperseded),
		Shows: cancelled("FILE_NOT_FOUND"), Want: file(requestPath, grown(600)) + file(resultPath, resultText),
		Moves: map[string]string{requestPath: heldPath, resultPath: attempt(1, "result")}, Gone: []string{heldPath, noticePath, attempt(1, "result")},
		Free: []string{Base + "/" + cancelledFile(taskID), logPath}, Careless: "the operator ends it whatever the request says",
	}, {
		Name: "file a late result", Verb: protocol.VerbFile,
		Files: around + file(archiveReq, requestText) + file(archiveRes, strings.Replace(resultText, "failed", "completed", 1)) + file(resultPath, resultText),
		Change: onTask(func(t *protocol.Task, _ time.Time) protocol.Change {
			c := about(t, protocol.VerbFile)
			if t.Late != nil {
				c.Ref = *t.Late
			}
			return c
		}),
		Shows: shows("the first result alone", func(t *protocol.Task) bool {
			return t.Late == nil && t.Outcome != nil && t.Outcome.Succeeded() && t.Outcome.Archived
		}),
		Want: file(attempt(1, "late"), resultText), Moves: map[string]string{attempt(1, "late"): resultPath}, Gone: []string{resultPath},
		Free: []string{logPath}, Meddle: meddle(resultPath, "no file", "no files"),
	}, {
		Name: "record a result", Verb: protocol.VerbRecord, Files: request + file(resultPath, completedText),
		Change: resultRecord, Shows: shows("it recorded", func(t *protocol.Task) bool { return t.Outcome != nil && !t.Outcome.Unrecorded }),
		Free: []string{Base + "/" + finalFile(taskID)}, Meddle: meddle(resultPath, "no file", "no files"),
	}, {
		Name: "put the first result back", Verb: protocol.VerbFile, Files: request + file(resultPath, completedText), Before: secondResult,
		Change: onTask(func(t *protocol.Task, _ time.Time) protocol.Change {
			c := about(t, protocol.VerbFile)
			if t.Late != nil {
				c.Ref = *t.Late
			}
			return c
		}),
		Shows: shows("the first result", func(t *protocol.Task) bool {
			return t.Late == nil && t.Outcome != nil && t.Outcome.Succeeded() && !t.Outcome.Unrecorded
		}),
		Want: file(attempt(1, "late"), resultText) + file(resultPath, completedText), Free: []string{logPath, resultPath}, Meddle: meddle(resultPath, "no file", "no files"),
	}, {
		Name: "log", Verb: protocol.VerbLog, Files: request,
		Change: onTask(func(t *protocol.Task, now time.Time) protocol.Change {
			c := about(t, protocol.VerbLog)
			c.Event, c.Until = "task_created", now
			return c
		}),
		Shows: shows("the event", func(t *protocol.Task) bool { return slices.Equal(t.Logged, []string{"task_created"}) }),
		Free:  []string{logPath}, Careless: "a log is appended to",
	}}
}

var completedText = strings.Replace(resultText, "failed", "completed", 1)

var resultRecord = onTask(func(t *protocol.Task, _ time.Time) protocol.Change {
	c := about(t, protocol.VerbRecord)
	if t.Outcome != nil {
		c.Ref = t.Outcome.Ref
	}
	return c
})

// secondResult records the completed result, and writes a failed result over it.
func secondResult(t testing.TB, a protocol.Adapter, dir string, now time.Time) {
	apply(t, a, now, func(k *protocol.Task) protocol.Change {
		return resultRecord(&protocol.Snapshot{Tasks: []protocol.Task{*k}}, now)
	})
	if err := os.WriteFile(filepath.Join(dir, resultPath), []byte(resultText), 0o640); err != nil {
		t.Fatal(err)
	}
}

func agentCases() []protocoltest.Case {
	record := Base + "/" + recordPath("codex-cursor")
	agentIs := func(want string, ok func(*protocol.Agent) bool) func(*protocol.Snapshot) error {
		return func(s *protocol.Snapshot) error {
			if a, there := s.Agent("codex-cursor"); !there || !ok(a) {
				return errors.New("want codex-cursor " + want)
			}
			return nil
		}
	}
	of := func(v protocol.Verb, status string) func(*protocol.Snapshot, time.Time) protocol.Change {
		return func(s *protocol.Snapshot, _ time.Time) protocol.Change {
			a, _ := s.Agent("codex-cursor")
			return protocol.Change{Verb: v, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: a.Name}, Agent: a.Name, Judged: protocol.Judged{Ref: a.Ref},
				Status: status, Reason: protocol.ReasonSilent, Why: "silent for 92 s"}
		}
	}
	dead := strings.Replace(strings.Replace(registryText, `"status": "active"`, `"status": "error"`, 1),
		`"updated_at": "2026-01-02T03:04:05Z"`, `"updated_at": "{{now}}"`, 1)
	return []protocoltest.Case{{
		Name: "mark", Verb: protocol.VerbMark, Files: around, Change: of(protocol.VerbMark, "error"),
		Shows: agentIs("in error", func(a *protocol.Agent) bool { return a.Recorded == "error" && a.PID == 0 }),
		Want:  file(Base+"/"+registry, dead), Free: []string{logPath},
		Meddle: meddle(Base+"/"+registry, `"status": "active"`, `"status": "busy"`),
	}, {
		Name: "pause", Verb: protocol.VerbPause, Files: around, Change: of(protocol.VerbPause, ""),
		Shows: agentIs("held", func(a *protocol.Agent) bool { return a.Held == "silent for 92 s" }),
		Free:  []string{record}, Careless: "it is steward's own file",
	}, {
		Name: "resume", Verb: protocol.VerbResume, Files: around, Change: of(protocol.VerbResume, ""),
		Before: func(t testing.TB, a protocol.Adapter, _ string, now time.Time) {
			s := a.Observe(t.Context(), protocol.ScanOrder{Now: now})
			if err := a.Apply(t.Context(), of(protocol.VerbPause, "")(&s, now), now); err != nil {
				t.Fatal(err)
			}
		},
		Shows: agentIs("released", func(a *protocol.Agent) bool { return a.Held == "" }),
		Free:  []string{record}, Careless: "it is steward's own file",
	}}
}

func tornCases() []protocoltest.Torn {
	files := around + file(requestPath, requestText)
	everybody := func(s *protocol.Snapshot) error {
		a, ok := s.Agent("codex-cursor")
		if !ok || len(s.Agents) != 2 || a.Beat.Mark == "" || a.Recorded != "active" {
			return fmt.Errorf("agents %+v", s.Agents)
		}
		if len(s.Tasks) != 1 || !s.Tasks[0].Visible || s.Tasks[0].Agent != "codex-cursor" {
			return fmt.Errorf("tasks %+v", s.Tasks)
		}
		return nil
	}
	return []protocoltest.Torn{
		{Name: "request", Files: files, File: requestPath, Shows: everybody},
		{Name: "registry", Files: files, File: Base + "/" + registry, Shows: everybody},
		{Name: "heartbeat", Files: files, File: Base + "/codex_status/heartbeat.json", Shows: everybody},
		{Name: "result", Files: files + file(resultPath, resultText), File: resultPath, Shows: shows("the result", func(t *protocol.Task) bool { return t.Outcome != nil })},
		{Name: "progress", Files: files + file(Base+"/"+tasksDir+"/task_"+taskID+progressExt, `{"task_id": "`+taskID+`", "progress_percent": 10}`+"\n"),
			File: Base + "/" + tasksDir + "/task_" + taskID + progressExt, Shows: everybody},
	}
}
