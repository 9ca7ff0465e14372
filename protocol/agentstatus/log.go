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

// log is the state of reading and writing the coordination log (protocol 000, Coordination Log Schema). Each reading
// takes only the lines appended since the last one.
type log struct {
	tail  folder.Tail
	at    time.Time // of the last reading
	tasks map[string]*life
	lines map[string]int // lines that each agent wrote itself, by agent
	flaws map[string]int // lines with a schema violation, by field
	bad   int            // lines that are not JSON objects
	calls []string       // incidents that steward's lines name
	old   bool           // the log was replaced: the lines being read may be old

	since time.Time // of the first line that was read, if earlier lines were not; zero: the whole log was read

	untold    [][]byte        // steward's lines that are not written yet
	unwritten *protocol.Fault // why
	tellAt    time.Time       // when the write is retried
}

// life is what the log says about a task.
type life struct {
	events  []string
	started time.Time // the last task_started that steward did not write
	whole   bool      // started has whole seconds only
	before  time.Time // time of the reading before the one that set started
	seen    time.Time // when the log last named the task, or the task last had files
}

// logTail bounds how much of an old log the first scan reads; earlier lines are history.
const logTail = 8 << 20

func newLog() log {
	return log{tail: folder.Tail{File: logFile, Max: maxFile, Last: logTail}, tasks: map[string]*life{}, lines: map[string]int{}, flaws: map[string]int{}}
}

// readLog reads the new lines. If the log was replaced, the line counts per agent stay as they were: old lines in a
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

// take processes one line; nil stands for a line that is too long.
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
	if l.tail.Cut() && l.since.IsZero() {
		l.since = entry.at.By(now)
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

// startedIn reports whether the log shows a start of the attempt that appeared at since. A start stamped in whole
// seconds, within the same second as since, may belong to an earlier attempt, if there was one (again). Such a line
// counts only if the reading before it took place at since or later.
func (l *life) startedIn(since time.Time, again bool) bool {
	switch {
	case l.started.IsZero():
		return false
	case !l.whole || l.started.Unix() != since.Unix():
		return !l.started.Before(since)
	}
	return !again || !l.before.IsZero() && !l.before.Before(since)
}

// lifeKept is how long a logged task without files is remembered: a client may log before it writes its files.
const lifeKept = 10 * time.Minute

// prune forgets logged tasks that have had no files for lifeKept. A task that is just being retried may have no files
// for a moment.
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
	ours                bool   // written by steward, possibly in an agent's name
	incident            string // the incident that steward's escalation is about
}

// decodeLine decodes a line. An event type outside the list of protocol 000 is no finding: most lines in the field
// have one, and so do the protocol's own boot scripts.
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

// issues summarizes the log's flaws: one finding per field, whatever the number of lines.
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
