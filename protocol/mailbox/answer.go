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

// answerKind is the type of a human's answer. The document has none for questions and answers; this one agents know.
const answerKind = "answer"

// answerLetter is a human's answer as it stands in messages[], in the document's spelling.
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
	InReplyTo string    `json:"inReplyTo"` // the plea
	Key       string    `json:"answerKey"`
	At        time.Time `json:"timestamp"` // when it is written: a reader may look only for what is newer than lastRead
}

// sumLength is that of an answer's key.
const sumLength = 32

// reply is what a human's answer says of itself: which question it settles, and which answer it is.
type reply struct{ plea, key string }

func decodeReply(o jsonfile.Object) (r reply) {
	if key := textOf(o, "answerKey"); len(key) == sumLength {
		r.key, r.plea = key, line(textOf(o, "inReplyTo"), 200)
	}
	return r
}

// reaches reports whether an answer can be about this asking of the question, and not about one before it. Our times are whole
// seconds. A question without a zone comes before its answer where both stand in one mailbox, or where it can be older.
func (r reply) reaches(l, answer *message, together bool) bool {
	if l.stated.Zoneless && together {
		return answer.index > l.index
	}
	return answer.stated.At.Unix() >= l.stated.Earliest().Unix()
}

// maxAnswer bounds, in runes, what is written of a human's words.
const maxAnswer = 8000

// answer appends a human's decision to the asker's mailbox. It does so while an orchestrator lives, too: its children
// are who asks, and who waits. Nobody locks these files: the mailbox is compared and replaced, and somebody who had
// read it before may still write the answer away. Then the question is open again, and the same answer can be given
// once more.
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

// question is an open question with its place and who asks.
type question struct {
	*message
	in    located
	agent string
}

// named is the time that the question names, as far as it says which moment it means.
func (q question) named() time.Time {
	if q.stated.Zoneless {
		return time.Time{}
	}
	return q.stated.At
}

// asked is the newest message with the open question that a change speaks of.
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

// deliver appends the answer to a mailbox, and makes the mailbox where there is none.
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

// placed is a mailbox as it is at this moment.
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

// newBox makes a mailbox with the answer in it.
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

// boxOf is the mailbox that an agent reads, in the layout in use. The lead has two names, tech-lead in the program and
// team-lead in the document: its own one counts if that has a mailbox, else the other's, else the layout's.
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

// boxName is an agent's name as file names have it.
func boxName(agent string) string {
	return strings.NewReplacer(" ", "-", "_", "-").Replace(strings.ToLower(agent))
}

// has reports whether the answer with that key stands in the mailbox.
func (m *mailbox) has(key string) bool {
	return slices.ContainsFunc(m.letters, func(l message) bool { return l.reply.key == key })
}

// asker is who asks: the message's own word, or else who writes to that mailbox.
func asker(l *message, in located) string {
	if l.from != "" {
		return l.from
	}
	return sender(in.name)
}

// meaning sums a message up whatever the white space around it.
func meaning(v jsonfile.Value) jsonfile.Sum {
	var b bytes.Buffer
	if err := json.Compact(&b, v.Raw()); err != nil {
		return jsonfile.SumOf(v.Raw())
	}
	return jsonfile.SumOf(b.Bytes())
}

// short makes a human's words fit for a message. What JSON can escape stays as it is.
func short(s string) string { return folder.Short(strings.ToValidUTF8(s, "�"), maxAnswer) }
