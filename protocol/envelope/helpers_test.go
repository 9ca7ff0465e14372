package envelope

import (
	"encoding/json"
	"fmt"
	"os"
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
	Escalate: 15 * time.Minute, CallsPerDay: 5, Deployers: []string{"DEPLOYMENT", "DEPLOYER", "DEPLOY"}}

func open(t testing.TB, dir string) protocol.Adapter {
	p := New(dir, testOptions)
	t.Cleanup(p.Close)
	return p
}

type site struct {
	*protocoltest.Site
	p *Project
	n int
}

func newSite(t testing.TB, archive string) *site {
	t.Helper()
	s := &site{Site: protocoltest.NewSite(t, archive, time.Now)}
	s.reopen()
	return s
}

func (s *site) reopen() {
	s.p = New(s.Dir, testOptions)
	s.T.Cleanup(s.p.Close)
}

// writeRaw writes the log unchanged, without filling in fields.
func writeRaw(s *site, text string) {
	s.T.Helper()
	s.Do(os.MkdirAll(s.Path(".agents"), 0o755))
	s.Do(os.WriteFile(s.Path(logFile), []byte(text), 0o644))
}

// fields are a message's fields, or overrides of the standard ones.
type fields map[string]any

// with returns the fields with overrides applied.
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

// send writes a message stamped with the site's clock, one second after the previous one, and returns its path.
func (s *site) send(f fields) string {
	s.T.Helper()
	s.Now = s.Now.Add(time.Second)
	s.n++
	file := fmt.Sprintf("%s/%03d.json", messagesDir, s.n)
	s.Write(file, f.with(fields{"timestamp": s.Now.UTC().Format(time.RFC3339)}).String())
	s.Do(os.Chtimes(s.Path(file), s.Now, s.Now))
	return file
}

func (s *site) has(rel string) bool {
	_, err := os.Lstat(s.Path(rel))
	return err == nil
}

// look scans one second later: fully, or with hints.
func (s *site) look(hints ...string) *protocol.Snapshot {
	s.T.Helper()
	s.Pass(time.Second)
	return s.at(s.Now, hints...)
}

func (s *site) at(now time.Time, hints ...string) *protocol.Snapshot {
	s.T.Helper()
	snap := s.p.Observe(s.T.Context(), protocol.ScanOrder{Now: now, Hints: hints})
	return &snap
}

func (s *site) apply(c protocol.Change) error { return s.p.Apply(s.T.Context(), c, s.Now) }

// taskOf returns a task, or an empty one if it is missing.
func taskOf(snap *protocol.Snapshot, id string) *protocol.Task {
	for i := range snap.Tasks {
		if snap.Tasks[i].ID == id {
			return &snap.Tasks[i]
		}
	}
	return &protocol.Task{}
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
		Why: t.Block, Hold: protocol.HoldBlocked, ReleaseBy: now.Add(time.Minute), Judged: protocol.Judged{Ref: t.Ref}, Agent: t.Agent}
}

func releaseOf(id string) protocol.Change {
	return protocol.Change{Verb: protocol.VerbRelease, Subject: protocol.Subject{Kind: protocol.KindTask, ID: id}, Reason: protocol.ReasonDue, Why: "because"}
}

func logOf(e protocol.Event) protocol.Change {
	return protocol.Change{Verb: protocol.VerbLog, Entry: protocol.Entry{Event: e.Name}, Subject: e.Subject, Until: e.At, Why: e.Text, Agent: e.Agent, Judged: protocol.Judged{Ref: e.Ref}}
}

func file(name, text string) string { return "-- " + name + " --\n" + text }
