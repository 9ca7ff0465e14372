package supervisor

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"github.com/livhana/steward/protocol"
)

// pause has a project (or all) only observed until it is resumed; what is held there is let go first.
func (s *Supervisor) pause(q protocol.Query, pause bool, why string) error {
	projects := maps.Clone(s.memory.Projects) // the Picture shares the old one
	if projects == nil {
		projects = map[string]ProjectMemory{}
	}
	wanted := cmp.Or(q.ID, q.Project)
	found := false
	for _, name := range s.names() {
		if wanted != "" && wanted != name {
			continue
		}
		found = true
		p := projects[name]
		p.Paused = ""
		if pause {
			p.Paused = cmp.Or(why, "the operator paused it")
		}
		projects[name] = p
	}
	if !found {
		return fmt.Errorf("project %q: %w", wanted, ErrNoSubject)
	}
	old := s.memory.Projects
	s.memory.Projects = projects
	if err := s.save(); err != nil {
		s.memory.Projects = old
		return fmt.Errorf("save the pause: %w", err)
	}
	for _, d := range s.desks {
		if !d.busy {
			d.changes = append(d.changes, s.failOpen(d, nil, s.now())...)
		}
		d.full = true
	}
	s.decide()
	return nil
}

// toPublish is the capacity document, when it is time to write it to this project again.
func (s *Supervisor) toPublish(d *desk, now time.Time) []byte {
	if now.Sub(d.published) < publishEvery || s.plan.Agents.Len() == 0 {
		return nil
	}
	d.published = now
	return s.document()
}

// publishEvery is how old capacity.json may become while agents are registered.
const publishEvery = 4 * time.Second
