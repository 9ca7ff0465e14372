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

// journal is the state of the message log. Only new lines are read.
type journal struct {
	tail     folder.Tail
	lines    int
	last     time.Time // the time given to the last line
	messages []*message
	faults   []protocol.Fault // for the first unusable lines
	bad      int              // number of unusable lines
	again    bool             // the log is reread from its beginning: its lines may be old
	dark     []int            // numbers of the first unreadable lines that may be a deployment
}

// maxBadLines bounds the Faults of one log.
const maxBadLines = 10

func (p *Project) newJournal() journal {
	return journal{tail: folder.Tail{File: p.opts.Log, Max: maxFile}}
}

// readLog reads the new lines. A log that shrank or was replaced is reread from its beginning.
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

// logWritten returns the latest time at which a line that is read now can have been written. Only a line whose time names
// no zone is worth a stat of the log.
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

// takeLine reads one line, including its newline; nil stands for a line that is too long. A line without a timestamp gets
// a time just after the previous line's, or the log's own time if it is the first.
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

// badLine records a Fault for a line, up to maxBadLines.
func (p *Project) badLine(problem, hint string) {
	j := &p.journal
	if j.bad++; j.bad <= maxBadLines {
		j.faults = append(j.faults, protocol.Fault{Path: p.opts.Log, Problem: fmt.Sprintf("line %d: %s", j.lines, problem), Hint: hint, Since: p.Now})
	}
}

// troubles returns the log's Faults.
func (j *journal) troubles() []protocol.Fault {
	list := j.faults
	if more := j.bad - maxBadLines; more > 0 {
		last := list[len(list)-1]
		last.Problem = fmt.Sprintf("and %d more lines", more)
		list = append(list[:len(list):len(list)], last)
	}
	return list
}

// inLog reports whether the message is a line of the log instead of a file of its own.
func (m *message) inLog() bool { return m.size > 0 }

// openName returns a file's path without the extension of a held file.
func openName(file string) string { return strings.TrimSuffix(file, ".held") }
