package envelope

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// auditLog tracks the copies of all valid messages in one structured log (protocol 004, Suggested Implementation:
// Logging).
type auditLog struct {
	*folder.Folder
	tail    folder.Tail
	known   map[jsonfile.Sum]bool     // sums of the messages in the log
	pending map[jsonfile.Sum]*message // usable messages that are not in the log yet
}

func newAuditLog(f *folder.Folder) *auditLog {
	return &auditLog{Folder: f, tail: folder.Tail{File: auditFile, Max: 2 * maxFile}, known: map[jsonfile.Sum]bool{},
		pending: map[jsonfile.Sum]*message{}}
}

// auditHead is the beginning of an audit line. "message" follows it, as sent except for white space.
type auditHead struct {
	At   time.Time    `json:"at,omitzero"` // the message's own time
	Path string       `json:"path"`
	Sum  jsonfile.Sum `json:"sum"`
}

const auditMessage = `,"message":`

// want queues a message for copying.
func (a *auditLog) want(m *message) {
	if m.unusable == "" && !m.history && !a.known[m.sum] {
		a.pending[m.sum] = m
	}
}

// forget drops a message that no longer exists.
func (a *auditLog) forget(m *message) {
	if a.pending[m.sum] == m {
		delete(a.pending, m.sum)
	}
}

// read reads the new lines of the log. It parses only their heads. Messages recorded in a replaced log stay known.
func (a *auditLog) read() {
	_ = a.tail.Read(a.Folder, func() {}, func(line []byte, _ int64) {
		if sum, ok := auditSum(line); ok {
			a.record(sum)
		}
	})
}

func (a *auditLog) record(sum jsonfile.Sum) {
	a.known[sum] = true
	delete(a.pending, sum)
}

// auditSum reads a line's sum without parsing its message.
func auditSum(line []byte) (jsonfile.Sum, bool) {
	head, _, ok := bytes.Cut(line, []byte(auditMessage))
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

func isSum(s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }

// The pace of the audit: at most maxEvents events at once, then a pause.
const (
	maxEvents  = 50
	auditPause = 100 * time.Millisecond
)

// auditEvents requests the missing copies, oldest message first.
func (p *Project) auditEvents() []protocol.Event {
	wait := slices.SortedFunc(maps.Values(p.audit.pending), (*message).compare)
	if len(wait) > maxEvents {
		wait = wait[:maxEvents]
		p.Patience.RetryAt(p.Now.Add(auditPause))
	}
	var list []protocol.Event
	for _, m := range wait {
		list = append(list, protocol.Event{Subject: p.subject(m.task), Name: "audit", Agent: m.from, At: m.at,
			Text: "a message that the audit log does not hold yet", Ref: protocol.Ref{Path: openName(m.file), Sum: string(m.sum)}})
	}
	return list
}

// writeEvent writes what an event asks for: a line of the audit log, or the refusal of an assignment.
func (p *Project) writeEvent(c protocol.Change) error {
	switch c.Event {
	case "audit":
		return p.logAudit(c)
	case eventIncomplete:
		return p.refuse(c)
	}
	return fmt.Errorf("%s of event %q: %w", c.Verb, c.Event, protocol.ErrUnsupported)
}

// logAudit copies one message, once. It rereads the message: changed content makes it another message.
func (p *Project) logAudit(c protocol.Change) error {
	p.audit.read()
	sum := jsonfile.Sum(c.Ref.Sum)
	if p.audit.known[sum] {
		return nil
	}
	p.update("")
	m := p.audit.pending[sum]
	if m == nil {
		return folder.Moved("the message is not the one that was seen")
	}
	raw, err := m.text(p.Root)
	if err != nil {
		return err
	}
	line, err := auditLine(auditHead{At: m.at.UTC(), Path: openName(m.file), Sum: sum}, raw)
	if err != nil {
		return fmt.Errorf("write audit line: %w", err)
	}
	if err := p.Root.Append(auditFile, line); err != nil {
		return err
	}
	p.audit.record(sum)
	return nil
}

// auditLine writes a line in the form that auditSum reads.
func auditLine(head auditHead, raw []byte) ([]byte, error) {
	begin, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(append(begin[:len(begin)-1], auditMessage...))
	if err := json.Compact(b, raw); err != nil {
		return nil, err
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// text rereads the message from where it stands.
func (m *message) text(root *jsonfile.Root) ([]byte, error) {
	var raw []byte
	var err error
	if m.inLog() {
		raw, _, err = root.ReadAt(m.file, m.offset, m.size)
	} else {
		var blob jsonfile.Blob
		blob, err = root.Read(m.file, maxFile)
		raw = blob.Data
	}
	if err != nil {
		return nil, err
	}
	o, err := jsonfile.Parse(bytes.TrimSpace(raw))
	if err != nil || folder.ContentSum(o.Value()) != m.sum {
		return nil, folder.Moved("the message is not the one that was seen")
	}
	return o.Value().Raw(), nil
}
