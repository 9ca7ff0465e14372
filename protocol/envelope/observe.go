package envelope

import (
	"cmp"
	"context"
	"slices"

	"github.com/livhana/steward/protocol"
)

// Observe returns the current snapshot. With hints, it rereads only the hinted files and the new lines of the logs.
func (p *Project) Observe(ctx context.Context, look protocol.Look) protocol.Snapshot {
	first := p.Root == nil || !p.Root.Alive()
	s, there := p.Look(ctx, look)
	if !there {
		return s
	}
	if first {
		p.readAudit() // before the first messages, so that recorded messages are not copied again
	}
	if look.Full() || first || p.wide(look.Hints) {
		p.readFolder()
	} else {
		p.readHinted(look.Hints)
	}
	p.readLog()
	p.readAudit()
	p.looked = true
	p.settle()
	p.describe(&s)
	s.Locate("")
	s.Again = p.Patience.Again()
	return s
}

// maxEnded bounds the ended tasks of a snapshot; the newest are kept.
const maxEnded = 200

// listed returns the tasks of a snapshot, sorted by id: the live tasks and those that ended recently.
func (p *Project) listed() []*taskState {
	list := make([]*taskState, 0, len(p.live)+16)
	for _, t := range p.live {
		list = append(list, t)
	}
	for i := len(p.ended) - 1; i >= 0 && len(p.ended)-i <= maxEnded; i-- {
		t := p.ended[i]
		if !p.Since.IsZero() && !t.end.After(p.Since) {
			break
		}
		if p.live[t.id] == nil {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *taskState) int { return cmp.Compare(a.id, b.id) })
	return list
}

// describe fills in the snapshot.
func (p *Project) describe(s *protocol.Snapshot) {
	list := p.listed()
	s.Agents = agents(list)
	for _, t := range list {
		subject := protocol.Subject{Kind: protocol.KindTask, ID: t.id}
		if t.id == "" {
			subject = p.place()
		}
		if t.assigned != nil {
			s.Tasks = append(s.Tasks, p.task(t))
		}
		s.Questions = append(s.Questions, p.pleas(t)...)
		for _, i := range p.findings(t) {
			s.Findings = append(s.Findings, protocol.Finding{Subject: subject, Code: i.code, Field: i.field, Severity: i.severity, Text: i.text, Path: i.path,
				Call: i.code == codeUnacknowledged})
		}
	}
	s.Findings = append(s.Findings, p.refusalFindings(list)...)
	s.Findings = append(append(s.Findings, p.orderFindings(list)...), p.unreviewedFindings()...)
	s.Findings = append(append(s.Findings, p.uselessFindings()...), p.darkFindings()...)
	calls := p.callsOfTheDay()
	s.Findings = append(s.Findings, p.callFindings(calls)...)
	s.Faults = append(s.Faults, p.faults()...)
	s.Events = p.events()
	s.Measures = p.measures(calls)
}

// task returns a task's entry in the snapshot.
func (p *Project) task(t *taskState) protocol.Task {
	m, a := t.assigned, t.assigned.assignment
	k := protocol.Task{ID: t.id, Agent: clean(m.to, maxText), Source: clean(m.from, maxText), Type: lowerName(m.to), Title: a.title,
		Priority: a.priority, Timeout: protocol.NoTimeout, Created: m.at, Related: a.related, Foreign: true, Hold: p.holdOf(t),
		Visible: t.bare(), Named: t.named(), Awaits: t.awaits(), Block: p.block(t), Ref: protocol.Ref{Path: m.file, Sum: string(m.sum)}}
	if s := p.slotOf(m); s != nil {
		k.Ref.Sum, k.Appeared = string(s.reading.Sum), appeared(s.reading.Stamp)
	} else {
		k.Appeared = m.came()
	}
	if t.state != stateAssigned && !t.taken.IsZero() {
		k.Started = t.taken
	}
	if t.over() {
		k.Outcome = t.outcome()
	}
	return k
}

// named returns the evidence that the task is in hand; "" if there is none.
func (t *taskState) named() string {
	switch {
	case t.over():
		return ""
	case t.stuck:
		return "blocked"
	case t.state == stateAssigned:
		return ""
	}
	return string(t.state)
}

// awaits returns what a task in hand waits for beyond its agent's control.
func (t *taskState) awaits() string {
	switch {
	case t.over():
		return ""
	case t.stuck:
		return "its blocker to be resolved"
	case t.stopped:
		return "a new assignment: it was stopped"
	case t.state == stateReview:
		return "review by the orchestrator"
	}
	return ""
}

func (t *taskState) outcome() *protocol.Outcome {
	o := &protocol.Outcome{Status: "completed", At: t.end, Appeared: t.end, Agent: t.assigned.to}
	if t.done != nil {
		o.Summary, o.Ref = t.done.output.summary, protocol.Ref{Path: t.done.file, Sum: string(t.done.sum)}
		o.Agent = cmp.Or(t.done.from, o.Agent)
	}
	return o
}

func (p *Project) faults() []protocol.Fault {
	list := p.Faults()
	for _, more := range []map[string]protocol.Fault{p.shelf.refused, p.shelf.odd} {
		for _, file := range sortedKeys(more) {
			list = append(list, more[file])
		}
	}
	slices.SortStableFunc(list, func(a, b protocol.Fault) int { return cmp.Compare(a.Path, b.Path) })
	return append(list[:min(len(list), maxFaults)], p.journal.troubles()...)
}

// maxFaults bounds the Faults of a snapshot. The remaining ones appear once the first are repaired.
const maxFaults = 200
