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

// The events of protocol 001, Agent Events Log.
const (
	eventStarted   = "agent_started"
	eventCompleted = "agent_completed"
	eventCreated   = "handoff_created"
	eventAccepted  = "handoff_accepted"
	eventError     = "error_occurred"
	eventEscalated = "escalation_triggered"
)

// inOrder is the order of events with the same time.
var inOrder = []string{eventStarted, eventCreated, eventAccepted, eventEscalated, eventError, eventCompleted}

// record is the state of the events log. Only new lines are read, once.
type record struct {
	tail     folder.Tail
	bad      int
	cur, old map[string][]time.Time // the newest times per event and subject, in two generations
	last     map[string]string      // the newest of start, completion and error per agent
	took     map[string]time.Time   // the newest acceptance per agent
}

const (
	logTail   = 1 << 20 // how much of an existing log the first scan reads
	maxTold   = 4096    // keys per generation
	keepTimes = 4       // times per key
)

func newRecord() record {
	return record{tail: folder.Tail{File: logFile, Max: maxFile, Last: logTail}, cur: map[string][]time.Time{},
		last: map[string]string{}, took: map[string]time.Time{}}
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

// told is one line of the log.
type told struct {
	event, agent, handoff string
	at                    time.Time
}

// decodeLine reads a line. Clients use other key names than the document does. A missing value is "".
func decodeLine(o jsonfile.Object, written time.Time) told {
	context, _ := o.Object("context")
	t := told{event: first(o, 60, "event", "event_type", "type"), agent: first(o, 100, "agent", "agent_name", "source")}
	t.handoff = cmp.Or(first(context, 200, "handoff", "handoff_id", "message_id", "id"), first(o, 200, "handoff", "handoff_id", "message_id"))
	at := o.FirstStated("timestamp", "time", "ts", "at")
	if t.at = at.At; at.Zoneless {
		t.at = at.By(written)
	}
	return t
}

// readLog reads the new lines. Known events stay known when the log is replaced.
func (p *Project) readLog() {
	l := &p.log
	var written time.Time
	_ = l.tail.Read(p.Folder, func() { l.bad = 0 }, func(line []byte, _ int64) {
		if written.IsZero() {
			st, _ := p.Root.Stat(logFile)
			written = st.ModTime()
		}
		l.take(line, written)
	})
}

// take reads one line of a log that was last written at written; nil stands for a line that is too long.
func (l *record) take(line []byte, written time.Time) {
	text := bytes.TrimSpace(line)
	if line != nil && len(text) == 0 {
		return
	}
	o, err := jsonfile.Parse(text)
	if err != nil {
		l.bad++
		return
	}
	t := decodeLine(o, written)
	if t.event == "" {
		return
	}
	switch t.event {
	case eventStarted, eventCompleted:
		l.note(t.event, "agent", t.agent, t.at)
		l.turn(t)
	default:
		if t.event == eventAccepted {
			advance(l.took, t.agent, t.at)
		}
		if t.event == eventError && t.handoff == "" {
			l.turn(t)
		}
		if t.handoff != "" {
			l.note(t.event, "task", t.handoff, t.at)
		} else {
			l.note(t.event, "agent", t.agent, t.at)
		}
	}
}

// turn records an agent's latest start, completion or error.
func (l *record) turn(t told) {
	if _, known := l.last[t.agent]; t.agent != "" && (known || len(l.last) < maxTold) {
		l.last[t.agent] = t.event
	}
}

func keyOf(event, kind, id string) string { return event + "\x00" + kind + "\x00" + id }

func (l *record) note(event, kind, id string, at time.Time) {
	if id == "" {
		return
	}
	key := keyOf(event, kind, id)
	times := append(slices.Clip(l.times(event, kind, id)), at)
	if len(l.cur) >= maxTold {
		l.old, l.cur = l.cur, map[string][]time.Time{}
	}
	l.cur[key] = times[max(0, len(times)-keepTimes):]
}

func (l *record) times(event, kind, id string) []time.Time {
	key := keyOf(event, kind, id)
	if times, ok := l.cur[key]; ok {
		return times
	}
	return l.old[key]
}

// How far a client's own line may differ from the time that the files show.
const (
	sameMoment = 5 * time.Second
	sameEnd    = 30 * time.Second // between a completion message and the state file's status for it
)

// has reports whether the log contains the event, possibly in a client's own line.
func (l *record) has(e *protocol.Event) bool {
	about := string(e.Subject.Kind)
	if e.Subject.Kind == protocol.KindTask {
		if times := l.times(e.Name, about, e.Subject.ID); len(times) > 0 {
			return e.Name != eventAccepted || !times[len(times)-1].Before(e.At.Add(-sameMoment))
		}
	}
	near := sameMoment
	if e.Name == eventCompleted {
		near = sameEnd
	}
	return slices.ContainsFunc(l.times(e.Name, "agent", e.Agent), func(at time.Time) bool { return at.Sub(e.At).Abs() <= near })
}

// logEvent appends an event in the name of its agent, unless the log already contains it.
func (p *Project) logEvent(c protocol.Change) error {
	switch c.Event {
	case eventStarted, eventCompleted, eventCreated, eventAccepted, eventError, eventEscalated:
	default:
		return folder.Moved("%q is none of the protocol's events", folder.Line(c.Event, 40))
	}
	at := c.Until
	if at.IsZero() {
		at = p.Now
	}
	p.readLog()
	if p.log.has(&protocol.Event{Subject: c.Subject, Name: c.Event, Agent: c.Agent, At: at}) {
		return nil
	}
	line := logLine{Event: c.Event, Agent: c.Agent, Timestamp: jsonfile.FormatTime(at), Context: p.contextOf(c)}
	data, err := jsonfile.EncodeLine(line)
	if err != nil {
		return err
	}
	if p.log.tail.Seen() { // do not recreate a log that was removed
		return p.Root.Append(logFile, data, jsonfile.Existing)
	}
	return p.Root.Append(logFile, data)
}

// contextOf returns the workflow, spec and handoff that an event is about: from the message, else from the state file.
func (p *Project) contextOf(c protocol.Change) logContext {
	k := logContext{LoggedBy: "steward"}
	if c.Event == eventError || c.Event == eventEscalated {
		k.Message = folder.Line(c.Why, maxText)
	}
	if c.Subject.Kind == protocol.KindTask {
		k.Handoff = c.Subject.ID
		if _, _, ok := placeOf(c.Ref.Path); ok {
			if o, _, err := p.Root.Load(c.Ref.Path, maxFile); err == nil {
				m := decodeMessage(o, c.Ref.Path)
				k.Workflow, k.Spec = m.workflow, m.spec
				return k
			}
		}
	}
	p.readState()
	if s, ok := p.theState(); ok {
		k.Workflow, k.Spec = cmp.Or(s.workflow.kind, s.workflow.id), s.workflow.spec
	}
	return k
}
