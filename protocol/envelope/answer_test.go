package envelope

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// The document's own BLOCKER_ESCALATION, with one value for each choice.
const blockerText = `{
  "message_type": "BLOCKER_ESCALATION",
  "task_id": "current_task_id",
  "from_agent": "AGENT_NAME",
  "blocker_type": "scope_change",
  "severity": "high",
  "timestamp": "2025-11-10T03:00:00Z",

  "description": "Detailed description of the blocker",

  "options": [
    "Option A: Description and implications",
    "Option B: Description and implications"
  ],

  "suggested_resolution": "Agent's recommendation",
  "context": "Additional context needed for decision",
  "escalate_to": "human"
}
`

// The document's own BLOCKER_RESOLUTION, as steward writes it for an operator. The last keys are steward's.
const resolutionText = `{
  "message_type": "BLOCKER_RESOLUTION",
  "task_id": "current_task_id",
  "from_agent": "human",
  "to_agent": "AGENT_NAME",
  "timestamp": "{{now}}",
  "decision": "Option B: Description and implications",
  "rationale": "Explanation of why this decision was made",
  "modified_requirements": [],
  "resume_task": true,
  "in_reply_to": "%s",
  "answer_key": "%s",
  "answered_by": "Jesse"
}
`

const (
	blockerFile = messagesDir + "/3.json"
	assignText  = `{"message_type": "TASK_ASSIGNMENT", "task_id": "current_task_id", "from_agent": "ORCHESTRATOR", "to_agent": "AGENT_NAME", "timestamp": "2025-11-10T02:00:00Z", "task_name": "Do it", "requirements": ["one"], "acceptance_criteria": ["a"]}` + "\n"
	ackText     = `{"message_type": "TASK_ACKNOWLEDGMENT", "task_id": "current_task_id", "from_agent": "AGENT_NAME", "status": "acknowledged", "timestamp": "2025-11-10T02:05:00Z", "estimated_completion": "2 hours", "understood": true, "clarifications_needed": []}` + "\n"
)

// doubtText asks for clarification.
var doubtText = strings.NewReplacer(`true, "clarifications_needed": []`, `false, "clarifications_needed": ["Which browsers?"]`).Replace(ackText)

// onLine returns a message as a line of the log.
func onLine(text string) string { return strings.ReplaceAll(text, "\n", "") + "\n" }

// answerTo returns the supervisor's answer to the question with that text; "" selects the first question.
func answerTo(s *protocol.Snapshot, text, key string) protocol.Change {
	for _, p := range s.Questions {
		if strings.Contains(p.Text, text) {
			c := protocol.Change{Verb: protocol.VerbAnswer, Subject: s.Subject(protocol.KindQuestion, p.ID), Reason: protocol.ReasonOperator, Why: "Jesse answered", Judged: protocol.Judged{Ref: p.Ref},
				Agent: p.Agent, Answer: &protocol.Answer{Key: key, Option: "2", Label: "Option B: Description and implications",
					Why: "Explanation of why this decision was made", By: "Jesse"}}
			if len(p.Options) == 0 {
				c.Answer.Option = "" // free text
			}
			return c
		}
	}
	return protocol.Change{Verb: protocol.VerbAnswer, Subject: s.Subject(protocol.KindQuestion, "gone-000000"), Answer: &protocol.Answer{Key: key, Label: "x"}}
}

func keyFor(plea, key string) string { return string(jsonfile.SumOf([]byte(plea + "\x00" + key))) }

// answerFile returns the path of the file that answers a question with the incident's key "i1".
func answerFile(plea string) string {
	return messagesDir + "/resolution-" + plea + "-" + keyFor(plea, "i1")[:12] + ".json"
}

func answerText(plea string) string { return fmt.Sprintf(resolutionText, plea, keyFor(plea, "i1")) }

// idOf returns the id of the question that a message asks.
func idOf(t testing.TB, text string) string {
	t.Helper()
	o, err := jsonfile.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return questionID(decode(o, testOptions.Deployers))
}

func answerCases(t *testing.T) []protocoltest.Case {
	first := func(s *protocol.Snapshot, _ time.Time) protocol.Change { return answerTo(s, "", "i1") }
	calm := func(pleas int) func(*protocol.Snapshot) error {
		return func(s *protocol.Snapshot) error {
			if len(s.Questions) != pleas || len(s.Findings)+len(s.Faults) > 0 || len(s.Agents) > 1 {
				return fmt.Errorf("want %d pleas and nothing else:\n%s", pleas, protocoltest.Describe(s))
			}
			return nil
		}
	}
	before := around + file(messagesDir+"/1.json", assignText)
	blocker, doubt := idOf(t, blockerText), idOf(t, doubtText)
	other := strings.Replace(blockerText, "Detailed", "Another", 1)
	return []protocoltest.Case{{
		Name: "answer a blocker", Verb: protocol.VerbAnswer, Files: before + file(messagesDir+"/2.json", ackText) + file(blockerFile, blockerText),
		Change: first, Shows: calm(0), Want: file(answerFile(blocker), answerText(blocker)), Meddle: meddle(blockerFile, "Detailed", "Other"),
	}, {
		Name: "answer a blocker that is written anew", Verb: protocol.VerbAnswer, Files: before + file(messagesDir+"/2.json", ackText) + file(blockerFile, blockerText), Change: first, Shows: calm(0),
		Want: file(answerFile(blocker), answerText(blocker)), Meddle: meddle(blockerFile, "  \"task_id\"", "\"task_id\""),
	}, {
		Name: "answer a clarification", Verb: protocol.VerbAnswer, Files: before + file(blockerFile, doubtText),
		Change: first, Shows: calm(0), Want: file(answerFile(doubt), answerText(doubt)), Meddle: meddle(blockerFile, "browsers", "dialects"),
	}, {
		Name: "answer in the log", Verb: protocol.VerbAnswer, Files: around + file(logFile, assignText+ackText+onLine(blockerText)),
		Change: first, Shows: calm(0), Want: file(logFile, assignText+ackText+onLine(blockerText)+compacted(t, answerText(blocker))),
		Meddle: meddle(logFile, "Detailed", "Other"),
	}, {
		Name: "answer one of two blockers", Verb: protocol.VerbAnswer, Files: before + file(blockerFile, blockerText) + file(messagesDir+"/4.json", other),
		Change: func(s *protocol.Snapshot, _ time.Time) protocol.Change { return answerTo(s, "Detailed", "i1") }, Shows: calm(1),
		Want: file(answerFile(blocker), answerText(blocker)), Meddle: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, messagesDir, "5.json"), []byte(resolve("current_task_id").String()), 0o644)
		},
	}}
}

// compacted returns a message as steward writes it into the log.
func compacted(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}

// answers lists the messages in the folder that steward wrote.
func (s *site) answers() []string {
	s.T.Helper()
	list, err := filepath.Glob(s.Path(messagesDir + "/resolution-*"))
	s.Do(err)
	return list
}

// A question that someone else has settled is not answered again. An answer already written with the key stays valid,
// regardless of later messages.
func TestAnswerSettled(t *testing.T) {
	s := newSite(t, "")
	s.send(assign("t", "DEVELOPER"))
	s.send(escalate("t", "DEVELOPER", "human"))
	first := answerTo(s.look(), "", "i1")
	s.send(resolve("t"))
	if err := s.apply(first); !errors.Is(err, protocol.ErrConflict) || len(s.answers()) > 0 {
		t.Errorf("settled meanwhile: %v, %v", err, s.answers())
	}
	s.send(escalate("t", "DEVELOPER", "human").with(fields{"description": "and now?"}))
	second := answerTo(s.look(), "and now", "i2")
	s.Do(s.apply(second))
	if snap := s.p.Observe(t.Context(), protocol.ScanOrder{Now: s.Now, Hints: []string{}}); len(snap.Questions) > 0 {
		t.Errorf("a look without a hint at the answer: %s", protocoltest.Describe(&snap))
	}
	second.Answer.Key = "i3"
	if err := s.apply(second); !errors.Is(err, protocol.ErrConflict) || len(s.answers()) != 1 {
		t.Errorf("answered by another steward: %v, %v", err, s.answers())
	}
	second.Answer.Key = "i2"
	s.send(escalate("t", "DEVELOPER", "human").with(fields{"description": "third"}))
	if snap := s.look(); len(snap.Questions) != 1 || snap.Questions[0].Text != "third" {
		t.Errorf("a new question is none: %s", protocoltest.Describe(snap))
	}
	s.reopen()
	if err := s.apply(second); err != nil || len(s.answers()) != 1 {
		t.Errorf("the same key again: %v, %v", err, s.answers())
	}
	second.Subject.Kind = protocol.KindTask
	if err := s.apply(second); !errors.Is(err, protocol.ErrUnsupported) {
		t.Errorf("an answer about a task: %v", err)
	}
}

// The document's own example of an escalation names no task, no agent and no options. Its answer names the question, so
// it does not settle another question without a task, and it violates no rule.
func TestAnswerWithoutOptions(t *testing.T) {
	text := `{"message_type": "BLOCKER_ESCALATION", "blocker_type": "clarification_needed", "description": "%s", "suggested_resolution": "say what"}` + "\n"
	s := newSite(t, file(messagesDir+"/a.json", fmt.Sprintf(text, "vague"))+file(messagesDir+"/b.json", fmt.Sprintf(text, "vaguer")))
	before := s.look()
	c := answerTo(before, "vaguer", "i1")
	c.Answer = &protocol.Answer{Key: "i1", Label: "under 200 ms", By: "Jesse"}
	s.Do(s.apply(c))
	after := s.look()
	if len(before.Questions) != 2 || len(after.Questions) != 1 || after.Questions[0].Text != "vague" || len(after.Findings) != len(before.Findings) || len(after.Faults) > 0 {
		t.Errorf("before:\n%s\nafter:\n%s", protocoltest.Describe(before), protocoltest.Describe(after))
	}
	if len(after.Events) != len(before.Events)+1 {
		t.Errorf("events %+v", after.Events)
	}
	o, err := jsonfile.Parse([]byte(s.Read(messagesDir + "/" + filepath.Base(s.answers()[0]))))
	s.Do(err)
	if to, _ := o.String("to_agent"); o.Has("task_id") || to != "ORCHESTRATOR" {
		t.Errorf("%s", o.Value().Raw())
	}
	s.Do(os.Chtimes(s.Path(messagesDir+"/b.json"), s.Now.Add(time.Minute), s.Now.Add(time.Minute)))
	s.Pass(2 * time.Minute)
	if again := s.look(messagesDir + "/b.json"); len(again.Questions) != 2 {
		t.Errorf("asked once more in the same words:\n%s", protocoltest.Describe(again))
	}
}

// Whatever an operator writes, the message is valid and no longer than a reader accepts.
func TestAnswerHostile(t *testing.T) {
	for name, words := range map[string]string{
		"quotes": "say \"yes\" \\ \r\n </script> {{now}} -- x --", "nul": "a\x00b", "no UTF-8": "caf\xe9", "long": strings.Repeat("é\x00", 1<<19), "line": "a\u2028b",
	} {
		for _, logged := range []bool{false, true} {
			s := newSite(t, file(messagesDir+"/1.json", blockerText))
			if logged {
				s = newSite(t, file(logFile, onLine(blockerText)))
			}
			c := answerTo(s.look(), "", "i1")
			c.Answer.Label, c.Answer.Why, c.Answer.By = words, words, words
			s.Do(s.apply(c))
			if snap := s.look(); len(snap.Questions)+len(snap.Faults)+len(snap.Findings) > 0 {
				t.Fatalf("%s: %s", name, protocoltest.Describe(snap))
			}
			text := ""
			if logged {
				text = strings.SplitAfter(s.Read(logFile), "\n")[1]
			} else {
				text = s.Read(messagesDir + "/" + filepath.Base(s.answers()[0]))
			}
			var got struct{ Decision, Rationale string }
			s.Do(json.Unmarshal([]byte(text), &got))
			want := strings.ToValidUTF8(words, "�")
			if got.Decision != got.Rationale || len(words) < folder.MaxAnswer && got.Decision != want || utf8.RuneCountInString(got.Decision) > folder.MaxAnswer || !strings.HasPrefix(want, strings.TrimSuffix(got.Decision, "…")) {
				t.Errorf("%s: %d bytes: %.80q", name, len(got.Decision), got.Decision)
			}
		}
	}
	s := newSite(t, file(messagesDir+"/1.json", blockerText))
	for _, words := range []string{"", " \n\x00"} {
		c := answerTo(s.look(), "", "i1")
		if c.Answer.Label = words; s.apply(c) == nil || len(s.answers()) > 0 {
			t.Errorf("%q was written as an answer", words)
		}
	}
}

// An agent may ask before it acknowledges. After the answer, the time limit for the acknowledgement starts anew.
func TestAnswerBeforeAcknowledgment(t *testing.T) {
	s := newSite(t, "")
	s.send(assign("t", "DEVELOPER"))
	s.send(escalate("t", "DEVELOPER", "human"))
	s.Pass(time.Hour)
	s.Do(s.apply(answerTo(s.look(), "", "i1")))
	s.Do(os.Chtimes(s.answers()[0], s.Now, s.Now))
	if snap := s.look(); len(snap.Questions) > 0 || protocoltest.Codes(snap, "t") != "" {
		t.Errorf("answered: %s", protocoltest.Describe(snap))
	}
	s.Pass(testOptions.Acknowledge)
	if got := protocoltest.Codes(s.look(), "t"); got != "unacknowledged medium" {
		t.Errorf("silent after the answer: %q", got)
	}
}

// An answer settles its question even if the clocks disagree, and a long task id still yields a valid file name.
func TestAnswerOddities(t *testing.T) {
	id := strings.Repeat("t", 195)
	s := newSite(t, file(messagesDir+"/1.json", escalate(id, "DEVELOPER", "human").with(fields{"timestamp": "2099-01-01T00:00:00Z"}).String()))
	c := answerTo(s.look(), "", "i1")
	s.Do(s.apply(c))
	if snap := s.look(); len(snap.Questions)+len(snap.Faults) > 0 || len(s.answers()) != 1 {
		t.Errorf("%s %v", protocoltest.Describe(snap), s.answers())
	}
	s = newSite(t, file(messagesDir+"/1.json", escalate("t", "DEVELOPER", "human").String()))
	c = answerTo(s.look(), "", "i1")
	s.Now = s.Now.Add(-time.Hour) // the clock is set back
	s.Do(s.apply(c))
	s.Now = s.Now.Add(time.Hour)
	if snap := s.look(); len(snap.Questions) > 0 {
		t.Errorf("%s", protocoltest.Describe(snap))
	}
}

// An answer can stop the task and change its requirements (protocol 004, BLOCKER_RESOLUTION). A stopped task has no time
// limits.
func TestAnswerStopsAndChanges(t *testing.T) {
	s := newSite(t, "")
	s.send(assign("t", "DEVELOPER").with(fields{"deadline": "1 hour"}))
	s.send(escalate("t", "DEVELOPER", "human"))
	c := answerTo(s.look(), "which way?", "i1")
	c.Answer.Stop, c.Answer.Requirements = true, []string{"one", "two"}
	s.Do(s.apply(c))
	file := messagesDir + "/" + filepath.Base(s.answers()[0])
	s.Do(os.Chtimes(s.Path(file), s.Now, s.Now))
	o, err := jsonfile.Parse([]byte(s.Read(file)))
	s.Do(err)
	list, _ := o.Strings("modified_requirements")
	if resume, p := o.Bool("resume_task"); p != jsonfile.Present || resume || strings.Join(list, ",") != "one,two" {
		t.Errorf("%s", o.Value().Raw())
	}
	s.Pass(3 * time.Hour)
	if snap := s.look(); protocoltest.Codes(snap, "t") != "" || taskOf(snap, "t").Awaits != "a new assignment: it was stopped" {
		t.Errorf("%s, %+v", protocoltest.Codes(snap, "t"), taskOf(snap, "t"))
	}
}
