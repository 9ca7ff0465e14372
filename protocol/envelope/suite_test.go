package envelope

import (
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

// The assignment is formatted as no encoder would, so that the test notices any unintended change.
const deployText = `{ "message_type": "TASK_ASSIGNMENT",
    "task_id": "dep_001",   "from_agent": "ORCHESTRATOR", "to_agent": "DEPLOYMENT",
  "timestamp": "{{now-5s}}", "task_name": "Deploy <staging>", "x_ours": [1.50, {"deep": null}],
  "requirements": ["deploy"], "acceptance_criteria": ["✓ it answers"] }
`

// The same task again, one second later.
var secondText = strings.NewReplacer("now-5s", "now-4s", "\n", " ").Replace(deployText)

const (
	deployFile = messagesDir + "/2026 deploy.json"
	heldFile   = deployFile + ".held"
	secondFile = messagesDir + "/again.json"
	noticePath = holdsDir + "/dep_001.json"
	lineText   = `{"message_type": "TASK_ACKNOWLEDGMENT", "task_id": "dev_1", "from_agent": "DEVELOPER", "status": "acknowledged", "timestamp": "{{now-9s}}", "understood": true}` + "\n"
)

// around is the unrelated content of every project, which must not change.
var around = file(messagesDir+"/notes.txt", "theirs\n") + file(messagesDir+"/sub/old.json", "{}\n") + file("src/main.go", "package main\n") +
	file(".agents/config.yaml", "a: b\n")

func onTask(f func(*protocol.Task, time.Time) protocol.Change) func(*protocol.Snapshot, time.Time) protocol.Change {
	return func(s *protocol.Snapshot, now time.Time) protocol.Change { return f(taskOf(s, "dep_001"), now) }
}

func shows(want string, ok func(*protocol.Task) bool) func(*protocol.Snapshot) error {
	return func(s *protocol.Snapshot) error {
		if len(s.Tasks) != 1 || !ok(&s.Tasks[0]) {
			return fmt.Errorf("want %s", want)
		}
		return nil
	}
}

func holdFirst(t testing.TB, a protocol.Adapter, _ string, now time.Time) {
	t.Helper()
	s := a.Observe(t.Context(), protocol.ScanOrder{Now: now})
	if err := a.Apply(t.Context(), holdOf(taskOf(&s, "dep_001"), now), now); err != nil {
		t.Fatal(err)
	}
}

func holdAndSendAgain(t testing.TB, a protocol.Adapter, dir string, now time.Time) {
	t.Helper()
	holdFirst(t, a, dir, now)
	protocoltest.Write(t, dir, file(secondFile, secondText), now)
}

func renewOf(_ *protocol.Task, now time.Time) protocol.Change {
	c := releaseOf("dep_001")
	c.Verb, c.ReleaseBy = protocol.VerbRenew, now.Add(time.Hour)
	return c
}

func meddle(path, old, new string) func(string) error {
	return func(dir string) error { return protocoltest.Rewrite(filepath.Join(dir, path), old, new) }
}

func TestSuite(t *testing.T) {
	protocoltest.Run(t, protocoltest.Suite{
		Open: open,
		Now:  time.Now,
		Unsupported: []protocol.Verb{protocol.VerbRecord, protocol.VerbRetry, protocol.VerbBury, protocol.VerbConclude, protocol.VerbCancel, protocol.VerbFile, protocol.VerbMark,
			protocol.VerbUnlock, protocol.VerbReap, protocol.VerbPause, protocol.VerbResume},
		Cases: slices.Concat(holdCases(), logCases(), answerCases(t), requeueCases()),
		Torn: []protocoltest.Torn{{Name: "assignment", Files: around + file(deployFile, deployText), File: deployFile,
			Shows: shows("the deployment", func(t *protocol.Task) bool { return t.Visible && t.Agent == "DEPLOYMENT" && t.Block != "" })}},
		Logs: []string{auditFile},
		Next: decideChanges,
	})
}

// decideChanges is the supervisor's part after a crash: it releases a half hold, and repeats the case's change until the result
// is visible.
func decideChanges(c *protocoltest.Case, s *protocol.Snapshot, now time.Time) []protocol.Change {
	if c.Shows(s) == nil {
		return nil
	}
	if c.Verb != protocol.VerbLog {
		if t := taskOf(s, "dep_001"); t.Hold != nil && t.Hold.Half {
			return []protocol.Change{releaseOf(t.ID)}
		}
	}
	return []protocol.Change{c.Change(s, now)}
}

func holdCases() []protocoltest.Case {
	files := around + file(deployFile, deployText)
	isHeld := shows("a whole hold", func(t *protocol.Task) bool {
		return t.Hold != nil && !t.Hold.Half && t.Hold.Reason == protocol.HoldBlocked && !t.Visible && !t.Hold.ReleaseBy.IsZero() && t.Block != ""
	})
	isOpen := shows("a visible task", func(t *protocol.Task) bool { return t.Hold == nil && t.Visible && !t.Appeared.IsZero() })
	release := onTask(func(t *protocol.Task, _ time.Time) protocol.Change { return releaseOf("dep_001") })
	return []protocoltest.Case{{
		Name: "hold", Verb: protocol.VerbHold, Files: files, Change: onTask(holdOf), Shows: isHeld,
		Want: file(heldFile, deployText), Moves: map[string]string{heldFile: deployFile}, Gone: []string{deployFile},
		Free: []string{noticePath}, Meddle: meddle(deployFile, "staging", "production"),
	}, {
		Name: "hold of two files", Verb: protocol.VerbHold, Files: files + file(secondFile, secondText), Change: onTask(holdOf), Shows: isHeld,
		Want:  file(heldFile, deployText) + file(secondFile+".held", secondText),
		Moves: map[string]string{heldFile: deployFile, secondFile + ".held": secondFile}, Gone: []string{deployFile, secondFile},
		Free: []string{noticePath}, Meddle: meddle(secondFile, "staging", "production"),
	}, {
		Name: "hold of one more", Verb: protocol.VerbRenew, Files: files, Before: holdAndSendAgain,
		Change: onTask(renewOf), Shows: isHeld,
		Want:  file(heldFile, deployText) + file(secondFile+".held", secondText),
		Moves: map[string]string{heldFile: heldFile, secondFile + ".held": secondFile}, Gone: []string{deployFile, secondFile},
		Free: []string{noticePath}, Meddle: func(dir string) error { return os.Remove(filepath.Join(dir, heldFile)) },
	}, {
		Name: "release of two files", Verb: protocol.VerbRelease, Files: files + file(secondFile, secondText), Before: holdFirst, Change: release, Shows: isOpen,
		Want:  file(deployFile, deployText) + file(secondFile, secondText),
		Moves: map[string]string{deployFile: heldFile, secondFile: secondFile + ".held"}, Gone: []string{heldFile, secondFile + ".held", noticePath},
		Careless: "releasing is right whatever the message says",
	}, {
		Name: "release", Verb: protocol.VerbRelease, Files: files, Before: holdFirst, Change: release, Shows: isOpen,
		Want: file(deployFile, deployText), Moves: map[string]string{deployFile: heldFile}, Gone: []string{heldFile, noticePath},
		Careless: "releasing is right whatever the message says",
	}, {
		Name: "release beside a message written anew", Verb: protocol.VerbRelease, Files: files,
		Before: func(t testing.TB, a protocol.Adapter, dir string, now time.Time) {
			holdFirst(t, a, dir, now)
			protocoltest.Write(t, dir, file(deployFile, strings.Replace(deployText, "staging", "anew", 1)), now)
		},
		Change: release, Shows: isOpen,
		Want:  file(deployFile, strings.Replace(deployText, "staging", "anew", 1)) + file(holdsDir+"/dep_001.1.held", deployText),
		Moves: map[string]string{holdsDir + "/dep_001.1.held": heldFile}, Gone: []string{heldFile, noticePath},
		Careless: "releasing is right whatever the message says",
	}, {
		Name: "release of a hold whose notice is lost", Verb: protocol.VerbRelease, Files: around + file(heldFile, deployText), Change: release, Shows: isOpen,
		Want: file(deployFile, deployText), Moves: map[string]string{deployFile: heldFile}, Gone: []string{heldFile},
		Careless: "releasing is right whatever the message says",
	}, {
		Name: "renew", Verb: protocol.VerbRenew, Files: files, Before: holdFirst,
		Change: onTask(renewOf),
		Shows:  shows("a longer lease", func(t *protocol.Task) bool { return t.Hold != nil && time.Until(t.Hold.ReleaseBy) > 30*time.Minute }),
		Free:   []string{noticePath}, Meddle: func(dir string) error { return os.Remove(filepath.Join(dir, heldFile)) },
	}}
}

// requeueCases: the worker is gone, and the task becomes free again.
func requeueCases() []protocoltest.Case {
	text := strings.NewReplacer("DEPLOYMENT", "DEVELOPER", "Deploy <staging>", "Build <staging>", `"deploy"`, `"build"`).Replace(deployText)
	return []protocoltest.Case{{
		Name: "requeue", Verb: protocol.VerbRequeue, Files: around + file(deployFile, text),
		Before: func(t testing.TB, _ protocol.Adapter, dir string, now time.Time) {
			c := Connect(dir, testOptions)
			defer c.Close()
			if _, err := c.Accept(t.Context(), "dep_001", protocol.Acceptance{Agent: "DEVELOPER", Worker: worker(1)}, now); err != nil {
				t.Fatal(err)
			}
		},
		Change: onTask(func(t *protocol.Task, _ time.Time) protocol.Change {
			return protocol.Change{Verb: protocol.VerbRequeue, Subject: protocol.Subject{Kind: protocol.KindTask, ID: "dep_001"}, Agent: t.Agent,
				Entry: protocol.Entry{Action: protocol.ActionRetry, Code: "AGENT_LOST", Attempt: 1}, Judged: protocol.Judged{Ref: t.Ref, Claim: t.Claim}}
		}),
		Shows: shows("a free task", func(t *protocol.Task) bool {
			return t.Named == "" && len(t.Workers) == 0 && t.Visible && t.Attempt() == 2
		}),
		Want: file(deployFile, text), Free: []string{workFile("dep_001"), attemptsDir + "/*", messagesDir + "/acknowledgment-dep_001.json"},
		Meddle: meddle(deployFile, "staging", "production"),
	}}
}

func logCases() []protocoltest.Case {
	logged := func(s *protocol.Snapshot) error {
		if len(s.Events) > 0 {
			return fmt.Errorf("events %+v", s.Events)
		}
		return nil
	}
	change := func(s *protocol.Snapshot, _ time.Time) protocol.Change {
		if len(s.Events) == 0 {
			return protocol.Change{Verb: protocol.VerbLog}
		}
		return logOf(s.Events[0])
	}
	return []protocoltest.Case{{
		Name: "log a file", Verb: protocol.VerbLog, Files: around + file(deployFile, deployText), Change: change, Shows: logged,
		Free: []string{auditFile}, Meddle: meddle(deployFile, "staging", "production"),
	}, {
		Name: "log a line", Verb: protocol.VerbLog, Files: around + file(logFile, lineText), Change: change, Shows: logged,
		Free: []string{auditFile}, Meddle: meddle(logFile, "true", "null"),
	}}
}
