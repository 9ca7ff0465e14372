package decide

import (
	"time"

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

// log writes the life events that the client has not logged by itself within LogAfter. What happened before
// the first look ever is not steward's to tell.
func (k *taskJudge) log() {
	t := k.t
	if t.Ref.Path != "" {
		at := t.Appeared
		if at.IsZero() || k.next.Run > 1 || t.Hold != nil || k.next.FirstSeen.Before(at) {
			at = k.next.FirstSeen
		}
		k.event(eventCreated, at, "Task created for ", t.Agent)
	}
	if !k.next.Running.IsZero() && k.next.Run == 1 {
		k.event(eventStarted, k.next.Running, "Task started by ", t.Agent)
	}
	// A cancellation has its own line, and a status outside the protocol's list means nothing.
	if o := t.Outcome; o != nil && t.Hold == nil && !t.Cancelled && k.next.Counted != "" {
		switch k.verdict.State {
		case protocol.TaskDone:
			k.event(eventCompleted, o.Appeared, "Task completed by ", o.Agent)
		case protocol.TaskFailed, protocol.TaskDead:
			k.event(eventFailed, o.Appeared, "", k.verdict.Why)
		}
	}
}

func (k *taskJudge) event(event string, at time.Time, what, who string) {
	at = plain(at)
	if k.t.HasLogged(event) || !at.After(k.since) {
		return
	}
	due := at.Add(k.env.cfg.Tasks.LogAfter)
	if k.env.now.Before(due) {
		k.unsettled = true
		k.wake(due)
		return
	}
	k.change(protocol.Change{Verb: protocol.VerbLog, Reason: protocol.ReasonSeen, Event: event, Until: at, Why: what + who})
}
