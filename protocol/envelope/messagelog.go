package envelope

import (
	"bytes"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// messageLog reads the log with one message per line. Only new lines are read.
type messageLog struct {
	*source
	tail      folder.Tail
	lines     int
	last      time.Time // the time given to the last line
	messages  []*message
	faults    []protocol.Fault // for the first unusable lines
	bad       int              // number of unusable lines
	mayDeploy []int            // numbers of the first unreadable lines that may be a deployment
	restarted bool             // the log is reread from its beginning: its lines may be old
}

// maxBadLines bounds the Faults of one log.
const maxBadLines = 10

func newMessageLog(s *source, file string) *messageLog {
	return &messageLog{source: s, tail: folder.Tail{File: file, Max: maxFile}}
}

// mentionsDeploy reports whether unparsable text mentions a deployment.
func mentionsDeploy(raw []byte) bool { return bytes.Contains(bytes.ToUpper(raw), []byte("DEPLOY")) }

// read reads the new lines. A log that shrank or was replaced is reread from its beginning.
func (l *messageLog) read() {
	if err := l.tail.Read(l.Folder, l.restart, l.readLine); folder.Missing(err) {
		l.restart()
	}
	l.restarted = false
}

func (l *messageLog) restart() {
	for _, m := range l.messages {
		l.remove(m)
	}
	*l = *newMessageLog(l.source, l.tail.File)
	l.restarted = true
}

// readLine reads one line, including its newline; nil stands for a line that is too long.
func (l *messageLog) readLine(line []byte, at int64) {
	l.lines++
	if line == nil {
		l.badLine("is longer than 8 MiB", "", true)
		return
	}
	text := bytes.TrimSpace(line)
	if len(text) == 0 {
		return
	}
	o, err := jsonfile.Parse(text)
	if err != nil {
		problem, hint := jsonfile.Describe(err)
		l.badLine("is no message: "+clean(problem, maxText), hint, mentionsDeploy(text))
		return
	}
	m := decode(o, l.deployers)
	l.place(m)
	if l.watching && !l.restarted {
		m.seen = l.Now
	}
	m.offset, m.size = at, int64(len(line))
	m.history = m.at.Before(l.Since)
	if problem, hint := m.fault(); problem != "" {
		l.badLine(problem, hint, false)
	}
	l.messages = append(l.messages, m)
	l.add(m)
}

// place sets a line's time. A line without a timestamp gets a time just after the previous line's, or the log's own time
// if it is the first. A time without a zone cannot be later than the log's last write.
func (l *messageLog) place(m *message) {
	switch {
	case !m.stamped && !l.last.IsZero():
		l.last = l.last.Add(time.Microsecond)
		m.place(l.tail.File, l.last)
	case m.stamped && !m.stated.Zoneless:
		m.place(l.tail.File, l.Now)
		l.last = m.at
	default:
		st, err := l.Root.Stat(l.tail.File)
		written := st.ModTime()
		if m.stamped && (err != nil || written.After(l.Now)) {
			written = l.Now
		}
		if m.place(l.tail.File, written); m.stamped {
			l.last = m.at
		}
	}
}

// badLine records a Fault for the line just read, up to maxBadLines.
func (l *messageLog) badLine(problem, hint string, mayDeploy bool) {
	if l.bad++; l.bad <= maxBadLines {
		l.faults = append(l.faults, protocol.Fault{Path: l.tail.File, Problem: fmt.Sprintf("line %d: %s", l.lines, problem), Hint: hint, Since: l.Now})
	}
	if mayDeploy && len(l.mayDeploy) < maxBadLines {
		l.mayDeploy = append(l.mayDeploy, l.lines)
	}
}

// allFaults returns the log's Faults.
func (l *messageLog) allFaults() []protocol.Fault {
	list := l.faults
	if more := l.bad - maxBadLines; more > 0 {
		last := list[len(list)-1]
		last.Problem = fmt.Sprintf("and %d more lines", more)
		list = append(list[:len(list):len(list)], last)
	}
	return list
}
