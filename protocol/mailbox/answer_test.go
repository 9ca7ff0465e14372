package mailbox

import (
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

// A question and a blocker about the same task, in the lead's mailbox.
const askText = `{ "messages": [
    {"type": "question", "taskId": "task-001", "platform": "web", "question": "Which database?", "options": ["postgres", "sqlite"], "timestamp": "2026-01-02T04:04:05.678Z"},
    {"type": "blocker", "taskId": "task-001", "text": "No API key", "timestamp": "2026-01-02T04:04:06Z"}
  ], "lastRead": null }
`

// The developer's mailbox, in its writer's own formatting.
const inboxText = `{
  "messages": [
    {"type": "task_assignment", "taskId": "task-001", "platform": "web", "title": "Login", "instructions": "a login page", "filesToCreate": ["login.ts"], "architecture": "MVC", "timestamp": "2026-01-02T04:04:00.000Z", "x": 1.0}
  ],
  "lastRead": "2026-01-02T04:05:00.000Z", "x": {}
}
`

const onePending = `{"version": "1", "tasks": [{"id": "task-001", "status": "pending", "priority": "low", "title": "T", "createdAt": "2026-01-02T03:04:05Z"}], "completed": []}` + "\n"

// answerItem is the answer as written to messages[].
const answerItem = `{
      "type": "answer",
      "taskId": "task-001",
      "platform": "web",
      "from": "human",
      "to": "developer",
      "question": "Which database?",
      "decision": "sqlite",
      "rationale": "it is enough",
      "answeredBy": "Jesse",
      "inReplyTo": "%s",
      "answerKey": "%s",
      "timestamp": "{{now}}"
    }`

const questionID = "question-44db8cc6766e"

// answerTo is the supervisor's change for the question with that text.
func answerTo(s *protocol.Snapshot, text, key string) protocol.Change {
	c := protocol.Change{Verb: protocol.VerbAnswer, Subject: s.Subject(protocol.KindQuestion, "gone"), Reason: protocol.ReasonOperator, Why: "Jesse answered",
		Answer: &protocol.Answer{Key: key, Option: "2", Label: "sqlite", Why: "it is enough", By: "Jesse"}}
	for _, p := range s.Questions {
		if strings.Contains(p.Text, text) {
			c.Subject.ID, c.Ref, c.Agent = p.ID, p.Ref, p.Agent
		}
	}
	return c
}

// itemText is answerItem for the incident's key "i1".
func itemText() string {
	return fmt.Sprintf(answerItem, questionID, jsonfile.SumOf([]byte(questionID+"\x00i1")))
}

func answerCases() []protocoltest.Case {
	change := func(s *protocol.Snapshot, _ time.Time) protocol.Change { return answerTo(s, "database", "i1") }
	calm := func(s *protocol.Snapshot) error {
		if len(s.Questions) != 1 || s.Questions[0].Text != "No API key" || len(s.Findings)+len(s.Faults)+len(s.Events) > 0 || s.Tasks[0].Late != nil {
			return fmt.Errorf("want the other question, and nothing wrong:\n%s", protocoltest.Describe(s))
		}
		return nil
	}
	appended := strings.Replace(inboxText, `"x": 1.0}`, `"x": 1.0},`+"\n    "+itemText(), 1)
	ours := file("src/main.ts", "export {}\n") + file(Base+"/logs/log.md", "# Log\n")
	tasks, boxed := Base+"/tasks/", Base+"/tasks/messages/"
	files := ours + file(queuePath, onePending) + file(leadPath, askText) + file(devPath, inboxText)
	return []protocoltest.Case{{
		Name: "answer", Verb: protocol.VerbAnswer, Files: files, Change: change, Shows: calm, Want: file(devPath, appended),
		Meddle: func(dir string) error { return protocoltest.Rewrite(filepath.Join(dir, leadPath), "Which", "What") },
	}, {
		Name: "answer while the orchestrator lives", Verb: protocol.VerbAnswer, Files: files + file(pidPath, fmt.Sprintf("%d\n", os.Getppid())), Change: change,
		Shows: func(s *protocol.Snapshot) error {
			if s.Yield == "" {
				return errors.New("no orchestrator lives")
			}
			return calm(s)
		}, Want: file(devPath, appended), Meddle: func(dir string) error {
			return protocoltest.Rewrite(filepath.Join(dir, devPath), `"x": 1.0}`, `"x": 1.0}, {"type": "answer", "taskId": "task-001", "message": "mysql", "timestamp": "2026-01-02T04:05:00Z"}`)
		},
	}, {
		Name: "answer in the document's places", Verb: protocol.VerbAnswer, Change: change, Shows: calm,
		Files: ours + file(tasks+"queue.json", onePending) + file(boxed+"to-team-lead.json", askText),
		Want:  file(boxed+"to-developer.json", "{\n  \"messages\": [\n    "+itemText()+"\n  ],\n  \"lastRead\": null\n}\n"),
		Meddle: func(dir string) error {
			return protocoltest.Rewrite(filepath.Join(dir, boxed+"to-team-lead.json"), `"sqlite"]`, `"sqlite"], "severity": "low"`)
		},
	}}
}

// A repeated key writes nothing; a different key comes too late. The answer is cleared with its task. If the question is
// asked again in the same words, it is open again.
func TestAnswerSettles(t *testing.T) {
	r := newTestProject(t, file(queuePath, onePending)+file(leadPath, askText)+file(devPath, inboxText))
	first := answerTo(r.look(), "database", "i1")
	r.Do(r.apply(first))
	text := r.Read(devPath)
	if err := r.apply(first); err != nil || r.Read(devPath) != text {
		t.Errorf("once more: %v", err)
	}
	other := first
	other.Answer = &protocol.Answer{Key: "i2", Label: "postgres"}
	if err := r.apply(other); !errors.Is(err, protocol.ErrConflict) || r.Read(devPath) != text {
		t.Errorf("another answer: %v", err)
	}
	other.Subject.Kind = protocol.KindTask
	if err := r.apply(other); !errors.Is(err, protocol.ErrUnsupported) {
		t.Errorf("an answer about a task: %v", err)
	}
	r.rewrite(leadPath, `"2026-01-02T04:04:06Z"}`, `"2026-01-02T04:04:06Z"}, {"type": "question", "taskId": "task-001", "question": "Which database?", "options": ["postgres", "sqlite"], "timestamp": "`+jsonfile.FormatTime(r.Now.Add(time.Hour))+`"}`)
	if s := r.look(); len(s.Questions) != 2 || s.Questions[1].ID != questionID {
		t.Errorf("asked again: %s", protocoltest.Describe(s))
	}
	r.Write(leadPath, `{"messages": [], "lastRead": null}`)
	r.Write(queuePath, `{"version": "1", "tasks": [], "completed": [{"id": "task-001", "status": "completed", "createdAt": "2026-01-02T03:04:05Z", "updatedAt": "2026-01-02T06:04:05Z"}]}`)
	c := onTask("task-001", func(k *protocol.Task) protocol.Change {
		c := change(k, protocol.VerbFile)
		if k.Late != nil {
			c.Ref = *k.Late
		}
		return c
	})(r.look(), r.Now)
	r.Do(r.apply(c))
	if strings.Contains(r.Read(devPath), "answer") {
		t.Errorf("the answer outlives its task: %s", r.Read(devPath))
	}
}

// No program locks a mailbox. A program that read it before the answer and rewrites it loses the answer: the question is
// open again, and the same answer can be given once more. A program that still had the old file open loses nothing.
func TestAnswerAmongOthers(t *testing.T) {
	r := newTestProject(t, file(queuePath, onePending)+file(leadPath, askText)+file(devPath, inboxText))
	c := answerTo(r.look(), "database", "i1")
	before := r.Read(devPath)
	held, err := os.OpenFile(r.Path(devPath), os.O_WRONLY, 0)
	r.Do(err)
	defer held.Close()
	r.Do(r.apply(c))
	_, err = held.WriteAt([]byte(strings.Replace(before, "Login", "Logon", 1)), 0)
	r.Do(err)
	r.look()
	if text := r.Read(devPath); !strings.Contains(text, "Logon") || strings.Count(text, `"answerKey"`) != 1 {
		t.Errorf("a late write: %s", text)
	}
	r.Write(devPath, before)
	s := r.look()
	if len(s.Questions) != 2 {
		t.Errorf("the answer is lost, and nobody knows: %s", protocoltest.Describe(s))
	}
	r.Do(r.apply(c))
	if s := r.look(); len(s.Questions) != 1 || !strings.Contains(r.Read(devPath), `"answerKey"`) {
		t.Errorf("given once more: %s", protocoltest.Describe(s))
	}
	r.Write(devPath, before[:40])
	if err := r.apply(answerTo(s, "API key", "i3")); !errors.Is(err, protocol.ErrConflict) || r.Read(devPath) != before[:40] {
		t.Errorf("into half a file: %v", err)
	}
	r.Write(devPath, `{"messages": {"-": 1}}`)
	if err := r.apply(answerTo(s, "API key", "i3")); err == nil || errors.Is(err, protocol.ErrConflict) || r.Read(devPath) != `{"messages": {"-": 1}}` {
		t.Errorf("into what is no list: %v", err)
	}
}

// Another agent's answer counts wherever it stands: after the question, unseen by any scan so far, or in the target
// mailbox, where it has just arrived. A question with a time in the future can be settled too.
func TestAnswerSettledByOthers(t *testing.T) {
	theirs := `, {"type": "answer", "taskId": "task-001", "text": "mysql", "timestamp": "2026-01-02T05:00:00Z"}`
	files := file(queuePath, onePending) + file(leadPath, askText) + file(devPath, inboxText)
	r := newTestProject(t, files)
	c := answerTo(r.look(), "database", "i1")
	r.rewrite(leadPath, `"2026-01-02T04:04:06Z"}`, `"2026-01-02T04:04:06Z"}`+theirs)
	if err := r.apply(c); !errors.Is(err, protocol.ErrConflict) || r.Read(devPath) != inboxText {
		t.Errorf("behind the question: %v", err)
	}
	r = newTestProject(t, files)
	c = answerTo(r.look(), "database", "i1")
	q, err := findQuestion(c, r.p.mail())
	r.Do(err)
	r.rewrite(devPath, `"x": 1.0}`, `"x": 1.0}`+theirs)
	text := r.Read(devPath)
	if err := (writer{r.p.reader}).deliver(q.file[:9]+"to-developer.json", q, answerMessage{Key: "k"}); !errors.Is(err, protocol.ErrConflict) || r.Read(devPath) != text {
		t.Errorf("in the mailbox: %v", err)
	}
	r = newTestProject(t, files)
	r.rewrite(devPath, `"x": 1.0}`, `"x": 1.0}`+strings.Replace(theirs, `"text"`, `"answerKey": "mine", "inReplyTo": "m7", "text"`, 1))
	if s := r.look(); len(s.Questions) > 0 {
		t.Errorf("an agent's own words for it: %s", protocoltest.Describe(s))
	}
	r = newTestProject(t, file(queuePath, onePending)+file(leadPath, strings.Replace(askText, "2026-01-02T04:04:05.678Z", "2099-01-01T00:00:00Z", 1))+file(devPath, inboxText))
	r.Do(r.apply(answerTo(r.look(), "database", "i1")))
	if s := r.look(); len(s.Questions) != 1 {
		t.Errorf("asked tomorrow: %s", protocoltest.Describe(s))
	}
}

// The answer goes to the agent that asked, under the name that has a mailbox in the layout in use.
func TestAnswerGoesTo(t *testing.T) {
	for _, c := range []struct{ name, from, there, in, want string }{
		{"the sender by mailbox", "", "", "to-developer.json", "messages/to-tech-lead.json"},
		{"the document's lead", "", "messages/to-team-lead.json", "to-developer.json", "messages/to-team-lead.json"},
		{"both leads", "team-lead", "messages/to-tech-lead.json,messages/to-team-lead.json", "to-developer.json", "messages/to-team-lead.json"},
		{"the document's layout", "Tech Lead", "tasks/queue.json,tasks/messages/.keep", "to-developer.json", "tasks/messages/to-team-lead.json"},
		{"a role", "Designer", "", "to-tech-lead.json", "messages/to-designer.json"},
		{"an unknown agent", "qa_bot", "", "to-tech-lead.json", "messages/to-qa-bot.json"},
		{"a hostile one", "../../x", "", "to-tech-lead.json", ""},
	} {
		r := newTestProject(t, file(Base+"/x", ""))
		for _, f := range strings.FieldsFunc(c.there, func(r rune) bool { return r == ',' }) {
			r.Write(Base+"/"+f, `{"messages": []}`)
		}
		ask := fmt.Sprintf(`{"messages": [{"type": "escalation", "from": %q, "text": "stop?"}]}`, c.from)
		r.Write(Base+"/messages/"+c.in, ask)
		err := r.apply(answerTo(r.look(), "stop", "i1"))
		var got []string
		for _, f := range []string{"messages", "tasks/messages"} {
			names, _ := os.ReadDir(r.Path(Base + "/" + f))
			for _, n := range names {
				if text := r.Read(Base + "/" + f + "/" + n.Name()); strings.Contains(text, `"answerKey"`) {
					got = append(got, f+"/"+n.Name())
				}
			}
		}
		if s := r.look(); strings.Join(got, " ") != c.want || (err == nil) != (c.want != "") || (len(s.Questions) == 0) != (c.want != "") || len(s.Faults) > 0 {
			t.Errorf("%s: %v, %v\n%s", c.name, got, err, protocoltest.Describe(s))
		}
	}
}

// A user's text may contain anything. The mailbox stays valid, and the text is limited in length.
func TestAnswerHostile(t *testing.T) {
	for name, words := range map[string]string{
		"quotes": "say \"yes\" \\ \r\n </script> {{now}}", "nul": "a\x00b", "no UTF-8": "caf\xe9", "long": strings.Repeat("é\x00", 1<<19), "line": "a\u2028b",
	} {
		r := newTestProject(t, file(queuePath, onePending)+file(leadPath, askText)+file(devPath, inboxText))
		c := answerTo(r.look(), "database", "i1")
		c.Answer.Label, c.Answer.Why, c.Answer.By = words, words, words
		r.Do(r.apply(c))
		if s := r.look(); len(s.Questions) != 1 || len(s.Faults)+len(s.Findings) > 0 {
			t.Fatalf("%s: %s", name, protocoltest.Describe(s))
		}
		var got struct {
			Messages []struct{ Decision, Rationale string }
		}
		r.Do(json.Unmarshal([]byte(r.Read(devPath)), &got))
		m, want := got.Messages[1], strings.ToValidUTF8(words, "�")
		if m.Decision != m.Rationale || len(words) < folder.MaxAnswer && m.Decision != want || utf8.RuneCountInString(m.Decision) > folder.MaxAnswer || !strings.HasPrefix(want, strings.TrimSuffix(m.Decision, "…")) {
			t.Errorf("%s: %d bytes: %.80q", name, len(m.Decision), m.Decision)
		}
	}
	r := newTestProject(t, file(queuePath, onePending)+file(leadPath, askText)+file(devPath, inboxText))
	for _, words := range []string{"", " \n\x00"} {
		c := answerTo(r.look(), "database", "i1")
		if c.Answer.Label = words; r.apply(c) == nil || r.Read(devPath) != inboxText {
			t.Errorf("%q was written as an answer", words)
		}
	}
	r.Write(devPath, strings.Replace(inboxText, `"x": {}`, `"x": "`+strings.Repeat("y", maxFile-maxMessage)+`"`, 1))
	if err := r.apply(answerTo(r.look(), "database", "i1")); !errors.Is(err, jsonfile.ErrTooBig) {
		t.Errorf("no room: %v", err)
	}
}
