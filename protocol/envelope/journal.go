package envelope

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// journal is what was read of the log of messages: only the end that is new is read.
type journal struct {
	inode    uint64
	offset   int64
	tail     []byte // the last bytes before offset
	lines    int
	last     time.Time // of the last line that had a timestamp
	messages []*message
	faults   []protocol.Fault // of the first lines that cannot be used
	bad      int              // how many there are in all
}

// maxBadLines bounds the Faults of one log.
const maxBadLines = 10

// readLog takes in the new lines. A log that shrank, or is another file, is read from its beginning.
func (p *Project) readLog() {
	file, j := p.opts.Log, &p.journal
	st, err := p.root.Stat(file)
	switch {
	case isMissing(err):
		p.patience.Clear(file)
		p.restartLog(jsonfile.Stamp{})
		return
	case err == nil && st.Mode.IsDir():
		err = fmt.Errorf("%w: a folder", jsonfile.ErrHostile)
		fallthrough
	case err != nil:
		p.patience.Unreadable(file, err)
		return
	}
	p.patience.Clear(file)
	if st.Inode != j.inode || st.Size < j.offset || st.Size != j.offset && !p.goesOn(file) {
		p.restartLog(st)
	}
	for j.offset < st.Size {
		more, err := p.readLines(file, st)
		if err != nil {
			p.patience.Unreadable(file, err)
			return
		}
		if !more {
			return // the last line is still being written
		}
	}
}

// goesOn reports whether the log still holds what was read last: else it was written anew.
func (p *Project) goesOn(file string) bool {
	j := &p.journal
	if len(j.tail) == 0 {
		return true
	}
	now, _, err := p.root.ReadAt(file, j.offset-int64(len(j.tail)), int64(len(j.tail)))
	return err != nil || bytes.Equal(now, j.tail)
}

// maxTail is how much of a log's end is remembered.
const maxTail = 512

func (p *Project) restartLog(st jsonfile.Stamp) {
	for _, m := range p.journal.messages {
		p.remove(m)
	}
	p.journal = journal{inode: st.Inode}
}

// readLines takes in the next lines, at most maxFile bytes. more is false when no whole line is left.
func (p *Project) readLines(file string, st jsonfile.Stamp) (more bool, err error) {
	j := &p.journal
	data, _, err := p.root.ReadAt(file, j.offset, maxFile)
	if err != nil || len(data) == 0 {
		return false, err
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 {
		if len(data) < maxFile {
			return false, nil
		}
		p.badLine("is longer than 1 MiB", "")
		j.offset, j.tail = j.offset+int64(len(data)), nil
		return true, nil
	}
	for line := range bytes.Lines(data[:end]) {
		j.lines++
		p.takeLine(file, line, st)
		j.offset += int64(len(line))
	}
	j.tail = bytes.Clone(data[max(end-maxTail, 0):end])
	return true, nil
}

// takeLine reads one line, its newline included. One without a timestamp came after the line before it.
func (p *Project) takeLine(file string, line []byte, st jsonfile.Stamp) {
	text := bytes.TrimSpace(line)
	if len(text) == 0 {
		return
	}
	o, err := jsonfile.Parse(text)
	if err != nil {
		problem, hint := jsonfile.Describe(err)
		p.badLine("is no message: "+clean(problem, maxText), hint)
		return
	}
	j, m := &p.journal, decode(o)
	switch {
	case m.stamped:
		m.place(file, p.now)
		j.last = m.at
	case !j.last.IsZero():
		j.last = j.last.Add(time.Microsecond)
		m.place(file, j.last)
	default:
		m.place(file, st.ModTime())
	}
	m.offset, m.size = j.offset, int64(len(line))
	m.history = m.at.Before(p.since)
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
		j.faults = append(j.faults, protocol.Fault{Path: p.opts.Log, Problem: fmt.Sprintf("line %d: %s", j.lines, problem), Hint: hint, Since: p.now})
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
