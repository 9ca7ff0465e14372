package handoffs

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// eventLog reads the events log. Only new lines are read, once.
type eventLog struct {
	*source
	tail        folder.Tail
	bad         int
	newer, rest map[eventKey][]time.Time // the newest times per event and subject, in two generations
	last        map[string]string        // the newest of start, completion and error per agent
	took        times                    // the newest acceptance per agent
}

// eventKey identifies an event that happens once, or seldom: its name, and the task or agent that it is about.
type eventKey struct {
	name    string
	subject protocol.Subject
}

const (
	logTail   = 1 << 20 // how much of an existing log the first scan reads
	maxKeys   = 4096    // keys per generation
	keepTimes = 4       // times per key
)

func newEventLog(s *source) *eventLog {
	return &eventLog{source: s, tail: folder.Tail{File: logFile, Max: maxFile, Last: logTail}, newer: map[eventKey][]time.Time{},
		last: map[string]string{}, took: times{}}
}

// logLine is one line of the log (protocol 001, Agent Events Log).
type logLine struct {
	Event     string     `json:"event"`
	Agent     string     `json:"agent"`
	Timestamp string     `json:"timestamp"`
	Context   logContext `json:"context"`
}

type logContext struct {
	Workflow string `json:"workflow,omitzero"`
	Spec     string `json:"spec,omitzero"`
	Handoff  string `json:"handoff,omitzero"`
	Message  string `json:"message,omitzero"`
	LoggedBy string `json:"logged_by,omitzero"`
}

// read reads the new lines. Known events stay known when the log is replaced.
func (l *eventLog) read() {
	var written time.Time
	_ = l.tail.Read(l.Folder, func() { l.bad = 0 }, func(line []byte, _ int64) {
		if written.IsZero() {
			st, _ := l.Root.Stat(logFile)
			written = st.ModTime()
		}
		l.readLine(line, written)
	})
}

// readLine reads one line of a log that was last written at written; nil stands for a line that is too long. Clients use
// other key names than the document does.
func (l *eventLog) readLine(line []byte, written time.Time) {
	text := bytes.TrimSpace(line)
	if line != nil && len(text) == 0 {
		return
	}
	o, err := jsonfile.Parse(text)
	if err != nil {
		l.bad++
		return
	}
	context, _ := o.Object("context")
	event, agent := first(o, 60, "event", "event_type", "type"), first(o, 100, "agent", "agent_name", "source")
	handoff := cmp.Or(first(context, 200, "handoff", "handoff_id", "message_id", "id"), first(o, 200, "handoff", "handoff_id", "message_id"))
	stated := o.FirstStated("timestamp", "time", "ts", "at")
	at := stated.At
	if stated.Zoneless {
		at = stated.By(written)
	}
	ofAgent := event == eventStarted || event == eventCompleted
	if _, known := l.last[agent]; (ofAgent || event == eventError && handoff == "") && agent != "" && (known || len(l.last) < maxKeys) {
		l.last[agent] = event
	}
	if event == eventAccepted {
		l.took.advance(agent, at)
	}
	subject := protocol.Subject{Kind: protocol.KindAgent, ID: agent}
	if !ofAgent && handoff != "" {
		subject = protocol.Subject{Kind: protocol.KindTask, ID: handoff}
	}
	if event != "" && subject.ID != "" {
		l.record(eventKey{event, subject}, at)
	}
}

func (l *eventLog) record(key eventKey, at time.Time) {
	times := append(slices.Clip(l.timesOf(key)), at)
	if len(l.newer) >= maxKeys {
		l.rest, l.newer = l.newer, map[eventKey][]time.Time{}
	}
	l.newer[key] = times[max(0, len(times)-keepTimes):]
}

func (l *eventLog) timesOf(key eventKey) []time.Time {
	if times, ok := l.newer[key]; ok {
		return times
	}
	return l.rest[key]
}

// How far a client's own line may differ from the time that the files show.
const (
	sameMoment = 5 * time.Second
	sameEnd    = 30 * time.Second // between a completion message and the state file's status for it
)

// has reports whether the log contains the event, possibly in a client's own line.
func (l *eventLog) has(e *protocol.Event) bool {
	if e.Subject.Kind == protocol.KindTask {
		if times := l.timesOf(eventKey{e.Name, e.Subject}); len(times) > 0 {
			return e.Name != eventAccepted || !times[len(times)-1].Before(e.At.Add(-sameMoment))
		}
	}
	near := sameMoment
	if e.Name == eventCompleted {
		near = sameEnd
	}
	times := l.timesOf(eventKey{e.Name, protocol.Subject{Kind: protocol.KindAgent, ID: e.Agent}})
	return slices.ContainsFunc(times, func(at time.Time) bool { return at.Sub(e.At).Abs() <= near })
}
