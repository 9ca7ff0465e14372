package mailbox

import (
	"context"

	"github.com/livhana/steward/protocol"
)

// Observe returns what the files show now. It needs no hints: an unchanged file costs one stat, and there are few files.
func (p *Project) Observe(ctx context.Context, look protocol.Look) protocol.Snapshot {
	s, there := p.Look(ctx, look)
	if !there {
		return s
	}
	p.look()
	p.countChildren()
	p.describe(&s)
	s.Locate(Base)
	s.Again = p.Patience.Again()
	return s
}

// look reads all files and decides whether the orchestrator lives.
func (p *Project) look() {
	p.refresh()
	p.follow()
	b, file := p.statusBoard()
	p.watchChief(&b.Value, file, b.Stamp.ModTime())
	p.listen(&b.Value, b.Stamp.ModTime())
	p.looked = true
}

// describe fills the snapshot.
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
		if !t.changed.IsZero() && !t.changed.Before(p.Since) {
			keep[id] = true
		}
	}
	shown := q.shown(p.Since, keep)
	listed := make(map[string]bool, len(shown))
	s.Tasks = make([]protocol.Task, 0, len(shown))
	for _, r := range shown {
		listed[r.id] = true
		s.Tasks = append(s.Tasks, p.task(r, left))
	}
	p.history.prune(listed)
	s.Questions = p.pleas(mail)
	s.Findings = p.findings(s.Tasks, shown, mail, &b.Value, boardFile)
	if p.living().queue.Good {
		s.Measures = p.measures(shown, mail)
	}
	s.Faults = append(s.Faults, p.Faults()...)
	s.Faults = append(s.Faults, p.oddIDs(q.strange)...)
}
