package envelope

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// audit tracks the copies of all valid messages in one structured log (protocol 004, Suggested Implementation: Logging).
type audit struct {
	tail    folder.Tail
	known   map[[16]byte]struct{}     // sums of the messages in the log
	pending map[jsonfile.Sum]*message // usable messages that are not in the log yet
	queue   []*message                // the pending messages in order, and some that are no longer pending
	unsort  bool                      // the queue lacks some pending messages
}

func newAudit() audit {
	return audit{tail: folder.Tail{File: auditLog, Max: 2 * maxFile}, known: map[[16]byte]struct{}{}, pending: map[jsonfile.Sum]*message{}}
}

// auditHead is the beginning of an audit line. "message" follows it, as sent except for white space.
type auditHead struct {
	At   time.Time    `json:"at,omitzero"` // the message's own time
	Path string       `json:"path"`
	Sum  jsonfile.Sum `json:"sum"`
}

// key packs a sum into a third of its space.
func key(sum jsonfile.Sum) (k [16]byte) {
	for i := range min(len(sum)/2, len(k)) {
		k[i] = nibble(sum[2*i])<<4 | nibble(sum[2*i+1])
	}
	return k
}

func nibble(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

func (a *audit) has(sum jsonfile.Sum) bool {
	_, ok := a.known[key(sum)]
	return ok
}

func (a *audit) learn(sum jsonfile.Sum) {
	a.known[key(sum)] = struct{}{}
	delete(a.pending, sum)
}

// want queues a message for copying.
func (a *audit) want(m *message) {
	if m.unusable == "" && !m.history && !a.has(m.sum) {
		a.pending[m.sum], a.unsort = m, true
	}
}

// forgo drops a message that no longer exists.
func (a *audit) forgo(m *message) {
	if a.pending[m.sum] == m {
		delete(a.pending, m.sum)
	}
}

// readAudit reads the new lines of the audit log. It parses only their heads.
func (p *Project) readAudit() {
	// Messages recorded in a replaced log stay known.
	_ = p.audit.tail.Read(p.Folder, func() {}, func(line []byte, _ int64) {
		if sum, ok := auditSum(line); ok {
			p.audit.learn(sum)
		}
	})
}

// auditSum reads a line's sum without parsing its message.
func auditSum(line []byte) (jsonfile.Sum, bool) {
	head, _, ok := bytes.Cut(line, []byte(`,"message":`))
	if !ok {
		return "", false
	}
	o, err := jsonfile.Parse(append(bytes.Clone(head), '}'))
	if err != nil {
		return "", false
	}
	sum, _ := o.String("sum")
	return jsonfile.Sum(sum), isSum(sum)
}

func isSum(s string) bool {
	return len(s) == 32 && !bytes.ContainsFunc([]byte(s), func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') })
}

// The pace of the audit: at most maxEvents events at once, then a pause.
const (
	maxEvents  = 50
	auditPause = 100 * time.Millisecond
)

// next returns the first n pending messages in order, and whether there are more.
func (a *audit) next(n int) (list []*message, more bool) {
	if a.unsort {
		a.queue, a.unsort = slices.SortedFunc(maps.Values(a.pending), (*message).compare), false
	}
	for len(a.queue) > 0 && a.pending[a.queue[0].sum] != a.queue[0] {
		a.queue = a.queue[1:]
	}
	for _, m := range a.queue {
		if a.pending[m.sum] != m {
			continue
		}
		if len(list) == n {
			return list, true
		}
		list = append(list, m)
	}
	return list, false
}

// events requests the missing copies, oldest message first.
func (p *Project) events() []protocol.Event {
	wait, more := p.audit.next(maxEvents)
	if more {
		p.Patience.RetryAt(p.Now.Add(auditPause))
	}
	if len(wait) == 0 {
		return nil
	}
	list := make([]protocol.Event, len(wait))
	for i, m := range wait {
		list[i] = protocol.Event{Subject: m.subject(p), Name: "audit", Agent: m.from, At: m.at, Text: "a message that the audit log does not hold yet",
			Ref: protocol.Ref{Path: openName(m.file), Sum: string(m.sum)}}
	}
	return list
}

// subject returns the message's task, or the message folder if it names none.
func (m *message) subject(p *Project) protocol.Subject {
	if m.task == "" {
		return p.place()
	}
	return protocol.Subject{Kind: protocol.KindTask, ID: m.task}
}

// place returns the subject of a finding or event without a task.
func (p *Project) place() protocol.Subject {
	return protocol.Subject{Kind: protocol.KindProject, ID: p.opts.Messages}
}

// logAudit copies one message, once. It rereads the message: changed content makes it another message.
func (p *Project) logAudit(c protocol.Change) error {
	if c.Event != "audit" {
		return fmt.Errorf("%s of event %q: %w", c.Verb, c.Event, protocol.ErrUnsupported)
	}
	p.readAudit()
	sum := jsonfile.Sum(c.Ref.Sum)
	if p.audit.has(sum) {
		return nil
	}
	raw, at, err := p.rawMessage(c.Ref.Path, sum)
	if err != nil {
		return err
	}
	line, err := auditLine(auditHead{At: at.UTC(), Path: openName(c.Ref.Path), Sum: sum}, raw)
	if err != nil {
		return fmt.Errorf("write audit line: %w", err)
	}
	if err := p.Root.Append(auditLog, line); err != nil {
		return err
	}
	p.audit.learn(sum)
	return nil
}

// auditLine writes a line in the form that auditSum reads.
func auditLine(head auditHead, raw []byte) ([]byte, error) {
	begin, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(append(begin[:len(begin)-1], `,"message":`...))
	if err := json.Compact(b, raw); err != nil {
		return nil, err
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// rawMessage returns a message's own text from its file, held or not, or from the log.
func (p *Project) rawMessage(file string, sum jsonfile.Sum) (raw []byte, at time.Time, err error) {
	if file == p.opts.Log {
		p.readLog()
		for _, m := range p.journal.messages {
			if m.sum != sum {
				continue
			}
			line, _, err := p.Root.ReadAt(file, m.offset, m.size)
			if err != nil {
				return nil, at, err
			}
			if o, err := jsonfile.Parse(bytes.TrimSpace(line)); err == nil && compactSum(o.Value().Raw()) == sum {
				return o.Value().Raw(), m.at, nil
			}
		}
		return nil, at, folder.Moved("the line is no longer in the log")
	}
	for _, name := range []string{file, file + ".held"} {
		o, blob, err := p.Root.Load(name, maxFile)
		if err == nil && compactSum(o.Value().Raw()) == sum {
			m := decode(o, p.opts.Deployers)
			m.place(name, blob.Stamp.ModTime())
			return o.Value().Raw(), m.at, nil
		}
	}
	return nil, at, folder.Moved("the message is not the one that was seen")
}
