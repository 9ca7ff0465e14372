package agentstatus

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// The shared log names, once each, every incident that the operator is told of and every task that is issued again
// after its agent was lost: a change that is carried out twice writes one line.
func TestEscalationsAndHandoffsInTheLog(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, strings.ReplaceAll(resultText, "FILE_NOT_FOUND", "AGENT_LOST")))
	call := protocol.Change{Verb: protocol.VerbLog, Subject: protocol.Subject{Kind: protocol.KindTask, ID: taskID},
		Entry: protocol.Entry{Event: eventIncident, Code: "project/task_failed 1"}, Agent: codex, Why: "It failed"}
	ofAgent := call
	ofAgent.Subject, ofAgent.Code = protocol.Subject{Kind: protocol.KindAgent, ID: codex}, "project/agent 1"
	s.look()
	s.Do(s.apply(call))
	s.Do(s.apply(ofAgent))
	s.reopen()
	s.look()
	s.Do(s.apply(call))
	s.Do(s.apply(ofAgent))
	if snap := s.look(); !snap.LogsCalls || !slices.Equal(snap.Called, []string{call.Code, ofAgent.Code}) {
		t.Errorf("called: %v %q", snap.LogsCalls, snap.Called)
	}
	c := retryChange(only(t, s.look()), s.Now, time.Hour)
	c.Code = "AGENT_LOST"
	s.Do(s.apply(c))
	text := s.Read(logPath)
	if strings.Count(text, `"escalation"`) != 2 || strings.Count(text, `"handoff"`) != 1 {
		t.Errorf("got %s", text)
	}
}
