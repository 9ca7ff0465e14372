package envelope

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// journal is what was read of the log of messages: only the end that is new is read.
type journal struct {
	tail     folder.Tail
	lines    int
	last     time.Time // of the last line that had a timestamp
	messages []*message
	faults   []protocol.Fault // of the first lines that cannot be used
	bad      int              // how many there are in all
	again    bool             // it is read from its beginning: its lines may be old
	dark     []int            // the first lines that cannot be read and may be a deployment
}

// maxBadLines bounds the Faults of one log.
const maxBadLines = 10

func (p *Project) newJournal() journal {
	return journal{tail: folder.Tail{File: p.opts.Log, Max: maxFile}}
}

// readLog takes in the new lines. A log that shrank, or is another file, is read from its beginning.
func (p *Project) readLog() {
	err := p.journal.tail.Read(p.Folder, p.restartLog, p.takeLine)
	if folder.Missing(err) {
		p.restartLog()
	}
	p.journal.again = false
}

func (p *Project) restartLog() {
	for _, m := range p.journal.messages {
		p.remove(m)
	}
	p.journal = p.newJournal()
	p.journal.again = true
}

// logWritten is when a line that is read now was written at the latest. The log's own time is worth a look only for a
// line whose time names no zone.
func (p *Project) logWritten(m *message) time.Time {
	if !m.stated.Zoneless {
		return p.Now
	}
	st, err := p.Root.Stat(p.opts.Log)
	if at := st.ModTime(); err == nil && at.Before(p.Now) {
		return at
	}
	return p.Now
}

// takeLine reads one line, its newline included; nil is one that is too long. One without a timestamp came after the
// line before it, or the log's own.
func (p *Project) takeLine(line []byte, at int64) {
	p.journal.lines++
	if line == nil {
		p.badLine("is longer than 8 MiB", "")
		p.journal.darkLine()
		return
	}
	text := bytes.TrimSpace(line)
	if len(text) == 0 {
		return
	}
	o, err := jsonfile.Parse(text)
	if err != nil {
		problem, hint := jsonfile.Describe(err)
		p.badLine("is no message: "+clean(problem, maxText), hint)
		if smells(text) {
			p.journal.darkLine()
		}
		return
	}
	j, m := &p.journal, decode(o, p.opts.Deployers)
	switch {
	case m.stamped:
		m.place(p.opts.Log, p.logWritten(m))
		j.last = m.at
	case !j.last.IsZero():
		j.last = j.last.Add(time.Microsecond)
		m.place(p.opts.Log, j.last)
	default:
		st, _ := p.Root.Stat(p.opts.Log)
		m.place(p.opts.Log, st.ModTime())
	}
	if p.looked && !j.again {
		m.seen = p.Now
	}
	m.offset, m.size = at, int64(len(line))
	m.history = m.at.Before(p.Since)
	if problem, hint := m.fault(); problem != "" {
		p.badLine(problem, hint)
	}
	j.messages = append(j.messages, m)
	p.add(m)
}

// badLine makes a line a Fault, as long as there are few.
func (p *Project) badLine(problem, hint string) {
	j := &p.journal
	if j.bad++; j.bad <= maxBadLines {
		j.faults = append(j.faults, protocol.Fault{Path: p.opts.Log, Problem: fmt.Sprintf("line %d: %s", j.lines, problem), Hint: hint, Since: p.Now})
	}
}

// troubles lists the log's Faults.
func (j *journal) troubles() []protocol.Fault {
	list := j.faults
	if more := j.bad - maxBadLines; more > 0 {
		last := list[len(list)-1]
		last.Problem = fmt.Sprintf("and %d more lines", more)
		list = append(list[:len(list):len(list)], last)
	}
	return list
}

// inLog reports whether the message stands in the log rather than in a file of its own.
func (m *message) inLog() bool { return m.size > 0 }

// openName is a file's path as it is while nobody holds it.
func openName(file string) string { return strings.TrimSuffix(file, ".held") }
