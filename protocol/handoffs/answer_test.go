package handoffs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// The document's own escalation in its message format.
const escalationText = `{
  "schema_version": "1.0.0",
  "message_id": "7f1c0d52-8a57-4a0e-9d7e-3f2f6f0a1e11",
  "timestamp": "2026-01-02T03:04:05Z",
  "from": "builder",
  "to": "orchestrator",
  "type": "escalation",
  "priority": "high",
  "payload": {
    "reason": "spec_ambiguity",
    "details": "Cannot determine auth method",
    "options": ["JWT", "Session", "OAuth"],
    "context": "spec line 45",
    "blocking": true
  },
  "context": {"workflow": "feature", "spec": "path/to/spec.md", "iteration": 1, "escalation_id": "another"},
  "status": "pending"
}
`

// Its answer: the keys of the document's message format, in the document's order.
const responseText = `{
  "schema_version": "1.0.0",
  "message_id": "%s",
  "timestamp": "{{now}}",
  "from": "human",
  "to": "builder",
  "type": "escalation_response",
  "priority": "high",
  "payload": {
    "in_reply_to": "7f1c0d52-8a57-4a0e-9d7e-3f2f6f0a1e11",
    "decision": "Session",
    "rationale": "it is there already",
    "answered_by": "Jesse"
  },
  "context": {
    "workflow": "feature",
    "spec": "path/to/spec.md",
    "iteration": 1
  },
  "status": "pending"
}
`

const escalationID = "7f1c0d52-8a57-4a0e-9d7e-3f2f6f0a1e11"

// answerID returns the id of an answer with the incident's key.
func answerID(plea, key string) string { return uuidOf(jsonfile.SumOf([]byte(plea + "\x00" + key))) }

func answerTo(s *protocol.Snapshot, key string) protocol.Change {
	c := protocol.Change{Verb: protocol.VerbAnswer, Subject: s.Subject(protocol.KindQuestion, "gone"), Reason: protocol.ReasonOperator, Why: "Jesse answered",
		Answer: &protocol.Answer{Key: key, Option: "2", Label: "Session", Why: "it is there already", By: "Jesse"}}
	if len(s.Questions) > 0 {
		c.Subject.ID, c.Ref, c.Agent = s.Questions[0].ID, s.Questions[0].Ref, s.Questions[0].Agent
	}
	return c
}

func answerCases() []protocoltest.Case {
	change := func(s *protocol.Snapshot, _ time.Time) protocol.Change { return answerTo(s, "i1") }
	calm := func(agents string) func(*protocol.Snapshot) error {
		return func(s *protocol.Snapshot) error {
			var names []string
			for _, a := range s.Agents {
				names = append(names, a.Name)
			}
			if len(s.Questions)+len(s.Findings)+len(s.Faults)+len(s.Tasks) > 0 || slices.ContainsFunc(s.Events, func(e protocol.Event) bool { return e.Subject.ID != escalationID }) || strings.Join(names, " ") != agents {
				return fmt.Errorf("want an answered escalation and nothing else:\n%s", protocoltest.Describe(s))
			}
			return nil
		}
	}
	id := answerID(escalationID, "i1")
	flatFile, flatAnswer := Base+"/"+boxDir+"/e.json", Base+"/"+boxDir+"/handoff-"+id+".json"
	text := fmt.Sprintf(responseText, id)
	kept := around + file(Base+"/handoffs/completed/.keep", "") + file(statePath, stateDocOf(`"builder": {"status": "idle"}, "orchestrator": {"status": "idle"}`, "")) +
		file(logPath, `{"event": "escalation_triggered", "agent": "builder", "timestamp": "{{now}}", "context": {"handoff": "`+escalationID+`"}}`+"\n")
	// A crash after the answer may leave the question in place; it still counts as answered.
	free := []string{boxPath(pending, escalationID), boxPath(accepted, escalationID), boxPath(completed, escalationID), flatFile}
	return []protocoltest.Case{{
		Name: "answer", Verb: protocol.VerbAnswer, Files: kept + file(boxPath(pending, escalationID), escalationText), Change: change,
		Shows: calm("builder orchestrator"), Want: file(boxPath(pending, id), text), Free: free, Tail: free, Meddle: meddle(boxPath(pending, escalationID), "auth method", "auth"),
	}, {
		Name: "answer what is accepted", Verb: protocol.VerbAnswer, Change: change,
		Files: kept + file(boxPath(accepted, escalationID), strings.Replace(escalationText, `"status": "pending"`, `"status": "accepted"`, 1)),
		Shows: calm("builder orchestrator"), Want: file(boxPath(pending, id), text), Free: free, Tail: free, Meddle: func(dir string) error {
			if err := os.MkdirAll(filepath.Join(dir, Base, boxDir, "completed"), 0o755); err != nil {
				return err
			}
			return os.Rename(filepath.Join(dir, boxPath(accepted, escalationID)), filepath.Join(dir, boxPath(completed, escalationID)))
		},
	}, {
		Name: "answer flat", Verb: protocol.VerbAnswer, Files: kept + file(flatFile, escalationText), Change: change,
		Shows: calm("builder orchestrator"), Want: file(flatAnswer, text), Free: free, Tail: free, Meddle: meddle(flatFile, "auth method", "auth"),
	}}
}

// responses lists the answers written for the operator, in any folder.
func (s *site) responses() (list []string) {
	s.T.Helper()
	for _, at := range places {
		found, err := filepath.Glob(s.Path(Base + "/" + at.dir() + "/handoff-*.json"))
		s.Do(err)
		for _, f := range found {
			if text, _ := os.ReadFile(f); strings.Contains(string(text), typeAnswer) {
				list = append(list, string(text))
			}
		}
	}
	return list
}

// An answered escalation moves to completed/ unchanged; directly in handoffs/, its status changes instead.
func TestAnsweredEscalationIsCompleted(t *testing.T) {
	for _, at := range []box{pending, accepted} {
		s := newSite(t, file(boxPath(at, escalationID), escalationText)+
			file(Base+"/handoffs/pending/.keep", "")+file(Base+"/handoffs/completed/.keep", ""))
		s.Do(s.apply(answerTo(s.look(), "i1")))
		if _, err := os.Stat(s.Path(boxPath(at, escalationID))); err == nil || s.Read(boxPath(completed, escalationID)) != escalationText {
			t.Errorf("%s: the answered escalation did not move to completed/", at)
		}
		if snap := s.look(); len(snap.Questions)+len(snap.Findings)+len(snap.Faults) > 0 {
			t.Errorf("%s: %s", at, protocoltest.Describe(snap))
		}
	}
	flatFile := Base + "/" + boxDir + "/e.json"
	s := newSite(t, file(flatFile, escalationText))
	s.Do(s.apply(answerTo(s.look(), "i1")))
	if want := strings.Replace(escalationText, `"status": "pending"`, `"status": "completed"`, 1); s.Read(flatFile) != want {
		t.Errorf("flat: %s", s.Read(flatFile))
	}
}

// The agent moves the answer through the folders, as it does with every message. The answer never becomes work or a
// finding. Repeating the same key writes nothing; an answer with another key comes too late.
func TestAnswerGoesItsWay(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf(`"builder": {"status": "idle"}`, ""))+file(boxPath(pending, escalationID), escalationText))
	first := answerTo(s.look(), "i1")
	s.Do(s.apply(first))
	if snap := s.at([]string{}); len(snap.Questions) > 0 {
		t.Errorf("a look without a hint at the answer: %s", protocoltest.Describe(snap))
	}
	id := answerID(escalationID, "i1")
	for _, at := range []box{pending, accepted, completed} {
		if at != pending {
			s.move(boxPath(at-1, id), boxPath(at, id))
			s.Write(boxPath(at, id), strings.Replace(s.Read(boxPath(at, id)), `"status": "`+(at-1).String(), `"status": "`+at.String(), 1))
		}
		for _, snap := range []*protocol.Snapshot{s.at([]string{boxPath(at, id)}), s.after(time.Hour)} {
			if len(snap.Questions)+len(snap.Tasks)+len(snap.Findings) > 0 || strings.Contains(eventNames(snap), id) {
				t.Errorf("%s:\n%s", at, protocoltest.Describe(snap))
			}
		}
		if err := s.apply(first); err != nil || len(s.responses()) != 1 {
			t.Errorf("%s: once more: %v, %d answers", at, err, len(s.responses()))
		}
		other := first
		other.Answer = &protocol.Answer{Key: "i2", Label: "JWT"}
		if err := s.apply(other); !errors.Is(err, protocol.ErrConflict) || len(s.responses()) != 1 {
			t.Errorf("%s: another answer: %v, %d answers", at, err, len(s.responses()))
		}
		s.reopen()
	}
	first.Subject.Kind = protocol.KindTask
	if err := s.apply(first); !errors.Is(err, protocol.ErrUnsupported) {
		t.Errorf("an answer about a task: %v", err)
	}
}

// An answer by someone else that no scan has seen yet takes precedence.
func TestAnswerSettled(t *testing.T) {
	s := newSite(t, file(boxPath(pending, escalationID), escalationText))
	c := answerTo(s.look(), "i1")
	s.Write(boxPath(pending, "r"), `{"message_id": "r", "from": "orchestrator", "to": "builder", "type": "escalation_response", "payload": {"in_reply_to": "`+escalationID+`"}}`)
	if err := s.apply(c); !errors.Is(err, protocol.ErrConflict) || len(s.responses()) != 1 {
		t.Errorf("%v, %d answers", err, len(s.responses()))
	}
}

// The document's example has no id, no context, no sender and no options.
func TestAnswerWithoutOptions(t *testing.T) {
	s := newSite(t, file(Base+"/handoffs/pending/escalation-1.json", `{"type": "escalation", "to": "orchestrator", "payload": {"reason": "budget"}, "context": {"spec": {"deep": 1}}}`+"\n"))
	before := s.look()
	c := answerTo(before, "i1")
	c.Answer = &protocol.Answer{Key: "i1", Label: "spend it"}
	s.Do(s.apply(c))
	after := s.look()
	if len(before.Questions) != 1 || len(after.Questions) > 0 || len(after.Findings) != len(before.Findings) || len(after.Faults) > 0 {
		t.Errorf("before:\n%s\nafter:\n%s", protocoltest.Describe(before), protocoltest.Describe(after))
	}
	if text := s.responses()[0]; !strings.Contains(text, `"to": "orchestrator"`) || !strings.Contains(text, `"context": {}`) || strings.Contains(text, "answered_by") {
		t.Error(text)
	}
}

// Whatever an operator writes, the message is valid and no longer than a reader accepts.
func TestAnswerHostile(t *testing.T) {
	for name, words := range map[string]string{
		"quotes": "say \"yes\" \\ \r\n </script> {{now}}", "nul": "a\x00b", "no UTF-8": "caf\xe9", "long": strings.Repeat("é\x00", 1<<19), "line": "a\u2028b",
	} {
		s := newSite(t, file(boxPath(pending, escalationID), escalationText))
		c := answerTo(s.look(), "i1")
		c.Answer.Label, c.Answer.Why, c.Answer.By = words, words, words
		s.Do(s.apply(c))
		if snap := s.look(); len(snap.Questions)+len(snap.Faults)+len(snap.Findings) > 0 {
			t.Fatalf("%s: %s", name, protocoltest.Describe(snap))
		}
		var got struct {
			Payload struct{ Decision, Rationale string }
		}
		s.Do(json.Unmarshal([]byte(s.responses()[0]), &got))
		p, want := got.Payload, strings.ToValidUTF8(words, "�")
		if p.Decision != p.Rationale || len(words) < folder.MaxAnswer && p.Decision != want || utf8.RuneCountInString(p.Decision) > folder.MaxAnswer || !strings.HasPrefix(want, strings.TrimSuffix(p.Decision, "…")) {
			t.Errorf("%s: %d bytes: %.80q", name, len(p.Decision), p.Decision)
		}
	}
	s := newSite(t, file(boxPath(pending, escalationID), escalationText))
	for _, words := range []string{"", " \n\x00"} {
		c := answerTo(s.look(), "i1")
		if c.Answer.Label = words; s.apply(c) == nil || len(s.responses()) > 0 {
			t.Errorf("%q was written as an answer", words)
		}
	}
}
