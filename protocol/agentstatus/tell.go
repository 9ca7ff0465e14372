package agentstatus

import (
	"slices"

	"github.com/livhana/steward/protocol"
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
	if err := p.Root.MkdirAll(sharedDir, 0o755); err != nil {
		return err
	}
	return p.Root.Append(logFile, data)
}

// logEvent appends a task's life event in the name of the agent it speaks of, unless the log has it by now.
func (p *Project) logEvent(c protocol.Change) error {
	p.readLog()
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

// told logs what steward itself caused. The change stands whether or not the line could be written; that it could
// not is a Fault until the next line can.
func (p *Project) told(event string, c protocol.Change) {
	task := ""
	if c.Subject.Kind == protocol.KindTask {
		task = c.Subject.ID
	}
	err := p.write(logLine{Timestamp: jsonfile.FormatTime(p.Now), EventType: event, TaskID: task, Source: ourName, Target: c.Agent, Message: c.Why,
		Metadata: map[string]any{"logged_by": ourName, "reason": string(c.Reason)}})
	if err == nil {
		p.log.unwritten = nil
		return
	}
	p.log.unwritten = p.Fault(p.log.unwritten, logFile, err)
}
