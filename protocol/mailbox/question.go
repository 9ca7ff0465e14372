package mailbox

import (
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// question is what a message asks of the user.
type question struct {
	text, detail string
	platform     string
	options      []string
	blocking     bool
	severity     protocol.Severity
	sum          jsonfile.Sum // of the message alone, independent of white space and of other messages
}

// questionKinds maps the message types that ask for a decision to their severity. The document defines none of these
// types, but agents write them.
var questionKinds = map[string]protocol.Severity{
	"question": protocol.Medium, "clarification": protocol.Medium, "clarification_request": protocol.Medium,
	"blocker": protocol.High, "escalation": protocol.High,
}

func decodeQuestion(kind string, o jsonfile.Object) *question {
	c := &question{severity: questionKinds[kind], sum: folder.ContentSum(o.Value())}
	c.blocking, _ = o.Bool("blocking")
	c.blocking = c.blocking || kind == "blocker"
	c.text = line(folder.FirstText(o, "question", "text", "message", "summary", "title", "reason", "content", "description"), 300)
	if c.text == "" {
		c.text = strings.ReplaceAll(kind, "_", " ") + " without words"
	}
	c.detail = line(folder.FirstText(o, "details", "detail", "context"), 1000)
	if word := folder.FirstText(o, "platform"); slices.Contains(platforms, word) {
		c.platform = word
	}
	options, _ := o.Strings("options")
	c.options = options[:min(len(options), 20)]
	if s := protocol.Severity(strings.ToLower(folder.FirstText(o, "severity"))); s.Rank() >= protocol.Low.Rank() {
		c.severity = s
	}
	return c
}

// questions lists the messages that ask for a decision and have no answer yet. A question is over when its message is
// cleared, or when a later answer to the same task exists.
func (v *queueView) questions() (list []protocol.Question) {
	seen := map[string]bool{}
	for m, l := range allMessages(v.mail) {
		if l.question == nil || answered(l, m.file, v.mail) {
			continue
		}
		id, q := l.questionID(), l.question
		if seen[id] {
			continue // the same question, asked twice
		}
		seen[id] = true
		list = append(list, protocol.Question{ID: id, Agent: l.asker(m.name), Task: l.task, Text: q.text, Detail: q.detail, Options: q.options,
			Blocking: q.blocking, Severity: q.severity, Due: v.questionDue(l, m), Ref: protocol.Ref{Path: m.file, Sum: string(q.sum)}})
	}
	return list
}

// questionID derives a question's id from its content, so that the id stays the same wherever the message is moved.
func (l *message) questionID() string {
	asked := strings.Join(append([]string{l.kind, l.task, l.question.text}, l.question.options...), "\x00")
	return l.kind + "-" + string(jsonfile.SumOf([]byte(asked)))[:12]
}

// questionDue is when to notify the user of a question: at once, or after the time that a lead may take for an answer.
// The agents may settle a question that is neither blocking nor severe among themselves first.
func (v *queueView) questionDue(l *message, m located) time.Time {
	if q := l.question; q.blocking || q.severity.Rank() >= protocol.High.Rank() || v.opts.Lead == 0 {
		return time.Time{}
	}
	asked := v.Past(l.at)
	if asked.IsZero() {
		asked = v.Past(m.Stamp.ModTime())
	}
	due := asked.Add(v.opts.Lead)
	v.Wait(due)
	return due
}

// asker returns the agent that asks: the sender that the message names, or else the agent that writes to that mailbox,
// according to the document or the program.
func (l *message) asker(box string) string {
	switch {
	case l.from != "":
		return l.from
	case box == "to-developer.json":
		return "tech-lead"
	case box == "to-tech-lead.json" || box == "to-team-lead.json":
		return developer
	case box == "to-designer.json":
		return "planner"
	}
	return orchestratorName
}

// isAnswer reports whether a message settles a question about the same task.
func (l *message) isAnswer() bool {
	return l.kind == answerKind || strings.HasSuffix(l.kind, "_response") || strings.HasSuffix(l.kind, "_answer")
}

// answered reports whether a message settles the question in file: an answer about the same task that follows it in the
// same mailbox, or that lies in another mailbox and is not older. A user's answer names its question and settles no other.
func answered(l *message, file string, mail []located) bool {
	for m, a := range allMessages(mail) {
		together := m.file == file
		switch {
		case a.reply.question != "":
			if a.reply.question == l.questionID() && l.reachedBy(a, together) {
				return true
			}
		case a.isAnswer() && a.task == l.task && (together && a.index > l.index || !together && !a.at.Before(l.at)):
			return true
		}
	}
	return false
}

// reply names the question that a user's answer settles, and identifies the answer.
type reply struct{ question, key string }

// keyLength is the length of an answer's key.
const keyLength = 32

func decodeReply(o jsonfile.Object) (r reply) {
	if key := folder.FirstText(o, "answerKey"); len(key) == keyLength {
		r.key, r.question = key, line(folder.FirstText(o, "inReplyTo"), 200)
	}
	return r
}

// reachedBy reports whether an answer can belong to this asking of the question, and not to an earlier one. steward's times
// are whole seconds. A question whose time has no zone precedes its answer if it stands before it in the same mailbox; in
// another mailbox, it does if it can be older.
func (l *message) reachedBy(answer *message, together bool) bool {
	if l.stated.Zoneless && together {
		return answer.index > l.index
	}
	return answer.stated.At.Unix() >= l.stated.Earliest().Unix()
}

// openQuestion is an open question with its mailbox and the agent that asks.
type openQuestion struct {
	*message
	file  string
	agent string
}

// findQuestion returns the newest message with the open question that a change refers to.
func findQuestion(c protocol.Change, mail []located) (q openQuestion, err error) {
	there, same := false, false
	for m, l := range allMessages(mail) {
		if l.question == nil || l.questionID() != c.Subject.ID {
			continue
		}
		there = true
		if answered(l, m.file, mail) {
			continue
		}
		same = same || string(l.question.sum) == c.Ref.Sum
		if q.message == nil || !l.at.Before(q.at) {
			q = openQuestion{l, m.file, l.asker(m.name)}
		}
	}
	switch {
	case !there:
		return q, folder.Moved("the question is gone")
	case q.message == nil:
		return q, errSettled
	case !same:
		return q, folder.Moved("the question has been rewritten")
	}
	return q, nil
}

var errSettled = folder.Moved("the question already has another answer")
