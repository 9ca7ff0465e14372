package agentstatus

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// log is what was read of the coordination log (protocol 000, Coordination Log Schema): only the end that is new
// is read, once.
type log struct {
	tail  folder.Tail
	at    time.Time // of the last reading
	tasks map[string]*life
	lines map[string]int // lines per agent that it wrote itself
	flaws map[string]int // lines per violation of the schema
	bad   int            // lines that are no JSON object
	calls []string       // incidents that lines of ours name
	old   bool           // the lines that are read now may be old: the log is another one

	untold    [][]byte        // lines of ours that could not be written yet
	unwritten *protocol.Fault // why
	tellAt    time.Time       // when it is tried again
}

// life is what the log tells of a task.
type life struct {
	events  []string
	started time.Time // the last task_started that was not steward's own
	whole   bool      // started has whole seconds only
	before  time.Time // the reading before the one that showed it
	seen    time.Time // when the log named the task last, or its files were there
}

// logTail bounds what is read of an old log at the first look: what lies before is history.
const logTail = 8 << 20

func newLog() log {
	return log{tail: folder.Tail{File: logFile, Max: maxFile, Last: logTail}, tasks: map[string]*life{}, lines: map[string]int{}, flaws: map[string]int{}}
}

// readLog reads the new lines. When the log is another one, what was counted of the agents' lines stays: old lines in a
// new file are no sign of life.
func (p *Project) readLog() {
	l := &p.log
	var lines map[string]int
	err := l.tail.Read(p.Folder, func() {
		lines = l.lines
		next := newLog()
		next.tail, next.at, next.old = l.tail, l.at, true
		next.untold, next.unwritten, next.tellAt = l.untold, l.unwritten, l.tellAt
		*l = next
	}, func(line []byte, _ int64) { l.take(line, p.Now) })
	if lines != nil {
		l.lines = lines
	}
	if err == nil {
		l.at, l.old = p.Now, false
	}
}

// take reads one line; nil is one that is too long.
func (l *log) take(line []byte, now time.Time) {
	text := bytes.TrimSpace(line)
	if line != nil && len(text) == 0 {
		return
	}
	o, err := jsonfile.Parse(text)
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
	if entry.ours && entry.incident != "" && !slices.Contains(l.calls, entry.incident) {
		l.calls = append(slices.Clip(l.calls), entry.incident)
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
	if entry.event == eventReturned {
		t.started = time.Time{}
	}
	if entry.event == "task_started" && !entry.ours && !entry.at.At.IsZero() {
		t.started = entry.at.By(now)
		if !l.at.IsZero() && !l.old {
			t.started = entry.at.Seen(now)
		}
		t.whole, t.before = t.started.Nanosecond() == 0, l.at
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

// prune forgets tasks that the log names and that have had no files for a while. A task that is just being retried may have
// none for a moment.
func (l *log) prune(now time.Time, tasks map[string]*entry) {
	for id, t := range l.tasks {
		switch {
		case tasks[id] != nil:
			t.seen = now
		case now.Sub(t.seen) > lifeKept:
			delete(l.tasks, id)
		}
	}
}

// logEntry is one line of the log (protocol 000, Coordination Log Schema).
type logEntry struct {
	at                  jsonfile.Stated
	event, task, source string
	ours                bool   // written by steward, be it in an agent's name
	incident            string // which an escalation of steward's is about
}

// decodeLine reads a line. Event types outside the document's list are the majority in the field, its own boot
// scripts' among them: they are no finding.
func decodeLine(o jsonfile.Object) (logEntry, []issue) {
	c := &check{}
	e := logEntry{at: c.stated(o, "timestamp", true), event: c.text(o, "event_type", true), source: c.text(o, "source_agent", true)}
	e.task = c.text(o, "task_id", false)
	c.text(o, "target_agent", false)
	c.text(o, "message", true)
	metadata, _ := c.child(o, "metadata", false)
	by, _ := metadata.String("logged_by")
	e.incident, _ = metadata.String("incident")
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
