package agentstatus

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

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

// write appends one line to the log.
func (p *Project) write(line logLine) error {
	data, err := jsonfile.EncodeLine(line)
	if err != nil {
		return err
	}
	return p.append(data, p.waits...)
}

// append adds a line to the log. It does not recreate a log that existed and is gone: a user or a client has removed
// it.
func (p *Project) append(line []byte, opts ...jsonfile.Option) error {
	if p.log.tail.Seen() {
		opts = append(slices.Clip(opts), jsonfile.Existing)
	}
	return p.Root.Append(logFile, line, opts...)
}

// logEvent appends an event of a task in the name of the agent that it is about, unless the log already has the
// event.
func (p *Project) logEvent(c protocol.Change) error {
	p.readLog()
	return p.logIfNew(c)
}

// logEvents is logEvent for a batch. It reads the log once, and only the last line waits for the disk; that wait
// covers the lines before.
func (p *Project) logEvents(list []protocol.Change) []error {
	p.readLog()
	errs := make([]error, len(list))
	p.waits = []jsonfile.Option{jsonfile.Volatile}
	for i, c := range list {
		if i == len(list)-1 {
			p.waits = nil
		}
		errs[i] = p.logIfNew(c)
	}
	p.waits = nil
	return errs
}

// logIfNew writes the line of an event, unless the log, as last read, has the event.
func (p *Project) logIfNew(c protocol.Change) error {
	if c.Event == eventCalled {
		return p.logCall(c)
	}
	if l := p.log.tasks[c.Subject.ID]; l != nil && slices.Contains(l.events, c.Event) {
		return nil
	}
	source, target, at := c.Agent, "", c.Until
	if e := p.tasks[c.Subject.ID]; e != nil {
		r, _ := e.asked()
		if target = r.source; c.Event == "task_created" {
			source, target = r.source, c.Agent
		}
	}
	if source == "" {
		source = ourName
	}
	if at.IsZero() {
		at = p.Now
	}
	return p.write(logLine{Timestamp: jsonfile.FormatTime(at), EventType: c.Event, TaskID: c.Subject.ID, Source: source, Target: target,
		Message: c.Why, Metadata: map[string]any{"logged_by": ourName}})
}

// The event types of protocol 000 for work that steward hands on and for incidents that steward reports to the
// operator.
const (
	eventCalled  = "escalation"
	eventHandoff = "handoff"
)

// logCall appends the line of an incident, unless the log already names the incident.
func (p *Project) logCall(c protocol.Change) error {
	if slices.Contains(p.log.calls, c.Code) {
		return nil
	}
	line := logLine{Timestamp: jsonfile.FormatTime(p.Now), EventType: c.Event, Source: ourName, Target: c.Agent, Message: c.Why,
		Metadata: map[string]any{"logged_by": ourName, "incident": c.Code}}
	if c.Subject.Kind == protocol.KindTask {
		line.TaskID = c.Subject.ID
	} else {
		line.Target = c.Subject.ID
	}
	return p.write(line)
}

// told logs what steward itself caused. The change stands whether or not the line could be written. An unwritten line
// is a Fault and is retried with the next line and with the scans. The newest 200 unwritten lines are kept.
func (p *Project) told(event string, c protocol.Change) {
	p.queueTold(event, c)
	if len(p.waits) == 0 { // else the batch writes all lines at its end
		p.tellAll()
	}
}

// queueTold queues a line for the next tellAll.
func (p *Project) queueTold(event string, c protocol.Change) {
	task := ""
	if c.Subject.Kind == protocol.KindTask {
		task = c.Subject.ID
	}
	line, err := jsonfile.EncodeLine(logLine{Timestamp: jsonfile.FormatTime(p.Now), EventType: event, TaskID: task, Source: ourName, Target: c.Agent, Message: c.Why,
		Metadata: map[string]any{"logged_by": ourName, "reason": string(c.Reason)}})
	if err != nil {
		p.log.unwritten = p.Fault(p.log.unwritten, logFile, err)
		return
	}
	p.log.untold = append(p.log.untold, line)
	if over := len(p.log.untold) - mostUntold; over > 0 {
		p.log.untold = slices.Delete(p.log.untold, 0, over)
	}
}

const (
	mostUntold  = 200
	untoldEvery = 5 * time.Second
)

// tellAll writes the queued lines, in order. Only the last line waits for the disk; that wait covers the lines
// before. After a failed write the line may be in the log nevertheless, so tellAll checks that first.
func (p *Project) tellAll() {
	for len(p.log.untold) > 0 {
		line := p.log.untold[0]
		if p.log.unwritten == nil || !p.logHolds(line) {
			var opts []jsonfile.Option
			if len(p.log.untold) > 1 {
				opts = append(opts, jsonfile.Volatile)
			}
			err := p.append(line, opts...)
			if folder.Missing(err) {
				p.log.unwritten, p.log.tellAt = nil, p.Now.Add(untoldEvery) // there is no log: keep the lines until it exists
				return
			}
			if err != nil {
				p.log.unwritten = p.Fault(p.log.unwritten, logFile, err)
				p.log.tellAt = p.Now.Add(untoldEvery)
				return
			}
		}
		p.log.untold = p.log.untold[1:]
	}
	p.log.untold, p.log.unwritten = nil, nil
}

// logHolds reports whether the end of the log contains the line.
func (p *Project) logHolds(line []byte) bool {
	const last = 64 << 10
	st, err := p.Root.Stat(logFile)
	if err != nil {
		return false
	}
	data, _, err := p.Root.ReadAt(logFile, max(0, st.Size-last), last)
	return err == nil && bytes.Contains(data, bytes.TrimSpace(line))
}

// retell tries again to write the queued lines. If some remain, it requests a scan for the next try.
func (p *Project) retell(ctx context.Context) {
	if len(p.log.untold) == 0 {
		return
	}
	if !p.Now.Before(p.log.tellAt) || p.log.tellAt.After(p.Now.Add(untoldEvery)) {
		_ = p.Guarded(ctx, func() error { p.tellAll(); return nil })
	}
	if len(p.log.untold) > 0 {
		p.Patience.RetryAt(p.log.tellAt)
	}
}
