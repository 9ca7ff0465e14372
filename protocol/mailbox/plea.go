package mailbox

import (
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// pleas lists the messages that ask for a decision and have no answer yet. A question is over when its message is cleared,
// or when a later answer to the same task exists.
func (p *Project) pleas(mail []located) (list []protocol.Question) {
	seen := map[string]bool{}
	for _, m := range mail {
		for i := range m.box.Value.letters {
			l := &m.box.Value.letters[i]
			if l.plea == nil || answered(l, m, mail) {
				continue
			}
			id := l.pleaID()
			if seen[id] {
				continue // the same question, asked twice
			}
			seen[id] = true
			list = append(list, protocol.Question{ID: id, Agent: asker(l, m), Task: l.task, Text: l.plea.text, Detail: l.plea.detail,
				Options: l.plea.options, Blocking: l.plea.blocking, Severity: l.plea.severity, Due: p.due(l, m),
				Ref: protocol.Ref{Path: m.file, Sum: string(l.sum)}})
		}
	}
	return list
}

// pleaID derives a question's id from its content, so that the id stays the same wherever the message is moved.
func (l *message) pleaID() string {
	asked := strings.Join(append([]string{l.kind, l.task, l.plea.text}, l.plea.options...), "\x00")
	return l.kind + "-" + string(jsonfile.SumOf([]byte(asked)))[:12]
}

// due is when the user is to be told of a question: at once, or after the time that a lead may take for an answer.
func (p *Project) due(l *message, m located) time.Time {
	if l.plea.urgent() || p.opts.Lead == 0 {
		return time.Time{}
	}
	asked := p.past(l.at)
	if asked.IsZero() {
		asked = p.past(m.box.Stamp.ModTime())
	}
	due := asked.Add(p.opts.Lead)
	if due.After(p.Now) {
		p.Patience.RetryAt(due)
	}
	return due
}

// answered reports whether a message settles the question: an answer about the same task that follows it in the same
// mailbox, or that lies in another mailbox and is not older. A user's answer names its question and settles no other.
func answered(l *message, in located, mail []located) bool {
	for _, m := range mail {
		for i := range m.box.Value.letters {
			a := &m.box.Value.letters[i]
			if a.reply.plea != "" {
				if a.reply.plea == l.pleaID() && a.reply.reaches(l, a, m.file == in.file) {
					return true
				}
				continue
			}
			if !a.isAnswer() || a.task != l.task {
				continue
			}
			if m.file == in.file && a.index > l.index || m.file != in.file && !a.at.Before(l.at) {
				return true
			}
		}
	}
	return false
}
