package decide

import (
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// ruling is what the rules say about one subject. A rule does not see the plan that is being made: merge enters its ruling
// there.
type ruling struct {
	changes    []protocol.Change
	waiting    []protocol.Change // what would be changed if steward were allowed to
	conditions []condition
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
func (r *ruling) change(s *protocol.Snapshot, c protocol.Change) bool {
	isLog := c.Verb == protocol.VerbLog
	switch {
	case s.Busy:
		return false
	case !mayChange(s):
		if !isLog {
			r.waiting = append(r.waiting, c)
		}
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

func (r *ruling) tell(c condition) { r.conditions = append(r.conditions, c) }

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

// merge enters a ruling about a subject of the snapshot in the plan. The ruling is empty after that; another change of the
// subject is still refused.
func (d *decision) merge(s *protocol.Snapshot, r *ruling) {
	for _, c := range r.conditions {
		d.tell(c)
	}
	for _, c := range r.changes {
		d.order(c)
	}
	d.plan.Waiting = append(d.plan.Waiting, r.waiting...)
	d.plan.Ends = append(d.plan.Ends, r.ends...)
	d.wakeAt(r.wake)
	d.rescanAt(s.Project, r.rescan)
	*r = ruling{changed: r.changed}
}

// order adds a change to the plan, unless an earlier one has the same subject.
func (d *decision) order(c protocol.Change) {
	if c.Verb != protocol.VerbLog {
		if d.taken[c.Subject] {
			return
		}
		d.taken[c.Subject] = true
	}
	d.plan.Changes = append(d.plan.Changes, c)
}

// wakeAt asks for the next decision at that moment at the latest.
func (d *decision) wakeAt(at time.Time) {
	if at.After(d.now) && (d.plan.Wake.IsZero() || at.Before(d.plan.Wake)) {
		d.plan.Wake = at
	}
}

// rescanAt asks for a scan of a project at that moment at the latest.
func (d *decision) rescanAt(project string, at time.Time) {
	if at.IsZero() {
		return
	}
	d.wakeAt(at)
	if known, ok := d.plan.Looks[project]; ok && !at.Before(known) {
		return
	}
	if d.plan.Looks == nil {
		d.plan.Looks = map[string]time.Time{}
	}
	d.plan.Looks[project] = at
}

// tell adds a condition's alert to the plan unless the incident shows the same already. A condition without an occurrence
// of its own has the time since when it stands: what a human has settled is settled for this time only.
func (d *decision) tell(c condition) {
	a := c.Alert
	if a.Key == "" {
		a.Key = KeyOf(a)
	}
	a.Summary = Clip(a.Summary, MaxSummary)
	switch {
	case c.words != "":
		a.Occurrence = occurrence(d.stands(a, time.Time{}).Since, c.words)
	case c.dated:
		a.Occurrence += " " + stamp(d.stands(a, time.Time{}).Since)
	}
	if d.present[a.Key] {
		return
	}
	d.present[a.Key] = true
	if a.Occurrence == "" {
		a.Occurrence = stamp(d.stands(a, time.Time{}).Since)
	}
	d.logIncident(a)
	if head, known := d.view.Incidents[a.Key]; known && head.Has(a) {
		return
	}
	d.plan.Alerts = append(d.plan.Alerts, a)
}

// logIncident enters an incident in the shared log, once per occurrence. The log itself shows which incidents it has, so
// that a crash between the incident and its line neither loses nor doubles the line.
func (d *decision) logIncident(a rules.Alert) {
	if a.Severity.Rank() < protocol.Medium.Rank() || a.Subject.Kind != protocol.KindTask && a.Subject.Kind != protocol.KindAgent {
		return
	}
	s, mark := d.snapshotOf(a.Subject), a.Key+" "+a.Occurrence
	if s == nil || !s.LogsCalls || slices.Contains(s.Called, mark) || s.Busy || !mayChange(s) {
		return
	}
	d.order(protocol.Change{Verb: protocol.VerbLog, Subject: a.Subject, Reason: protocol.ReasonSeen, Entry: protocol.Entry{Event: eventCalled, Code: mark},
		Agent: a.Agent, Why: a.Summary})
}
