package mailbox

import (
	"context"

	"github.com/livhana/steward/protocol"
)

// Observe says what the files say now. Hints are not needed: a file that did not change costs one stat, and there are
// few.
func (p *Project) Observe(ctx context.Context, look protocol.Look) protocol.Snapshot {
	p.now, p.since = look.Now, look.Since
	p.lost.Begin(look.Now)
	p.patience.Begin(look.Now)
	s := protocol.Snapshot{At: look.Now}
	err := p.open()
	for _, t := range p.lost.Troubles() {
		s.Faults = append(s.Faults, protocol.Fault{Path: t.Path, Problem: t.Problem, Hint: t.Hint, Since: t.Since})
	}
	if err != nil {
		return s
	}
	p.mergeLate(ctx)
	p.look()
	p.countChildren()
	p.describe(&s)
	s.Again = p.patience.Again()
	return s
}

// look reads what there is and judges whether the orchestrator lives.
func (p *Project) look() {
	p.refresh()
	p.follow()
	b, file := p.statusBoard()
	p.watchChief(&b.Value, file, b.Stamp.ModTime())
}

// describe writes the snapshot.
func (p *Project) describe(s *protocol.Snapshot) {
	q, mail := &p.living().queue.Value, p.mail()
	b, boardFile := p.statusBoard()
	s.Yield = p.chief.yield()
	s.Agents = p.agents(&b.Value)

	left := lettersByTask(mail)
	keep := make(map[string]bool, len(left))
	for id := range left {
		keep[id] = true
	}
	for id, t := range p.history.tracks {
		if !t.changed.IsZero() && !t.changed.Before(p.since) {
			keep[id] = true
		}
	}
	shown := q.shown(p.since, keep)
	listed := make(map[string]bool, len(shown))
	s.Tasks = make([]protocol.Task, 0, len(shown))
	for _, r := range shown {
		listed[r.id] = true
		s.Tasks = append(s.Tasks, p.task(r, left))
	}
	p.history.prune(listed)
	s.Pleas = p.pleas(mail)
	s.Findings = p.findings(s.Tasks, shown, mail, &b.Value, boardFile)
	if p.living().queue.Good {
		s.Measures = p.measures(shown, mail)
	}
	for _, t := range p.patience.Troubles() {
		s.Faults = append(s.Faults, protocol.Fault{Path: shownPath(t.Path), Problem: t.Problem, Hint: t.Hint, Since: t.Since})
	}
	s.Faults = append(s.Faults, p.oddIDs(q.strange)...)
}
