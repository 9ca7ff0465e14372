package decide

import (
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// ruling is what the rules say about one subject. A rule does not see the plan that is being made.
type ruling struct {
	changes    []protocol.Change
	waiting    []protocol.Change // what would be changed if steward were allowed to
	conditions []condition
	says       []Saying
	ends       []End
	wake       time.Time // the next decision comes at this moment at the latest
	rescan     time.Time // and the next scan of the project at this one
	changed    bool      // a change other than a log line is ordered: the first one counts
}

// condition is something that a human may have to hear of.
type condition struct {
	rules.Alert
	// words tell this condition from another one under the same key: both the words and the time since when it stands are
	// its occurrence.
	words string
	// dated adds the time since when it stands to the occurrence that the rule gives.
	dated bool
}

// change orders a change and reports whether it will be made: not while the project is being changed, nor where steward
// only observes, nor after an earlier rule's change of the same subject. A log line may stand beside another change.
func (r *ruling) change(s *protocol.Snapshot, why protocol.Cause, c protocol.Change) bool {
	if c.Cause = why; c.Reason == "" {
		c.Reason = why.Reason
	}
	isLog := c.Verb == protocol.VerbLog
	switch {
	case !mayChange(s):
		if !isLog { // also while the project is being scanned: what waits is offered to the user all the time
			r.waiting = append(r.waiting, c)
		}
		return false
	case s.Busy:
		return false
	case isLog:
	case r.changed:
		return false
	default:
		r.changed = true
	}
	r.changes = append(r.changes, c)
	return true
}

func (r *ruling) tell(a rules.Alert, n rules.Notice) {
	a.Notice = &n
	r.conditions = append(r.conditions, condition{Alert: a})
}

// wakeAt asks for a decision at that moment at the latest. What is due already is part of this decision; to ask for it
// again would spin.
func (r *ruling) wakeAt(at, now time.Time) {
	if at.After(now) && (r.wake.IsZero() || at.Before(r.wake)) {
		r.wake = at
	}
}

// rescanAt asks for a scan of the project at that moment at the latest. A moment that has come since the snapshot was taken
// counts as well: only another scan can tell what it brought.
func (r *ruling) rescanAt(at, now time.Time) {
	if at.IsZero() {
		return
	}
	r.wakeAt(at, now)
	if r.rescan.IsZero() || at.Before(r.rescan) {
		r.rescan = at
	}
}

// passed reports whether a deadline has passed, and asks for a decision when it will have. Right after a sleep none has: the
// agent slept, too. See docs/decisions.md, "A loss needs a scan after the deadline".
func (r *ruling) passed(e *env, deadline time.Time) bool {
	if e.now.Before(deadline) {
		r.wakeAt(deadline, e.now)
		return false
	}
	if e.resuming() {
		r.wakeAt(e.resumeUntil, e.now)
		return false
	}
	return true
}

// because is a cause whose sentence is that of its reason.
func because(reason protocol.Reason, facts protocol.Facts) protocol.Cause {
	return protocol.Cause{Reason: reason, Facts: facts}
}

// quote is a cause in the words of a file or of a rule.
func quote(reason protocol.Reason, text string) protocol.Cause {
	return protocol.Cause{Reason: reason, Phrase: protocol.PhraseQuote, Facts: protocol.Facts{Text: text}}
}

// phrase is a cause with a sentence of its own.
func phrase(reason protocol.Reason, p protocol.Phrase, facts protocol.Facts) protocol.Cause {
	return protocol.Cause{Reason: reason, Phrase: p, Facts: facts}
}

// KeyOf is the key of the incident that an alert belongs to.
func KeyOf(a rules.Alert) string {
	return rules.Key(a.Subject.Project, a.Subject.Protocol, a.Subject.ID, a.Agent, a.Kind, a.Code)
}

// occurrence distinguishes a condition from the same one at another time, and from another one at this time.
func occurrence(since time.Time, text string) string {
	return stamp(since) + " " + rules.Key("", "", "", "", "", text)
}

// stamp is a moment as part of an occurrence.
func stamp(t time.Time) string { return t.UTC().Format("20060102T150405.000Z") }

// The options that steward itself offers; status/words has their labels.
const (
	OptionRetry    = "retry"    // issue it again, whatever the rules say
	OptionComplete = "complete" // the work itself is done: what waits for it may begin
	OptionLeave    = "leave"    // leave it as it is
	OptionDone     = "done"     // the human has taken care of it
	OptionWait     = "wait"     // for the rules to take their course
	OptionGiveUp   = "give_up"  // end the tasks of a dead agent
	OptionRepair   = "repair"   // make the changes that wait for the human's word
	OptionEnd      = "end"      // the same, where they end processes
)

// options lists options by their ids.
func options(ids ...string) (list []rules.Option) {
	for _, id := range ids {
		list = append(list, rules.Option{ID: id, Dangerous: id == OptionGiveUp})
	}
	return list
}
