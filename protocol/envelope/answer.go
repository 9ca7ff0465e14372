package envelope

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// answerKey marks a resolution that steward wrote for an operator.
const answerKey = "answer_key"

// resolution is an operator's answer (protocol 004, BLOCKER_RESOLUTION). Steward adds the last three keys: the id of the
// question, the answer's own key, and the operator's name.
type resolution struct {
	Type         string    `json:"message_type"`
	Task         string    `json:"task_id,omitzero"`
	From         string    `json:"from_agent"`
	To           string    `json:"to_agent"`
	At           time.Time `json:"timestamp"`
	Decision     string    `json:"decision"`
	Rationale    string    `json:"rationale"`
	Requirements []string  `json:"modified_requirements"`
	Resume       bool      `json:"resume_task"`
	InReplyTo    string    `json:"in_reply_to"`
	Key          string    `json:"answer_key"`
	By           string    `json:"answered_by,omitzero"`
}

// maxAnswer bounds an operator's text in runes. Even when escaped, the text stays far below a reader's size limit.
const maxAnswer = 8000

// answer writes an operator's decision next to the question, because its agent reads there: as a file beside the
// question's file, or as a line of the log if the question is a log line. It writes a single file or line, so a crash
// leaves the whole answer or none.
func (p *Project) answer(c protocol.Change) error {
	if c.Subject.Kind != protocol.KindQuestion {
		return fmt.Errorf("%s %s: %w", c.Verb, c.Subject, protocol.ErrUnsupported)
	}
	a := c.Answer
	if a == nil || a.Key == "" || clean(a.Label, maxAnswer) == "" {
		return fmt.Errorf("%s %s: the answer has no key or no words", c.Verb, c.Subject)
	}
	t, m := p.callOf(c.Subject.ID)
	key := string(jsonfile.SumOf([]byte(c.Subject.ID + "\x00" + a.Key)))
	switch {
	case t == nil:
		return folder.Moved("the question is gone")
	case t.hasAnswer(key):
		return nil
	case m == nil:
		return folder.Moved("the question has been settled by somebody else")
	case p.refOf(m) != c.Ref:
		return folder.Moved("the question was written anew")
	}
	return p.putAnswer(m, resolution{Type: "BLOCKER_RESOLUTION", Task: m.task, From: "human", To: t.askerOf(m), At: p.sentAfter(m),
		Decision: short(a.Label), Rationale: short(a.Why), Requirements: shortened(a.Requirements), Resume: !a.Stop, InReplyTo: c.Subject.ID, Key: key, By: clean(a.By, maxText)})
}

// putAnswer writes the answer to m.
func (p *Project) putAnswer(m *message, r resolution) error {
	if m.inLog() {
		line, err := jsonfile.EncodeLine(r)
		if err != nil {
			return err
		}
		return p.Root.Append(p.opts.Log, line, jsonfile.Existing)
	}
	doc, err := jsonfile.Encode(r)
	if err != nil {
		return err
	}
	name := "resolution-" + r.InReplyTo + "-" + r.Key[:12] + messageExt
	if !plain(name) {
		name = "resolution-" + r.Key + messageExt
	}
	p.shelf.unrest[name] = true // the next scan reads it, with or without a hint
	return p.Root.Create(p.filePath(name), doc, 0o644)
}

// callOf rereads the task of a question and returns it with the message that asks. The message is nil if the question is
// already settled.
func (p *Project) callOf(id string) (*taskState, *message) {
	task := id[:max(strings.LastIndexByte(id, '-'), 0)]
	tasks := []string{task}
	if task == nobody {
		tasks = append(tasks, "") // pleaID uses nobody for a message without a task
	}
	for _, task := range tasks {
		p.freshen(task)
		t := p.tasks[task]
		if t == nil {
			continue
		}
		asks := func(m *message) bool { return pleaID(m) == id }
		if i := slices.IndexFunc(t.blockers, asks); i >= 0 {
			return t, t.blockers[i]
		}
		if t.doubt != nil && asks(t.doubt) {
			return t, t.doubt
		}
		if slices.ContainsFunc(t.messages, asks) {
			return t, nil
		}
	}
	return nil, nil
}

// hasAnswer reports whether the task's messages include the answer with that key.
func (t *taskState) hasAnswer(key string) bool {
	return slices.ContainsFunc(t.messages, func(m *message) bool { return m.kind == resolves && m.answer.key == key })
}

// askerOf returns the recipient of the answer: the question's sender, else the task's agent, else the orchestrator.
func (t *taskState) askerOf(m *message) string {
	to := m.from
	if to == "" && t.assigned != nil {
		to = t.assigned.to
	}
	return cmp.Or(to, "ORCHESTRATOR")
}

// sentAfter returns the answer's timestamp. It is the time of writing, because an agent may read only messages newer than
// the last one it read. It is never before the question's time, even if the clocks disagree.
func (p *Project) sentAfter(m *message) time.Time {
	if p.Now.Before(m.at) {
		return m.at
	}
	return p.Now
}

// short makes an operator's text fit for a message. Characters that JSON can escape stay as they are.
func short(s string) string { return folder.Short(strings.ToValidUTF8(s, "�"), maxAnswer) }

// shortened applies short to every item. It never returns nil, which JSON would write as null.
func shortened(list []string) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, short(s))
	}
	return out
}

// told maps each question that a resolution names to the time of its newest resolution.
type told map[string]time.Time

func replies(list []*message) told {
	var r told
	for _, m := range list {
		if m.kind != resolves || m.answer.call == "" {
			continue
		}
		if r == nil {
			r = told{}
		}
		if m.at.After(r[m.answer.call]) {
			r[m.answer.call] = m.at
		}
	}
	return r
}

// settle reports whether a question was answered. The id of a question without a timestamp does not show whether it is
// asked again in the same words. Its file's time decides then, in whole seconds, as an answer stores it.
func (r told) settle(m *message) bool {
	if r == nil {
		return false
	}
	at, ok := r[pleaID(m)]
	return ok && (m.stamped || m.at.Unix() <= at.Unix())
}
