package handoffs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

const (
	id        = "0b2f6a0e-6d2c-4a53-9d0b-5a54a3a3c001"
	statePath = Base + "/" + stateFile
	logPath   = Base + "/" + logFile
	flatPath  = Base + "/" + boxDir + "/h1.json"
)

// The texts are formatted as no encoder would, so that the test notices any unintended change.
const stateText = `{
   "schema_version" : "1.0.0", "x_ours": [1.50, {"deep": null}],
   "current_workflow": {"id": "w1", "type": "feature", "started": "2026-01-02T03:04:05Z", "spec": "specs/a.md"},
   "current_agent": "builder",
   "last_handoff": null,
   "locks": {
      "src/a.go":   {"agent": "builder", "acquired": "2026-01-02T03:04:05.000Z", "expires": "2026-01-02T03:34:05.000Z", "x": 1.0},
      "src/b.go": {"agent": "fixer", "acquired": "2026-01-02T03:04:05.000Z", "expires": "2026-01-02T03:34:05.000Z"}
   },
   "iteration": 1,
   "agents": {"builder": {"status": "active", "last_active": "2026-01-02T03:04:05Z"}, "fixer": {"status": "idle"}}
}
`

// around is the unrelated content of every project, which must not change.
var around = file(Base+"/settings.json", "{\"theirs\": 1}\n") + file(Base+"/handoffs/notes.md", "# notes\n") + file("src/main.go", "package main\n") + file(Base+"/handoffs/pending/.keep", "")

func lockOf(s *protocol.Snapshot, resource string) *protocol.Lock {
	for i := range s.Locks {
		if s.Locks[i].Resource == resource {
			return &s.Locks[i]
		}
	}
	return nil
}

func unlockChange(s *protocol.Snapshot, resource string) protocol.Change {
	c := protocol.Change{Verb: protocol.VerbUnlock, Subject: protocol.Subject{Kind: protocol.KindLock, ID: resource}, Reason: protocol.ReasonExpired, Why: "over its time"}
	if l := lockOf(s, resource); l != nil {
		c.Ref, c.Agent = l.Ref, l.Holder
	}
	return c
}

func requeueChange(s *protocol.Snapshot, id string) protocol.Change {
	c := protocol.Change{Verb: protocol.VerbRequeue, Subject: protocol.Subject{Kind: protocol.KindTask, ID: id}, Reason: protocol.ReasonLost, Why: "its agent is gone",
		Entry: protocol.Entry{Action: protocol.ActionRetry, Rule: "code=AGENT_LOST", Code: "AGENT_LOST", Attempt: 1}}
	if t := taskOf(s, id); t != nil {
		c.Ref, c.Agent = t.Ref, t.Agent
		c.Attempt = 1 + t.Count(func(protocol.Attempt) bool { return true })
	}
	return c
}

func logChange(s *protocol.Snapshot) protocol.Change {
	if len(s.Events) == 0 {
		return protocol.Change{Verb: protocol.VerbLog, Entry: protocol.Entry{Event: eventCreated}, Subject: protocol.Subject{Kind: protocol.KindTask, ID: id}}
	}
	e := s.Events[0]
	return protocol.Change{Verb: protocol.VerbLog, Subject: e.Subject, Entry: protocol.Entry{Event: e.Name}, Agent: e.Agent, Until: e.At, Why: e.Text, Judged: protocol.Judged{Ref: e.Ref}}
}

func shows(want string, ok func(*protocol.Snapshot) bool) func(*protocol.Snapshot) error {
	return func(s *protocol.Snapshot) error {
		if !ok(s) {
			return fmt.Errorf("want %s", want)
		}
		return nil
	}
}

func meddle(path, old, new string) func(string) error {
	return func(dir string) error { return protocoltest.Rewrite(filepath.Join(dir, path), old, new) }
}

// The suite's clock is ahead of the files, so that recent events are already reported.
func TestSuite(t *testing.T) {
	back := shows("it pending, its attempt on record", func(s *protocol.Snapshot) bool {
		k := taskOf(s, id)
		return k != nil && k.Visible && k.Named == "" && len(k.Attempts) == 1 && k.Attempts[0].Committed
	})
	before, after := boxPath(accepted, id), boxPath(pending, id)
	told := file(logPath, fmt.Sprintf(`{"event": "handoff_created", "agent": "planner", "timestamp": "{{now}}", "context": {"handoff": %q}}
{"event": "handoff_accepted", "agent": "builder", "timestamp": "{{now}}", "context": {"handoff": %q}}
`, id, id))
	flatText := strings.Replace(task(id, "accepted"), "\n \"payload\"", "\n    \"payload\"", 1)
	protocoltest.Run(t, protocoltest.Suite{
		Open: open,
		Now:  func() time.Time { return time.Now().Add(5 * time.Second) },
		Unsupported: []protocol.Verb{protocol.VerbRecord, protocol.VerbHold, protocol.VerbRelease, protocol.VerbRenew, protocol.VerbRetry, protocol.VerbBury, protocol.VerbConclude,
			protocol.VerbCancel, protocol.VerbFile, protocol.VerbMark, protocol.VerbReap, protocol.VerbPause, protocol.VerbResume},
		Logs: []string{logPath, Base + "/" + releasesFile},
		Next: decide,
		Cases: append(answerCases(), []protocoltest.Case{{
			Name: "requeue", Verb: protocol.VerbRequeue, Files: around + told + file(statePath, stateText) + file(before, task(id, "accepted")),
			Change: func(s *protocol.Snapshot, _ time.Time) protocol.Change { return requeueChange(s, id) }, Shows: back,
			Want: file(after, task(id, "accepted")), Gone: []string{before}, Moves: map[string]string{after: before},
			Free: []string{Base + "/" + attemptsDir + "/*", Base + "/" + releasesFile}, Meddle: meddle(before, "do it", "do it now"),
		}, {
			Name: "requeue flat", Verb: protocol.VerbRequeue, Files: around + told + file(statePath, stateText) + file(flatPath, flatText),
			Change: func(s *protocol.Snapshot, _ time.Time) protocol.Change { return requeueChange(s, id) }, Shows: back,
			Want: file(flatPath, strings.Replace(flatText, `"accepted"`, `"pending"`, 1)),
			Free: []string{Base + "/" + attemptsDir + "/*", Base + "/" + releasesFile}, Meddle: meddle(flatPath, "do it", "do it now"),
		}, {
			Name: "requeue failed", Verb: protocol.VerbRequeue, Files: around + told + file(statePath, stateText) + file(before, task(id, "failed")),
			Change: func(s *protocol.Snapshot, _ time.Time) protocol.Change { return requeueChange(s, id) }, Shows: back,
			Want: file(after, task(id, "pending")), Gone: []string{before}, Moves: map[string]string{after: before},
			Free: []string{Base + "/" + attemptsDir + "/*", Base + "/" + releasesFile}, Meddle: meddle(before, "do it", "do it now"),
		}, {
			Name: "requeue failed in pending", Verb: protocol.VerbRequeue, Files: around + told + file(statePath, stateText) + file(after, task(id, "failed")),
			Change: func(s *protocol.Snapshot, _ time.Time) protocol.Change { return requeueChange(s, id) }, Shows: back,
			Want: file(after, task(id, "pending")), Free: []string{Base + "/" + attemptsDir + "/*"}, Meddle: meddle(after, "do it", "do it now"),
		}, {
			Name: "unlock", Verb: protocol.VerbUnlock, Files: around + file(statePath, stateText),
			Change: func(s *protocol.Snapshot, _ time.Time) protocol.Change { return unlockChange(s, "src/a.go") },
			Shows: shows("the other lock alone", func(s *protocol.Snapshot) bool {
				return lockOf(s, "src/a.go") == nil && lockOf(s, "src/b.go") != nil
			}),
			Want: file(statePath, strings.Replace(stateText, `
      "src/a.go":   {"agent": "builder", "acquired": "2026-01-02T03:04:05.000Z", "expires": "2026-01-02T03:34:05.000Z", "x": 1.0},`, "", 1)),
			Free: []string{Base + "/" + releasesFile}, Meddle: meddle(statePath, `03:34:05.000Z", "x"`, `04:34:05.000Z", "x"`),
		}, {
			Name: "log", Verb: protocol.VerbLog, Files: around + file(statePath, stateText) + file(after, task(id, "pending")),
			Change:   func(s *protocol.Snapshot, _ time.Time) protocol.Change { return logChange(s) },
			Shows:    shows("nothing left to be told", func(s *protocol.Snapshot) bool { return len(s.Events) == 0 }),
			Free:     []string{logPath},
			Careless: "a line is only added",
		}}...),
		Torn: []protocoltest.Torn{{
			Name: "state", Files: around + file(statePath, stateText), File: statePath,
			Shows: shows("two agents, two locks", func(s *protocol.Snapshot) bool { return len(s.Agents) == 2 && len(s.Locks) == 2 }),
		}, {
			Name: "handoff", Files: around + file(before, task(id, "accepted")), File: before,
			Shows: shows("the handoff in hand", func(s *protocol.Snapshot) bool { k := taskOf(s, id); return k != nil && k.Named != "" }),
		}},
	})
}

// decide is the supervisor's part after a crash: it completes a half-done requeue, and repeats the case's change until
// the result is visible.
func decide(c *protocoltest.Case, s *protocol.Snapshot, now time.Time) []protocol.Change {
	if t := taskOf(s, id); t != nil && len(t.Attempts) > 0 {
		if last := t.Attempts[len(t.Attempts)-1]; !last.Committed {
			change := requeueChange(s, id)
			change.Attempt = last.N
			return []protocol.Change{change}
		}
	}
	if c.Shows(s) == nil {
		return nil
	}
	return []protocol.Change{c.Change(s, now)}
}
