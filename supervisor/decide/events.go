package decide

import (
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// The life events of a task in the shared log (protocol 000, Coordination Log Schema).
const (
	eventCreated   = "task_created"
	eventStarted   = "task_started"
	eventCompleted = "task_completed"
	eventFailed    = "task_failed"
	eventCalled    = "escalation"
)

// logCall enters an incident that the human is told of in the shared log, once per occurrence. The log itself shows
// which incidents it has, so a crash between the incident and its line neither loses nor doubles the line.
func (d *decision) logCall(a rules.Alert) {
	if a.Severity.Rank() < protocol.Medium.Rank() || a.Subject.Kind != protocol.KindTask && a.Subject.Kind != protocol.KindAgent {
		return
	}
	s, mark := d.looked[placeOf(a.Subject)], a.Key+" "+a.Occurrence
	if s == nil || !s.LogsCalls || slices.Contains(s.Called, mark) {
		return
	}
	d.change(s, protocol.Change{Verb: protocol.VerbLog, Subject: a.Subject, Reason: protocol.ReasonSeen, Event: eventCalled,
		Agent: a.Agent, Code: mark, Why: a.Summary})
}

// log writes the life events that the client has not logged by itself within LogAfter. What happened before
// the first look ever is not steward's to tell.
func (k *taskLook) log() {
	t := k.t
	if t.Ref.Path != "" {
		at := t.Appeared
		if at.IsZero() || k.mem.Run > 1 || t.Hold != nil || k.mem.FirstSeen.Before(at) {
			at = k.mem.FirstSeen
		}
		k.event(eventCreated, at, "Task created for ", t.Agent)
	}
	if !k.mem.Running.IsZero() && k.mem.Run == 1 {
		k.event(eventStarted, k.mem.Running, "Task started by ", t.Agent)
	}
	// A cancellation has its own line, and a status outside the protocol's list means nothing.
	if o := t.Outcome; o != nil && t.Hold == nil && !t.Cancelled && k.mem.Counted != "" {
		switch k.verdict.State {
		case protocol.TaskDone:
			k.event(eventCompleted, o.Appeared, "Task completed by ", o.Agent)
		case protocol.TaskFailed, protocol.TaskDead:
			k.event(eventFailed, o.Appeared, "", k.verdict.Why)
		}
	}
}

func (k *taskLook) event(event string, at time.Time, what, who string) {
	at = plain(at)
	if k.t.HasLogged(event) || !at.After(k.since) {
		return
	}
	due := at.Add(k.d.cfg.Tasks.LogAfter)
	if k.d.now.Before(due) {
		k.unsettled = true
		k.d.wake(due)
		return
	}
	k.change(protocol.Change{Verb: protocol.VerbLog, Reason: protocol.ReasonSeen, Event: event, Until: at, Why: what + who})
}
