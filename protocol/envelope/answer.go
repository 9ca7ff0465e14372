package envelope

import (
	"cmp"
	"path"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// answerKey marks a resolution that steward wrote for an operator.
const answerKey = "answer_key"

// cancelledKey marks a resolution that ends its task: no new assignment is expected.
const cancelledKey = "cancelled"

// errorCode and errorSeverity are keys of steward's in the blocker of a failed run.
const (
	errorCode     = "error_code"
	errorSeverity = "error_severity"
)

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

// answer writes an operator's decision next to the question, because its agent reads there: as a file beside the
// question's file, or as a line of the log if the question is a log line. It writes a single file or line, so a crash
// leaves the whole answer or none.
func (p *Project) answer(c protocol.Change) error {
	key, err := folder.AnswerKey(c)
	if err != nil {
		return err
	}
	a := c.Answer
	t, m := p.askedIn(c.Subject.ID)
	switch {
	case t == nil:
		return folder.Moved("the question is gone")
	case slices.ContainsFunc(t.messages, func(m *message) bool { return m.kind == resolves && m.answer.key == key }):
		return nil
	case m == nil:
		return folder.Moved("the question has already been settled")
	case m.ref() != c.Ref:
		return folder.Moved("the question was rewritten")
	}
	to := m.from
	if to == "" && t.assigned != nil {
		to = t.assigned.to
	}
	// An agent may read only messages newer than the last one it read, so the answer has the time of writing. It is never
	// before the question's time, even if the clocks disagree.
	at := p.Now
	if at.Before(m.at) {
		at = m.at
	}
	requirements := make([]string, 0, len(a.Requirements)) // not nil, which JSON would write as null
	for _, s := range a.Requirements {
		requirements = append(requirements, folder.AnswerText(s))
	}
	return p.writeAnswer(m, resolution{Type: "BLOCKER_RESOLUTION", Task: m.task, From: "human", To: cmp.Or(to, "ORCHESTRATOR"), At: at,
		Decision: folder.AnswerText(a.Label), Rationale: folder.AnswerText(a.Why), Requirements: requirements, Resume: !a.Stop,
		InReplyTo: c.Subject.ID, Key: key, By: clean(a.By, maxText)})
}

// writeAnswer writes the answer to m.
func (p *Project) writeAnswer(m *message, r resolution) error {
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
	p.inbox.unsettled[name] = true // the next scan reads it, with or without a hint
	return p.Root.Create(path.Join(p.opts.Messages, name), doc, 0o644)
}

// askedIn rereads the task of a question and returns it with the message that asks. The message is nil if the question is
// already settled.
func (p *Project) askedIn(id string) (*task, *message) {
	asks := func(m *message) bool { return m != nil && questionID(m) == id }
	p.update("")
	for name, t := range p.board.tasks {
		if !slices.ContainsFunc(t.messages, asks) {
			continue
		}
		if t = p.update(name); t == nil {
			continue
		}
		open := append(t.blockers[:len(t.blockers):len(t.blockers)], t.clarification)
		if i := slices.IndexFunc(open, asks); i >= 0 {
			return t, open[i]
		}
		if slices.ContainsFunc(t.messages, asks) {
			return t, nil
		}
	}
	return nil, nil
}
