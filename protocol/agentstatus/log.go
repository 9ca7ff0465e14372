package agentstatus

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// log is what was read of the coordination log (protocol 000, Coordination Log Schema): only the end that is new
// is read, once.
type log struct {
	opened bool
	offset int64
	inode  uint64
	at     time.Time // of the last reading
	tasks  map[string]*life
	lines  map[string]int // lines per agent that it wrote itself
	flaws  map[string]int // lines per violation of the schema
	bad    int            // lines that are no JSON object

	unwritten *jsonfile.Trouble // the last line of ours could not be written
}

// life is what the log tells of a task.
type life struct {
	events  []string
	started time.Time // the last task_started that was not steward's own
	whole   bool      // started has whole seconds only
	before  time.Time // the reading before the one that showed it
	seen    time.Time // the reading that showed the last line
}

// logTail bounds what is read of an old log at the first look: what lies before is history.
const logTail = 8 << 20

func newLog() log {
	return log{tasks: map[string]*life{}, lines: map[string]int{}, flaws: map[string]int{}}
}

// readLog reads the new lines. A log that shrank or is another file is read from its beginning.
func (p *Project) readLog() {
	st, err := p.root.Stat(logFile)
	if err != nil {
		p.patience.Unreadable(logFile, err)
		return
	}
	l := &p.log
	rewritten := l.opened && (st.Inode != l.inode || st.Size < l.offset)
	switch {
	case rewritten:
		l.restart(st.Inode)
	case !l.opened:
		l.opened, l.inode = true, st.Inode
		if st.Size > logTail {
			l.offset = p.nextLine(st.Size - logTail)
		}
	}
	lines := l.lines
	if rewritten {
		l.lines = map[string]int{} // old lines in a new file are no sign of life
	}
	for l.offset < st.Size {
		more, err := p.readLines()
		if err != nil {
			p.patience.Unreadable(logFile, err)
			if rewritten {
				l.lines = lines
			}
			return
		}
		if !more {
			break // the last line is still being written
		}
	}
	if rewritten {
		l.lines = lines
	}
	l.at = p.now
	p.patience.Clear(logFile)
}

// restart begins a log anew. What was counted of the agents' lines stays.
func (l *log) restart(inode uint64) {
	next := newLog()
	next.opened, next.inode, next.lines, next.unwritten, next.at = true, inode, l.lines, l.unwritten, l.at
	*l = next
}

// nextLine is where the first whole line after an offset begins.
func (p *Project) nextLine(offset int64) int64 {
	data, _, err := p.root.ReadAt(logFile, offset, maxFile)
	if err != nil {
		return offset
	}
	return offset + int64(bytes.IndexByte(data, '\n')+1)
}

// readLines takes in the next lines, at most maxFile bytes. more is false when no whole line is left.
func (p *Project) readLines() (more bool, err error) {
	l := &p.log
	data, _, err := p.root.ReadAt(logFile, l.offset, maxFile)
	if err != nil {
		return false, err
	}
	end := bytes.LastIndexByte(data, '\n')
	if end < 0 {
		if len(data) < maxFile {
			return false, nil
		}
		l.bad++ // a line of over 1 MiB: passed over
		l.offset += int64(len(data))
		return true, nil
	}
	for line := range bytes.Lines(data[:end+1]) {
		l.take(bytes.TrimSpace(line), p.now)
	}
	l.offset += int64(end + 1)
	return true, nil
}

// take reads one line.
func (l *log) take(line []byte, now time.Time) {
	if len(line) == 0 {
		return
	}
	o, err := jsonfile.Parse(line)
	if err != nil {
		l.bad++
		return
	}
	entry, issues := decodeLine(o)
	for _, i := range issues {
		l.flaws[i.field]++
	}
	if entry.source != "" && !entry.ours {
		l.lines[entry.source]++
	}
	if entry.task == "" || entry.event == "" {
		return
	}
	t := l.tasks[entry.task]
	if t == nil {
		t = &life{}
		l.tasks[entry.task] = t
	}
	t.seen = now
	if !slices.Contains(t.events, entry.event) {
		t.events = append(slices.Clip(t.events), entry.event)
	}
	if entry.event == "task_started" && !entry.ours && !entry.at.IsZero() {
		t.started, t.whole, t.before = entry.at, entry.at.Nanosecond() == 0, l.at
	}
}

// startedIn reports whether the log shows a start of the attempt that came into sight at that moment. A stamp of
// whole seconds from the same second may belong to an attempt before, if there was one: then only a line that came
// after an own reading after that moment counts.
func (l *life) startedIn(since time.Time, again bool) bool {
	switch {
	case l.started.IsZero():
		return false
	case !l.whole || l.started.Unix() != since.Unix():
		return !l.started.Before(since)
	}
	return !again || !l.before.IsZero() && !l.before.Before(since)
}

// lifeKept is how long a task that has no files is remembered from the log: a client may log before it writes.
const lifeKept = 10 * time.Minute

// prune forgets tasks that the log names and nobody asks about.
func (l *log) prune(now time.Time, tasks map[string]*entry) {
	for id, t := range l.tasks {
		if tasks[id] == nil && now.Sub(t.seen) > lifeKept {
			delete(l.tasks, id)
		}
	}
}

// logEntry is one line of the log (protocol 000, Coordination Log Schema).
type logEntry struct {
	at                  time.Time
	event, task, source string
	ours                bool // written by steward, be it in an agent's name
}

// decodeLine reads a line. Event types outside the document's list are the majority in the field, its own boot
// scripts' among them: they are no finding.
func decodeLine(o jsonfile.Object) (logEntry, []issue) {
	c := &check{}
	e := logEntry{at: c.instant(o, "timestamp", true), event: c.text(o, "event_type", true), source: c.text(o, "source_agent", true)}
	e.task = c.text(o, "task_id", false)
	c.text(o, "target_agent", false)
	c.text(o, "message", true)
	metadata, _ := c.child(o, "metadata", false)
	by, _ := metadata.String("logged_by")
	e.ours = e.source == ourName || by == ourName
	return e, c.findings
}

// issues sums the log's flaws up: one finding per field, however many lines.
func (l *log) issues() []issue {
	var list []issue
	if l.bad > 0 {
		list = append(list, issue{code: "log", severity: protocol.Low, text: fmt.Sprintf("%d lines are not JSON objects", l.bad)})
	}
	for _, field := range sortedKeys(l.flaws) {
		list = append(list, issue{code: "schema", field: field, severity: protocol.Info,
			text: fmt.Sprintf("%s is missing or of another type in %d lines", field, l.flaws[field])})
	}
	return list
}
