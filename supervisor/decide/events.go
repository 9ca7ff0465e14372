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

// logEvents orders the life events that the client has not logged itself within LogAfter. Events before the first scan ever
// are not logged. See docs/decisions.md, "Lines of the shared log (000) stand in the order of writing".
func logEvents(c *taskCase, r *taskRuling) {
	t, m := c.t, &r.next
	if t.Ref.Path != "" {
		at := t.Appeared
		if at.IsZero() || m.Run > 1 || t.Hold != nil || m.FirstSeen.Before(at) {
			at = m.FirstSeen
		}
		logEvent(c, r, eventCreated, at, phrase("", protocol.PhraseTaskCreated, protocol.Facts{Agent: t.Agent}))
	}
	if !m.Running.IsZero() && m.Run == 1 {
		logEvent(c, r, eventStarted, m.Running, phrase("", protocol.PhraseTaskStarted, protocol.Facts{Agent: t.Agent}))
	}
	// A cancellation has its own line, and a status outside the protocol's list means nothing.
	if o := t.Outcome; o != nil && t.Hold == nil && !t.Cancelled && m.Counted != "" {
		switch r.verdict.State {
		case protocol.TaskDone:
			logEvent(c, r, eventCompleted, o.Appeared, phrase("", protocol.PhraseTaskCompleted, protocol.Facts{Agent: o.Agent}))
		case protocol.TaskFailed, protocol.TaskDead:
			logEvent(c, r, eventFailed, o.Appeared, r.verdict.Cause)
		}
	}
}

func logEvent(c *taskCase, r *taskRuling, event string, at time.Time, why protocol.Cause) {
	at = plain(at)
	if c.t.HasLogged(event) || !at.After(c.since) || !c.s.LogSince.IsZero() && !at.After(plain(c.s.LogSince).Add(time.Second)) {
		return // the part of the log that was not read may have the line
	}
	due := at.Add(c.cfg.Tasks.LogAfter)
	if c.now.Before(due) {
		r.unsettled = true
		r.wakeAt(due, c.now)
		return
	}
	r.order(c, why, protocol.Change{Verb: protocol.VerbLog, Reason: protocol.ReasonSeen, Entry: protocol.Entry{Event: event}, Until: at})
}
