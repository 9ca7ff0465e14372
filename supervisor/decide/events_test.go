package decide

import (
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// An event is not logged again when the part of the log that may have its line was not read.
func TestEventBeforeTheLog(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	appeared := now.Add(-time.Hour)
	task := protocol.Task{Request: protocol.Request{
		ID: "t-1", Agent: "codex-cursor", Created: appeared,
		Ref: protocol.Ref{Path: "t-1.request.json", Sum: "1"},
	}, Visible: true, Appeared: appeared}
	for want, since := range map[bool]time.Time{true: appeared.Add(-time.Minute), false: appeared.Add(time.Minute)} {
		v := View{Now: now, Snapshots: []protocol.Snapshot{{Project: "p", Protocol: "agentstatus", At: now, Act: true, SharedLog: protocol.SharedLog{LogSince: since}, Tasks: []protocol.Task{task}}}}
		old := Memory{LastLook: now.Add(-time.Second), Projects: map[string]ProjectMemory{"p": {Since: appeared.Add(-time.Hour), Looked: now.Add(-time.Second)}}}
		logged := false
		for _, c := range Decide(v, old, Config{LookEvery: 5 * time.Second}).Changes {
			logged = logged || c.Verb == protocol.VerbLog && c.Event == eventCreated
		}
		if logged != want {
			t.Errorf("the log was read since %v, the task appeared at %v: logged %v", since, appeared, logged)
		}
	}
}
