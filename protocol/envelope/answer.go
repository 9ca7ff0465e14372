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

// answerKey marks a resolution that steward wrote for a human.
const answerKey = "answer_key"

// resolution is a human's answer (protocol 004, BLOCKER_RESOLUTION). The last three keys are ours: which of the task's
// calls it settles, which answer it is, and who gave it.
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

// maxAnswer bounds, in runes, what is written of a human's words: escaped, it is still far below what a reader takes.
const maxAnswer = 8000

// answer writes a human's decision where the question stands: a file beside its file, or a line of the log when it is
// one there, because that is where its agent reads. One file or line is all there is to write, so a crash leaves the
// whole answer or none.
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
	p.shelf.unrest[name] = true // the next look reads it, hinted at or not
	return p.Root.Create(p.filePath(name), doc, 0o644)
}

// callOf finds the task of a question as it is at this moment, and the message that asks; that is nil when nobody asks any
// more.
func (p *Project) callOf(id string) (*taskState, *message) {
	task := id[:max(strings.LastIndexByte(id, '-'), 0)]
	tasks := []string{task}
	if task == nobody {
		tasks = append(tasks, "") // pleaID calls it so
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

// hasAnswer reports whether the answer with that key stands among the task's messages.
func (t *taskState) hasAnswer(key string) bool {
	return slices.ContainsFunc(t.messages, func(m *message) bool { return m.kind == resolves && m.answer.key == key })
}

// askerOf is to whom the answer goes: who asked, else who has the task, else the orchestrator.
func (t *taskState) askerOf(m *message) string {
	to := m.from
	if to == "" && t.assigned != nil {
		to = t.assigned.to
	}
	return cmp.Or(to, "ORCHESTRATOR")
}

// sentAfter is the answer's timestamp: when it is written, because an agent may look only for what is newer than what it
// has read; and never before the question, whatever clocks say.
func (p *Project) sentAfter(m *message) time.Time {
	if p.Now.Before(m.at) {
		return m.at
	}
	return p.Now
}

// short makes a human's words fit for a message. What JSON can escape stays as it is.
func short(s string) string { return folder.Short(strings.ToValidUTF8(s, "�"), maxAnswer) }

// shortened does so for each of them, and never gives null.
func shortened(list []string) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, short(s))
	}
	return out
}

// told says which calls were answered by a message that names them, and when last.
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

// settle reports whether a call was answered. Of one without a timestamp its question does not tell whether it is asked
// once more in the same words, so the time of its file counts, by the second as an answer has it.
func (r told) settle(m *message) bool {
	if r == nil {
		return false
	}
	at, ok := r[pleaID(m)]
	return ok && (m.stamped || m.at.Unix() <= at.Unix())
}
