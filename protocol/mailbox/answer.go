package mailbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// answerKind is the message type of a user's answer. The document defines no type for questions and answers; agents know
// this one.
const answerKind = "answer"

// answerLetter is a user's answer as written to messages[], in the document's spelling.
type answerLetter struct {
	Type      string    `json:"type"`
	Task      string    `json:"taskId,omitzero"`
	Platform  string    `json:"platform,omitzero"`
	From      string    `json:"from"`
	To        string    `json:"to"`
	Question  string    `json:"question"`
	Decision  string    `json:"decision"`
	Rationale string    `json:"rationale"`
	By        string    `json:"answeredBy,omitzero"`
	InReplyTo string    `json:"inReplyTo"` // the question's id
	Key       string    `json:"answerKey"`
	At        time.Time `json:"timestamp"` // when the answer is written: a reader may skip messages older than lastRead
}

// sumLength is the length of an answer's key.
const sumLength = 32

// reply names the question that a user's answer settles, and identifies the answer.
type reply struct{ plea, key string }

func decodeReply(o jsonfile.Object) (r reply) {
	if key := textOf(o, "answerKey"); len(key) == sumLength {
		r.key, r.plea = key, line(textOf(o, "inReplyTo"), 200)
	}
	return r
}

// reaches reports whether an answer can belong to this asking of the question, and not to an earlier one. steward's times
// are whole seconds. A question whose time has no zone precedes its answer if it stands before it in the same mailbox; in
// another mailbox, it does if it can be older.
func (r reply) reaches(l, answer *message, together bool) bool {
	if l.stated.Zoneless && together {
		return answer.index > l.index
	}
	return answer.stated.At.Unix() >= l.stated.Earliest().Unix()
}

// maxAnswer limits the runes written of each text of a user's answer.
const maxAnswer = 8000

// answer appends a user's decision to the asker's mailbox. It does so even while an orchestrator lives, because the
// orchestrator's children ask and wait. No program locks these files: steward compares and replaces the mailbox, but a
// program that read it earlier may still overwrite the answer. Then the question is open again, and the same answer can be
// given once more.
func (p *Project) answer(c protocol.Change) error {
	if c.Subject.Kind != protocol.KindQuestion {
		return fmt.Errorf("%s %s: %w", c.Verb, c.Subject, protocol.ErrUnsupported)
	}
	a := c.Answer
	if a == nil || a.Key == "" || line(a.Label, maxAnswer) == "" {
		return fmt.Errorf("%s %s: the answer has no key or no words", c.Verb, c.Subject)
	}
	p.look()
	mail := p.mail()
	key := string(jsonfile.SumOf([]byte(c.Subject.ID + "\x00" + a.Key)))
	if slices.ContainsFunc(mail, func(m located) bool { return m.box.Value.has(key) }) {
		return nil
	}
	q, err := p.asked(c, mail)
	if err != nil {
		return err
	}
	box, err := p.boxOf(q.agent)
	if err != nil {
		return fmt.Errorf("%s %s: %w", c.Verb, c.Subject, err)
	}
	return p.deliver(box, q, answerLetter{Type: answerKind, Task: q.task, Platform: q.plea.platform, From: "human", To: q.agent,
		Question: q.plea.text, Decision: short(a.Label), Rationale: short(a.Why), By: line(a.By, 100), InReplyTo: c.Subject.ID, Key: key,
		At: later(p.Now, q.named())})
}

// question is an open question with its mailbox and the agent that asks.
type question struct {
	*message
	in    located
	agent string
}

// named returns the time that the question states; zero if it has no zone, because then the moment is ambiguous.
func (q question) named() time.Time {
	if q.stated.Zoneless {
		return time.Time{}
	}
	return q.stated.At
}

// asked returns the newest message with the open question that a change refers to.
func (p *Project) asked(c protocol.Change, mail []located) (q question, err error) {
	there, same := false, false
	for _, m := range mail {
		for i := range m.box.Value.letters {
			l := &m.box.Value.letters[i]
			if l.plea == nil || l.pleaID() != c.Subject.ID {
				continue
			}
			there = true
			if answered(l, m, mail) {
				continue
			}
			same = same || string(l.sum) == c.Ref.Sum
			if q.message == nil || !l.at.Before(q.at) {
				q = question{l, m, asker(l, m)}
			}
		}
	}
	switch {
	case !there:
		return q, folder.Moved("the question is gone")
	case q.message == nil:
		return q, folder.Moved("somebody else has settled the question")
	case !same:
		return q, folder.Moved("the question was written anew")
	}
	return q, nil
}

// deliver appends the answer to a mailbox, and creates the mailbox if it is missing.
func (p *Project) deliver(file string, q question, a answerLetter) error {
	if _, err := p.Root.Stat(file); folder.Missing(err) {
		return p.newBox(file, a)
	}
	_, err := p.Edit(folder.Edit{File: file, Max: maxFile, If: jsonfile.Any, Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) {
		now := p.placed(file, decodeMailbox(o))
		switch kind := o.Get("messages").Kind(); {
		case answered(q.message, q.in, []located{now}):
			return nil, folder.Moved("somebody else has settled the question")
		case kind != "array" && kind != "missing" && kind != "null":
			return nil, fmt.Errorf("%w: messages is %s, not a list", jsonfile.ErrShape, kind)
		case len(o.Value().Raw()) > maxFile-roomForAnswer:
			return nil, fmt.Errorf("%w: there is no room for the answer; clear its messages", jsonfile.ErrTooBig)
		}
		return []jsonfile.Set{{Path: []string{"messages", "-"}, Value: a}}, nil
	}})
	return err
}

// placed returns a mailbox as it is now, with its times interpreted.
func (p *Project) placed(file string, m mailbox) located {
	was := &mailbox{}
	for _, known := range p.mail() {
		if known.file == file {
			was = &known.box.Value
		}
	}
	m.place(was, p.Now, true)
	return located{file: file, box: &jsonfile.Reading[mailbox]{Value: m}}
}

// roomForAnswer is more than the longest answer takes.
const roomForAnswer = 256 << 10

// newBox creates a mailbox that contains the answer.
func (p *Project) newBox(file string, a answerLetter) error {
	doc, err := jsonfile.Encode(struct {
		Messages []answerLetter `json:"messages"`
		LastRead *time.Time     `json:"lastRead"`
	}{Messages: []answerLetter{a}})
	if err != nil {
		return err
	}
	if err := p.Needs(path.Dir(file)); err != nil {
		return err
	}
	return p.Root.Create(file, doc, 0o644)
}

// boxOf returns the mailbox that an agent reads, in the layout in use. The lead has two names: tech-lead in the program
// and team-lead in the document. boxOf prefers the agent's own name if it has a mailbox, then the other name's mailbox,
// then the layout's name.
func (p *Project) boxOf(agent string) (string, error) {
	s, names := p.living(), []string{boxName(agent)}
	switch names[0] {
	case "tech-lead", "techlead":
		names = []string{"tech-lead", "team-lead"}
	case "team-lead", "teamlead":
		names = []string{"team-lead", "tech-lead"}
	}
	for _, name := range names {
		if _, err := p.Root.Stat(s.boxFile("to-" + name + ".json")); err == nil {
			return s.boxFile("to-" + name + ".json"), nil
		}
	}
	if len(names) > 1 {
		names[0] = map[string]string{"": "tech-lead", "tasks": "team-lead"}[s.dir]
	}
	if name := "to-" + names[0] + ".json"; isBox(name) {
		return s.boxFile(name), nil
	}
	return "", fmt.Errorf("%q cannot be the name of a mailbox; answer where the agent works", agent)
}

// boxName returns an agent's name as used in file names.
func boxName(agent string) string {
	return strings.NewReplacer(" ", "-", "_", "-").Replace(strings.ToLower(agent))
}

// has reports whether the mailbox contains the answer with that key.
func (m *mailbox) has(key string) bool {
	return slices.ContainsFunc(m.letters, func(l message) bool { return l.reply.key == key })
}

// asker returns the agent that asks: the sender that the message names, or else the agent that writes to that mailbox.
func asker(l *message, in located) string {
	if l.from != "" {
		return l.from
	}
	return sender(in.name)
}

// meaning returns a message's checksum, independent of white space.
func meaning(v jsonfile.Value) jsonfile.Sum {
	var b bytes.Buffer
	if err := json.Compact(&b, v.Raw()); err != nil {
		return jsonfile.SumOf(v.Raw())
	}
	return jsonfile.SumOf(b.Bytes())
}

// short makes a user's text fit for a message. It keeps every character that JSON can escape.
func short(s string) string { return folder.Short(strings.ToValidUTF8(s, "�"), maxAnswer) }
