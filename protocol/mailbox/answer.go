package mailbox

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// answerKind is the message type of a user's answer. The document defines no type for questions and answers; agents know
// this one.
const answerKind = "answer"

// answerMessage is a user's answer as written to messages[], in the document's spelling.
type answerMessage struct {
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

// answer appends a user's decision to the asker's mailbox. It does so even while an orchestrator lives, because the
// orchestrator's children ask and wait. No program locks these files: steward compares and replaces the mailbox, but a
// program that read it earlier may still overwrite the answer. Then the question is open again, and the same answer can be
// given once more.
func (w writer) answer(c protocol.Change) error {
	key, err := folder.AnswerKey(c)
	if err != nil {
		return err
	}
	w.read()
	mail := w.mail()
	for _, l := range allMessages(mail) {
		if l.reply.key == key {
			return nil // it is written already
		}
	}
	q, err := findQuestion(c, mail)
	if err != nil {
		return err
	}
	box, err := w.boxOf(q.agent)
	if err != nil {
		return fmt.Errorf("%s %s: %w", c.Verb, c.Subject, err)
	}
	at := w.Now
	if !q.stated.Zoneless { // a time without a zone is ambiguous
		at = folder.Later(at, q.stated.At)
	}
	a := c.Answer
	return w.deliver(box, q, answerMessage{Type: answerKind, Task: q.task, Platform: q.question.platform, From: "human", To: q.agent,
		Question: q.question.text, Decision: folder.Short(a.Label, folder.MaxAnswer), Rationale: folder.Short(a.Why, folder.MaxAnswer),
		By: line(a.By, 100), InReplyTo: c.Subject.ID, Key: key, At: at})
}

// maxMessage is more than the longest message of steward takes, in bytes.
const maxMessage = 256 << 10

// deliver appends the answer to a mailbox unless the question has been answered there.
func (w writer) deliver(file string, q openQuestion, a answerMessage) error {
	return w.post(file, a, func(o jsonfile.Object) (bool, error) {
		now, was := decodeMailbox(o), &mailbox{}
		for _, m := range w.mail() {
			if m.file == file {
				was = &m.Value
			}
		}
		now.place(was, w.Now, true)
		if answered(q.message, q.file, []located{{Reading: &jsonfile.Reading[mailbox]{Value: now}, file: file}}) {
			return false, errSettled
		}
		return false, nil
	})
}

// post appends a message to a mailbox, and creates the mailbox if it is missing. there reports whether the mailbox
// contains the message already.
func (w writer) post(file string, message any, there func(jsonfile.Object) (bool, error)) error {
	if _, err := w.Root.Stat(file); folder.Missing(err) {
		return w.createBox(file, message)
	}
	_, err := w.Edit(folder.Edit{File: file, Max: maxFile, If: jsonfile.Any, Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) {
		switch kind := o.Get("messages").Kind(); {
		case kind != "array" && kind != "missing" && kind != "null":
			return nil, fmt.Errorf("%w: messages is %s, not a list", jsonfile.ErrShape, kind)
		case len(o.Value().Raw()) > maxFile-maxMessage:
			return nil, fmt.Errorf("%w: there is no room for the message; clear its messages", jsonfile.ErrTooBig)
		}
		if known, err := there(o); known || err != nil {
			return nil, err
		}
		return []jsonfile.Set{{Path: []string{"messages", "-"}, Value: message}}, nil
	}})
	return err
}

// createBox creates a mailbox that contains a message.
func (w writer) createBox(file string, message any) error {
	doc, err := jsonfile.Edit([]byte(emptyBox), jsonfile.Set{Path: []string{"messages", "-"}, Value: message})
	if err != nil {
		return err
	}
	if err := w.Needs(path.Dir(file)); err != nil {
		return err
	}
	return w.Root.Create(file, doc, 0o644)
}

// boxOf returns the mailbox that an agent reads, in the layout in use. The lead has two names: tech-lead in the program
// and team-lead in the document. boxOf prefers the agent's own name if it has a mailbox, then the other name's mailbox,
// then the layout's name.
func (w writer) boxOf(agent string) (string, error) {
	used, _ := w.inUse()
	names := []string{strings.NewReplacer(" ", "-", "_", "-").Replace(strings.ToLower(agent))}
	switch names[0] {
	case "tech-lead", "techlead":
		names = []string{"tech-lead", "team-lead"}
	case "team-lead", "teamlead":
		names = []string{"team-lead", "tech-lead"}
	}
	for _, name := range names {
		file := used.boxFile("to-" + name + ".json")
		if _, err := w.Root.Stat(file); err == nil {
			return file, nil
		}
	}
	if len(names) > 1 {
		names[0] = map[string]string{"": "tech-lead", "tasks": "team-lead"}[used.dir]
	}
	if name := "to-" + names[0] + ".json"; isBox(name) {
		return used.boxFile(name), nil
	}
	return "", fmt.Errorf("%q cannot be the name of a mailbox; answer where the agent works", agent)
}
