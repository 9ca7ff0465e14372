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

// logLine is a line as steward writes it (protocol 000, Coordination Log Schema).
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

// append adds a line to the log. A log that was there and is gone is not made anew: somebody has removed it.
func (p *Project) append(line []byte, opts ...jsonfile.Option) error {
	if p.log.tail.Seen() {
		opts = append(slices.Clip(opts), jsonfile.Existing)
	}
	return p.Root.Append(logFile, line, opts...)
}

// logEvent appends a task's life event in the name of the agent it speaks of, unless the log has it by now.
func (p *Project) logEvent(c protocol.Change) error {
	p.readLog()
	return p.logIfNew(c)
}

// logEvents is logEvent for many: the log is read once, and the last line waits for the disk, and with it those before.
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

// logIfNew writes the line of an event that the log, as it was read, does not have.
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

// The document's event types for the work that steward hands on and for the incidents that it tells the human of.
const (
	eventCalled  = "escalation"
	eventHandoff = "handoff"
)

// logCall appends the line of an incident, unless the log names it by now.
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

// told logs what steward itself caused. The change stands whether or not the line could be written. One that could not
// is a Fault until it is: it is tried again with the next line, and with the looks. The newest 200 of them are kept.
func (p *Project) told(event string, c protocol.Change) {
	p.queueTold(event, c)
	if len(p.waits) == 0 { // else the end of the batch tells all of them
		p.tellAll()
	}
}

// queueTold keeps a line for the next tellAll.
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

// tellAll writes what is not told yet, in order; the last line waits for the disk, and with it those before. Where a
// write failed at its very end the line may be there.
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
				p.log.unwritten, p.log.tellAt = nil, p.Now.Add(untoldEvery) // there is no log: the lines wait for one
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

// logHolds reports whether one of the last lines of the log is that one.
func (p *Project) logHolds(line []byte) bool {
	const last = 64 << 10
	st, err := p.Root.Stat(logFile)
	if err != nil {
		return false
	}
	data, _, err := p.Root.ReadAt(logFile, max(0, st.Size-last), last)
	return err == nil && bytes.Contains(data, bytes.TrimSpace(line))
}

// retell tries again to write what could not be told. It asks for the look in which it does.
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
