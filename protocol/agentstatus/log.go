package agentstatus

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The event types that steward compares or writes in several places. Those of protocol 000 are escalation and handoff.
const (
	eventCreated  = "task_created"  // a task was requested
	eventIncident = "escalation"    // steward reports an incident to the operator
	eventHandoff  = "handoff"       // steward hands work on
	eventReturned = "task_returned" // a claimed task was given back: it no longer counts as started
	eventDecided  = "task_decided"  // the operator decided about a task
)

// lifeEvents are the events that a task has once (protocol 000, Coordination Log Schema).
var lifeEvents = [...]string{eventCreated, "task_started", "task_completed", "task_failed"}

// logContent is what the lines of the coordination log say (protocol 000, Coordination Log Schema).
type logContent struct {
	tasks     map[string]*loggedTask
	lines     map[string]int // lines that each agent wrote itself, by agent
	flaws     map[string]int // lines with a schema violation, by field
	bad       int            // lines that are not JSON objects
	incidents []string       // incidents that steward's lines name

	at  time.Time // of the last reading
	old bool      // the log was replaced: the lines being read may be old
	cut bool      // the beginning of the log is not read
	// since is, for a log that is cut, the latest time of the lines at the beginning of the part that was read; begun is
	// their length. Lines stand in the order of writing, so a line before the cut may state a later time than the first one
	// behind it.
	since time.Time
	begun int
}

// loggedTask is what the log says about a task.
type loggedTask struct {
	events  []string
	started time.Time // the last task_started that steward did not write
	whole   bool      // started has whole seconds only
	before  time.Time // time of the reading before the one that set started
	seen    time.Time // when the log last named the task, or the task last had files
}

func newLog() logContent {
	return logContent{tasks: map[string]*loggedTask{}, lines: map[string]int{}, flaws: map[string]int{}}
}

// logEntry is one line of the log.
type logEntry struct {
	Event    string `json:"event_type" check:"required"`
	Task     string `json:"task_id"`
	Source   string `json:"source_agent" check:"required"`
	Target   string `json:"target_agent"`
	Message  string `json:"message" check:"required"`
	Metadata struct {
		By       string `json:"logged_by" check:"-"`
		Incident string `json:"incident" check:"-"` // that steward's escalation is about
	} `json:"metadata"`
	At time.Time `json:"timestamp" check:"required"`
}

// ours reports whether steward wrote the line, possibly in an agent's name.
func (e *logEntry) ours() bool { return e.Source == ourName || e.Metadata.By == ourName }

// take processes one line; nil stands for a line that is too long. An event type outside the list of protocol 000 is
// no finding: most lines in the field have one, and so do the protocol's own boot scripts.
func (l *logContent) take(line []byte, now time.Time) {
	text := bytes.TrimSpace(line)
	if line != nil && len(text) == 0 {
		return
	}
	o, err := jsonfile.Parse(text)
	if err != nil {
		l.bad++
		return
	}
	var e logEntry
	var issues folder.Findings
	issues.Read(o, &e)
	stated, _ := o.Stated("timestamp")
	for _, f := range issues {
		l.flaws[f.Field]++
	}
	if l.cut && l.begun < logTail/8 {
		l.begun += len(line)
		if at := stated.By(now); at.After(l.since) {
			l.since = at
		}
	}
	if e.Source != "" && !e.ours() {
		l.lines[e.Source]++
	}
	if i := e.Metadata.Incident; e.ours() && i != "" && !slices.Contains(l.incidents, i) {
		l.incidents = append(slices.Clip(l.incidents), i)
	}
	if e.Task == "" || e.Event == "" {
		return
	}
	t := l.tasks[e.Task]
	if t == nil {
		t = &loggedTask{}
		l.tasks[e.Task] = t
	}
	t.seen = now
	if !slices.Contains(t.events, e.Event) {
		t.events = append(slices.Clip(t.events), e.Event)
	}
	if e.Event == eventReturned {
		t.started = time.Time{}
	}
	if e.Event == "task_started" && !e.ours() && !stated.At.IsZero() {
		t.started = stated.By(now)
		if !l.at.IsZero() && !l.old {
			t.started = stated.Seen(now)
		}
		t.whole, t.before = t.started.Nanosecond() == 0, l.at
	}
}

// startedIn reports whether the log shows a start of the attempt that appeared at since. A start stamped in whole
// seconds, within the same second as since, may belong to an earlier attempt, if there was one (again). Such a line
// counts only if the reading before it took place at since or later.
func (t *loggedTask) startedIn(since time.Time, again bool) bool {
	switch {
	case t.started.IsZero():
		return false
	case !t.whole || t.started.Unix() != since.Unix():
		return !t.started.Before(since)
	}
	return !again || !t.before.IsZero() && !t.before.Before(since)
}

// loggedKept is how long a logged task without files is remembered: a client may log before it writes its files.
const loggedKept = 10 * time.Minute

// prune forgets logged tasks that have had no files for loggedKept. A task that is just being retried may have no files
// for a moment.
func (l *logContent) prune(now time.Time, tasks map[string]*entry) {
	for id, t := range l.tasks {
		switch {
		case tasks[id] != nil:
			t.seen = now
		case now.Sub(t.seen) > loggedKept:
			delete(l.tasks, id)
		}
	}
}

// restore remembers that a task that is listed again had its life events.
func (l *logContent) restore(id string, now time.Time) {
	t := l.tasks[id]
	if t == nil {
		t = &loggedTask{seen: now}
		l.tasks[id] = t
	}
	for _, event := range lifeEvents {
		if !slices.Contains(t.events, event) {
			t.events = append(slices.Clip(t.events), event)
		}
	}
}

// issues summarizes the log's flaws: one finding per field, whatever the number of lines.
func (l *logContent) issues() []protocol.Finding {
	var list []protocol.Finding
	if l.bad > 0 {
		list = append(list, protocol.Finding{Code: "log", Severity: protocol.Low, Text: fmt.Sprintf("%d lines are not JSON objects", l.bad)})
	}
	for _, field := range sortedKeys(l.flaws) {
		list = append(list, protocol.Finding{Code: "schema", Field: field, Severity: protocol.Info,
			Text: fmt.Sprintf("%s is missing or of another type in %d lines", field, l.flaws[field])})
	}
	return list
}

// names reports whether the log, as last read, has the event of a task.
func (l *logContent) names(task, event string) bool {
	t := l.tasks[task]
	return t != nil && slices.Contains(t.events, event)
}

// eventsOf lists the events of a task that the log has, or may have before the part that was read.
func (l *logContent) eventsOf(e *entry) (events []string) {
	if t := l.tasks[e.id]; t != nil {
		events = t.events
	}
	if !l.since.IsZero() && !e.born().After(l.since.Add(time.Second)) && !slices.Contains(events, eventCreated) {
		events = append(slices.Clip(events), eventCreated)
	}
	return events
}

// sharedLog reads and appends to the coordination log. Each reading takes only the lines appended since the last one.
type sharedLog struct {
	*statusFiles
	logContent
	reader    folder.Tail
	queue     []logLine       // steward's lines that are not written yet
	unwritten *protocol.Fault // why
}

// logTail bounds how much of an old log the first scan reads; earlier lines are history.
const logTail = 8 << 20

func (l *sharedLog) forget() {
	*l = sharedLog{statusFiles: l.statusFiles, logContent: newLog(), reader: folder.Tail{File: logFile, Max: maxFile, Last: logTail}}
}

// read reads the new lines. If the log was replaced, the line counts per agent stay as they were: old lines in a new
// file are no sign of life.
func (l *sharedLog) read() {
	var counts map[string]int
	err := l.reader.Read(l.Folder, func() {
		counts = l.lines
		at := l.at
		l.logContent = newLog()
		l.at, l.old = at, true
	}, func(line []byte, _ int64) {
		l.cut = l.reader.Cut()
		l.take(line, l.Now)
	})
	if counts != nil {
		l.lines = counts
	}
	if err == nil {
		l.at, l.old = l.Now, false
	}
}

// logLine is a log line as steward writes it (protocol 000, Coordination Log Schema).
type logLine struct {
	Timestamp string         `json:"timestamp"`
	EventType string         `json:"event_type"`
	TaskID    string         `json:"task_id,omitempty"`
	Source    string         `json:"source_agent"`
	Target    string         `json:"target_agent,omitempty"`
	Message   string         `json:"message"`
	Metadata  map[string]any `json:"metadata,omitempty"`
}

// write appends one line to the log. A line without a time happened now. It does not recreate a log that existed and is
// gone: a user or a client has removed it.
func (l *sharedLog) write(line logLine, opts ...jsonfile.Option) error {
	line.Timestamp = cmp.Or(line.Timestamp, jsonfile.FormatTime(l.Now))
	data, err := jsonfile.EncodeLine(line)
	if err != nil {
		return err
	}
	if l.reader.Seen() {
		opts = append(opts, jsonfile.Existing)
	}
	return l.Root.Append(logFile, data, opts...)
}

// say appends a client's own line. It ignores a failed write: a log that cannot be written must not stop a task.
func (l *sharedLog) say(event, task, source, target, message string) {
	_ = l.write(logLine{EventType: event, TaskID: task, Source: source, Target: target, Message: folder.Line(message, 500)})
}

// mostQueued is how many unwritten lines are kept.
const mostQueued = 200

// report queues a line about what steward itself caused; it is written after the change. The change stands whether or not
// the line can be written. An unwritten line is a Fault and is tried again with the next change and at each scan.
// See docs/decisions.md, "The shared log has words outside the protocol's enum".
func (l *sharedLog) report(event string, c protocol.Change) {
	line := logLine{Timestamp: jsonfile.FormatTime(l.Now), EventType: event, Source: ourName, Target: c.Agent, Message: c.Why,
		Metadata: map[string]any{"logged_by": ourName, "reason": string(c.Reason)}}
	if c.Subject.Kind == protocol.KindTask {
		line.TaskID = c.Subject.ID
	}
	l.queue = append(l.queue, line)
	l.queue = l.queue[max(0, len(l.queue)-mostQueued):]
}

// flush writes the queued lines, in order. It does not wait for the disk: what the lines tell is on disk already.
func (l *sharedLog) flush() {
	for len(l.queue) > 0 {
		err := l.write(l.queue[0], jsonfile.Volatile)
		if folder.Missing(err) {
			l.unwritten = nil // there is no log: keep the lines until it exists
			return
		} else if err != nil {
			l.unwritten = l.Fault(l.unwritten, logFile, err)
			return
		}
		l.queue = l.queue[1:]
	}
	l.queue, l.unwritten = nil, nil
}

// retry tries again to write the lines that a change could not write.
func (l *sharedLog) retry(ctx context.Context) {
	if len(l.queue) > 0 {
		_ = l.Guarded(ctx, func() error { l.flush(); return nil })
	}
}
