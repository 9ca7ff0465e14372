package agentstatus

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// mark writes an agent's state into the registry. It changes the agent's status and last_seen and the registry's
// updated_at, and not one byte more.
func (p *Project) mark(c protocol.Change) error {
	stamp := jsonfile.FormatTime(p.Now)
	sets := []jsonfile.Set{{Path: []string{"agents", c.Subject.ID, "status"}, Value: c.Status}, {Path: []string{"updated_at"}, Value: stamp}}
	seen := c.Seen
	if c.Reason == protocol.ReasonBeats || c.Reason == protocol.ReasonError {
		seen = p.Now // the agent is alive
	}
	wrote, err := p.editRegistry(func(o jsonfile.Object) ([]jsonfile.Set, error) {
		m, ok := decodeRoll(o).agents[c.Subject.ID]
		switch {
		case !ok:
			return nil, folder.Moved("the registry does not list %s", c.Subject.ID)
		case m.status == c.Status:
			return nil, nil
		case m.status != c.Ref.Sum:
			return nil, folder.Moved("the registry says %q of %s now", folder.Line(m.status, 40), c.Subject.ID)
		}
		if seen.Truncate(time.Second).After(m.seen) {
			return append(slices.Clip(sets), jsonfile.Set{Path: []string{"agents", c.Subject.ID, "last_seen"}, Value: jsonfile.FormatTime(seen)}), nil
		}
		return sets, nil
	})
	if err != nil || !wrote {
		return err
	}
	event := "agent_" + c.Status
	switch c.Reason {
	case protocol.ReasonBeats:
		event = "agent_recovered"
	case protocol.ReasonSilent, protocol.ReasonGone:
		event = "agent_dead"
	}
	p.told(event, c)
	return nil
}

// editRegistry applies the edits that judge derives from the registry's present content, and reports whether there
// was anything to change. It applies the same edits again to a late write of a client.
func (p *Project) editRegistry(judge folder.Judge) (wrote bool, err error) {
	var sets []jsonfile.Set
	return p.Edit(folder.Edit{File: registry, Max: maxFile, Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) {
		sets, err = judge(o)
		return sets, err
	}, Again: func(jsonfile.Object) ([]jsonfile.Set, error) { return sets, nil }, Merge: changedAgents})
}

// changedAgents lists the agents that a client changed and no other writer has changed since. Nothing more is merged
// into a registry that others have written.
func changedAgents(base, theirs, present jsonfile.Object) []jsonfile.Set {
	before, _ := base.Object("agents")
	after, _ := theirs.Object("agents")
	now, _ := present.Object("agents")
	var sets []jsonfile.Set
	for _, name := range after.Keys() {
		value, was := after.Get(name), string(before.Get(name).Raw())
		if string(value.Raw()) != was && string(now.Get(name).Raw()) == was {
			sets = append(sets, jsonfile.Set{Path: []string{"agents", name}, Value: value})
		}
	}
	return sets
}

// pauseAgent records the operator's hold of an agent.
func (p *Project) pauseAgent(c protocol.Change) error {
	return p.editCard(c.Subject.ID, func(f *cardFile) { f.Held = c.Why })
}

// resumeAgent removes the operator's hold of an agent.
func (p *Project) resumeAgent(c protocol.Change) error {
	return p.editCard(c.Subject.ID, func(f *cardFile) { f.Held = "" })
}
