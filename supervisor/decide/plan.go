package decide

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// planner puts rulings into a plan: one change for each subject, one alert for each key, the earliest moment to decide again.
type planner struct {
	*env
	plan    Plan
	taken   map[protocol.Subject]bool // subjects that a change is ordered for
	present map[string]bool           // keys of the conditions that hold now
	// conditions are told when all of them are known: a repair that waits is an option of the condition that it ends.
	conditions []condition
	// reissued: an overdue retry is issued by this decision.
	reissued bool
}

func newPlanner(e *env) *planner {
	p := &planner{env: e, taken: map[protocol.Subject]bool{}, present: map[string]bool{}}
	p.plan.Memory = carryOver(e)
	p.plan.Agents = BookOf(map[protocol.Subject]heartbeat.Verdict{})
	p.plan.Locks = BookOf(map[protocol.Subject]heartbeat.LockVerdict{})
	p.plan.Tasks = Book[TaskVerdict]{values: map[protocol.Subject]TaskVerdict{}, settled: map[snapshotSource]*settled{},
		of: func(*TaskMemory) TaskVerdict { return completedVerdict }}
	p.plan.Memory.Tasks.of = func(m *TaskMemory) TaskMemory { return *m }
	return p
}

// merge enters a ruling about a subject of the project in the plan.
func (p *planner) merge(project string, r *ruling) {
	p.conditions, p.plan.Says = append(p.conditions, r.conditions...), append(p.plan.Says, r.says...)
	for _, c := range r.changes {
		p.order(c)
	}
	p.plan.Waiting = append(p.plan.Waiting, r.waiting...)
	p.plan.Ends = append(p.plan.Ends, r.ends...)
	if at := r.wake; at.After(p.now) && (p.plan.Wake.IsZero() || at.Before(p.plan.Wake)) {
		p.plan.Wake = at
	}
	if at := r.rescan; !at.IsZero() {
		if known, ok := p.plan.Looks[project]; ok && !at.Before(known) {
			return
		}
		if p.plan.Looks == nil {
			p.plan.Looks = map[string]time.Time{}
		}
		p.plan.Looks[project] = at
	}
}

// enterTask enters a task that was judged.
func (p *planner) enterTask(k *judgedTask) {
	p.merge(k.s.Project, &k.ruling)
	k.ruling = ruling{changed: k.changed} // another change of it is still refused
	p.plan.Memory.Tasks.values[k.subject], p.plan.Tasks.values[k.subject] = k.next, k.verdict
	p.plan.Open = p.plan.Open || k.verdict.State.Open()
}

// pay enters in a project's memory what a task adds to its tally and takes from its budget.
func (p *planner) pay(k *judgedTask) {
	if !k.spends && k.tally == (Tally{}) {
		return
	}
	m := p.plan.Memory.Projects[k.s.Project]
	if k.spends {
		m.Retries = append(recent(m.Retries, p.now), p.now)
	}
	m.Tally = m.Tally.plus(k.tally)
	p.plan.Memory.Projects[k.s.Project] = m
}

// order adds a change to the plan, unless an earlier one has the same subject.
func (p *planner) order(c protocol.Change) {
	if c.Verb != protocol.VerbLog {
		if p.taken[c.Subject] {
			return
		}
		p.taken[c.Subject] = true
	}
	p.plan.Changes = append(p.plan.Changes, c)
}

// tell adds a condition's alert to the plan unless the incident shows the same already. A condition without an occurrence
// of its own has the time since when it stands: what a human has settled is settled for this time only.
func (p *planner) tell(c condition) {
	a := c.Alert
	if a.Key == "" {
		a.Key = KeyOf(a)
	}
	switch {
	case c.words != "":
		a.Occurrence = occurrence(p.stands(a), c.words)
	case c.dated:
		a.Occurrence += " " + stamp(p.stands(a))
	}
	if p.present[a.Key] {
		return
	}
	p.present[a.Key] = true
	if a.Occurrence == "" {
		a.Occurrence = stamp(p.stands(a))
	}
	p.offer(&a)
	p.logIncident(a)
	if head, known := p.view.Incidents[a.Key]; known && head.Has(a) {
		return
	}
	p.plan.Alerts = append(p.plan.Alerts, a)
}

// stands records that the condition behind the alert holds, and gives since when.
func (p *planner) stands(a rules.Alert) time.Time {
	s := standing(p.env, a.Key, a.Subject, time.Time{})
	p.plan.Memory.Standing[a.Key] = s
	return s.Since
}

// logIncident enters an incident in the shared log, once per occurrence. The log itself shows which incidents it has, so
// that a crash between the incident and its line neither loses nor doubles the line.
func (p *planner) logIncident(a rules.Alert) {
	if a.Severity.Rank() < protocol.Medium.Rank() || a.Subject.Kind != protocol.KindTask && a.Subject.Kind != protocol.KindAgent {
		return
	}
	s, mark := p.snapshotOf(a.Subject), a.Key+" "+a.Occurrence
	if s == nil || !s.LogsCalls || slices.Contains(s.Called, mark) || s.Busy || !mayChange(s) {
		return
	}
	p.order(protocol.Change{Verb: protocol.VerbLog, Subject: a.Subject, Reason: protocol.ReasonSeen, Entry: protocol.Entry{Event: eventCalled, Code: mark},
		Agent: a.Agent})
	if p.plan.Logged == nil {
		p.plan.Logged = map[string]rules.Alert{}
	}
	p.plan.Logged[mark] = a
}

// resolveIncidents resolves incidents that the files no longer show: conditions when they are absent, events when their task
// has moved on. Incidents of projects that were not scanned stay as they are.
func (p *planner) resolveIncidents() {
	for key, head := range p.view.Incidents {
		if head.State == rules.Resolved || head.Foreign || p.present[key] {
			continue
		}
		if over := p.over(head); over.Phrase != "" {
			p.plan.Alerts = append(p.plan.Alerts, rules.Alert{Key: key, Subject: head.Subject, Severity: head.Severity, Resolve: true, Notice: &over})
		} else if s, known := p.last.Standing[key]; known { // it cannot be judged at this scan
			p.plan.Memory.Standing[key] = s
		}
	}
}

// over says why an incident is over; the phrase is "" while it is not.
func (p *planner) over(head rules.Head) (n rules.Notice) {
	subject := head.Subject
	s := p.snapshotOf(subject)
	switch {
	case head.Lasting:
		n.Phrase = p.movedOn(subject)
		return n
	case subject.Kind == protocol.KindProject:
		if p.scanned(subject.Project) {
			n.Phrase = protocol.PhraseNoLongerSo
		}
		return n
	case s == nil && (subject.Kind != protocol.KindMachine || subject.Project != ""):
		return n
	}
	n.Phrase = protocol.PhraseNoLongerSo
	if v, ok := p.plan.Agents.Find(subject); ok {
		n.Phrase, n.Agent, n.Name = protocol.PhraseAgentIs, subject.ID, string(v.State)
	} else if _, ok := p.plan.Tasks.Find(subject); !ok && s != nil && len(s.Faults) > 0 {
		n.Phrase = "" // the file that would show it may be the unreadable one
	}
	return n
}

// movedOn says why an event about a task no longer needs the user.
func (p *planner) movedOn(subject protocol.Subject) protocol.Phrase {
	v, ok := p.plan.Tasks.Find(subject)
	switch {
	case !ok: // the task is no longer listed, and the user has not settled the incident
	case p.cancelled(subject):
		return protocol.PhraseTaskCancelled
	case v.State == protocol.TaskDone:
		return protocol.PhraseNowCompleted
	case v.State == protocol.TaskRunning || v.State == protocol.TaskPending:
		return protocol.PhraseIssuedAgain
	}
	return ""
}

func (p *planner) cancelled(subject protocol.Subject) bool {
	if s := p.snapshotOf(subject); s != nil {
		for t := range unsettled(s) {
			if t.ID == subject.ID && t.Cancelled {
				return true
			}
		}
	}
	return false
}

// done is the plan in a fixed order.
func (p *planner) done() Plan {
	slices.SortStableFunc(p.plan.Changes, func(a, b protocol.Change) int {
		return cmp.Or(cmp.Compare(a.Subject.Project, b.Subject.Project), cmp.Compare(rank(a.Verb), rank(b.Verb)))
	})
	slices.SortFunc(p.plan.Alerts, func(a, b rules.Alert) int {
		return cmp.Or(-cmp.Compare(a.Severity.Rank(), b.Severity.Rank()), strings.Compare(a.Key, b.Key))
	})
	if len(p.plan.Memory.Standing) == 0 {
		p.plan.Memory.Standing = nil
	}
	return p.plan
}

// rank orders the changes of one plan: reap, expire, retry, admit. Log lines come last.
func rank(v protocol.Verb) int {
	return slices.Index([]protocol.Verb{protocol.VerbMark, protocol.VerbConclude, protocol.VerbReap, protocol.VerbUnlock, protocol.VerbRequeue, protocol.VerbFile,
		protocol.VerbCancel, protocol.VerbRetry, protocol.VerbBury, protocol.VerbHold, protocol.VerbRelease, protocol.VerbRenew,
		protocol.VerbRecord, protocol.VerbLog}, v)
}
