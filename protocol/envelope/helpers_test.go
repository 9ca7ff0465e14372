package envelope

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

const (
	messagesDir = ".agents/messages"
	logFile     = ".agents/messages.jsonl"
)

// testOptions are the settings of every test.
var testOptions = Options{Messages: messagesDir, Log: logFile, Acknowledge: 10 * time.Minute, Clarify: 5 * time.Minute,
	Escalate: 15 * time.Minute, CallsPerDay: 5}

func open(t testing.TB, dir string) protocol.Adapter {
	p := New(dir, testOptions)
	t.Cleanup(p.Close)
	return p
}

// site is one project under test, with a clock of its own that begins now.
type site struct {
	t   testing.TB
	dir string
	p   *Project
	now time.Time
	n   int
}

func newSite(t testing.TB, archive string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), now: time.Now()}
	protocoltest.Write(t, s.dir, archive, s.now)
	s.reopen()
	return s
}

func (s *site) reopen() {
	s.p = New(s.dir, testOptions)
	s.t.Cleanup(s.p.Close)
}

func (s *site) path(rel string) string { return filepath.Join(s.dir, filepath.FromSlash(rel)) }

func (s *site) write(rel, text string) {
	s.t.Helper()
	protocoltest.Write(s.t, s.dir, "-- "+rel+" --\n"+text, s.now)
}

// writeRaw writes the log as it is, with nothing filled in.
func writeRaw(s *site, text string) {
	s.t.Helper()
	s.do(os.MkdirAll(s.path(".agents"), 0o755))
	s.do(os.WriteFile(s.path(logFile), []byte(text), 0o644))
}

// fields are a message's, or what lies over a standard one.
type fields map[string]any

// with lays fields over others.
func (f fields) with(more fields) fields {
	sum := fields{}
	for _, m := range []fields{f, more} {
		for k, v := range m {
			sum[k] = v
		}
	}
	return sum
}

func (f fields) String() string {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// send writes a message that is stamped with the site's clock, a second later than the one before, and gives its path.
func (s *site) send(f fields) string {
	s.t.Helper()
	s.now = s.now.Add(time.Second)
	s.n++
	file := fmt.Sprintf("%s/%03d.json", messagesDir, s.n)
	s.write(file, f.with(fields{"timestamp": s.now.UTC().Format(time.RFC3339)}).String())
	s.do(os.Chtimes(s.path(file), s.now, s.now))
	return file
}

func (s *site) read(rel string) string {
	s.t.Helper()
	b, err := os.ReadFile(s.path(rel))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

func (s *site) has(rel string) bool {
	_, err := os.Lstat(s.path(rel))
	return err == nil
}

func (s *site) do(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// look makes a look a second later: a full one, or by hints.
func (s *site) look(hints ...string) *protocol.Snapshot {
	s.t.Helper()
	s.now = s.now.Add(time.Second)
	if real := time.Now(); real.After(s.now) {
		s.now = real
	}
	return s.at(s.now, hints...)
}

func (s *site) at(now time.Time, hints ...string) *protocol.Snapshot {
	s.t.Helper()
	snap := s.p.Observe(s.t.Context(), protocol.Look{Now: now, Hints: hints})
	return &snap
}

func (s *site) apply(c protocol.Change) error { return s.p.Apply(s.t.Context(), c, s.now) }

// task finds a task; an empty one when it is not there.
func task(snap *protocol.Snapshot, id string) *protocol.Task {
	for i := range snap.Tasks {
		if snap.Tasks[i].ID == id {
			return &snap.Tasks[i]
		}
	}
	return &protocol.Task{}
}

// codes lists the findings of a task as "code severity".
func codes(snap *protocol.Snapshot, id string) string {
	var list []string
	for _, f := range snap.Findings {
		if f.Subject.ID == id {
			list = append(list, f.Code+" "+string(f.Severity))
		}
	}
	return strings.Join(list, ", ")
}

func faultAt(snap *protocol.Snapshot, part string) *protocol.Fault {
	for i := range snap.Faults {
		if strings.Contains(snap.Faults[i].Path, part) {
			return &snap.Faults[i]
		}
	}
	return nil
}

func assign(id, to string) fields {
	return fields{"message_type": "TASK_ASSIGNMENT", "task_id": id, "from_agent": "ORCHESTRATOR", "to_agent": to, "task_name": "Do " + id,
		"requirements": []string{"one"}, "acceptance_criteria": []string{"a", "b"}, "context": fields{"project": "Shop"}}
}

func ack(id, from string) fields {
	return fields{"message_type": "TASK_ACKNOWLEDGMENT", "task_id": id, "from_agent": from, "status": "acknowledged", "understood": true,
		"clarifications_needed": []string{}}
}

func complete(id, from string, passed bool) fields {
	return fields{"message_type": "TASK_COMPLETION", "task_id": id, "from_agent": from, "status": "completed", "output": fields{"summary": "did it"},
		"validation": fields{"acceptance_criteria_met": []bool{true, passed}, "all_passed": passed, "issues": []string{}}}
}

func verdict(id, status string, blocking bool) fields {
	return complete(id, "SECURITY_AUDITOR", true).with(fields{"approval_status": status, "output": fields{"blocking_deployment": blocking}})
}

func reject(id string) fields {
	return fields{"message_type": "TASK_REJECTION", "task_id": id, "from_agent": "ORCHESTRATOR", "to_agent": "DEVELOPER", "reason": "console.log is left",
		"issues": []string{"line 3"}, "action_required": "remove it"}
}

func escalate(id, from, to string) fields {
	return fields{"message_type": "BLOCKER_ESCALATION", "task_id": id, "from_agent": from, "blocker_type": "technical_blocker", "severity": "high",
		"description": "which way?", "options": []string{"A: left", "B: right"}, "suggested_resolution": "A", "context": "it forks", "escalate_to": to}
}

func resolve(id string) fields {
	return fields{"message_type": "BLOCKER_RESOLUTION", "task_id": id, "from_agent": "human", "to_agent": "DEVELOPER", "decision": "A: left", "resume_task": true}
}

func holdOf(t *protocol.Task, now time.Time) protocol.Change {
	return protocol.Change{Verb: protocol.VerbHold, Subject: protocol.Subject{Kind: protocol.KindTask, ID: t.ID}, Reason: protocol.ReasonBlocked,
		Why: t.Block, Hold: protocol.HoldBlocked, ReleaseBy: now.Add(time.Minute), Ref: t.Ref, Agent: t.Agent}
}

func releaseOf(id string) protocol.Change {
	return protocol.Change{Verb: protocol.VerbRelease, Subject: protocol.Subject{Kind: protocol.KindTask, ID: id}, Reason: protocol.ReasonDue, Why: "because"}
}

func logOf(e protocol.Event) protocol.Change {
	return protocol.Change{Verb: protocol.VerbLog, Event: e.Name, Subject: e.Subject, Until: e.At, Why: e.Text, Agent: e.Agent, Ref: e.Ref}
}

func file(name, text string) string { return "-- " + name + " --\n" + text }
