package agentstatus

import (
	"context"
	"path"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// mark writes an agent's state into the registry: that agent's status and the stamp, and not one byte more.
func (p *Project) mark(c protocol.Change) error {
	stamp := jsonfile.FormatTime(p.now)
	sets := []jsonfile.Set{{Path: []string{"agents", c.Subject.ID, "status"}, Value: c.Status}, {Path: []string{"updated_at"}, Value: stamp}}
	if c.Reason == protocol.ReasonBeats {
		sets = append(sets, jsonfile.Set{Path: []string{"agents", c.Subject.ID, "last_seen"}, Value: stamp})
	}
	late, err := p.editRegistry(func(o jsonfile.Object) ([]jsonfile.Set, error) {
		m, ok := decodeRoll(o).agents[c.Subject.ID]
		switch {
		case !ok:
			return nil, moved("the registry does not list %s", c.Subject.ID)
		case m.status == c.Status:
			return nil, nil
		case m.status != c.Ref.Sum:
			return nil, moved("the registry says %q of %s now", clean(m.status, 40), c.Subject.ID)
		}
		return sets, nil
	})
	if err != nil || late == nil {
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

// lateFor is how long the old inode of a registry that we replaced is watched: a client that had it open writes there.
const lateFor = 2 * time.Second

// lateEdit is an edit of the registry whose old inode is still watched.
type lateEdit struct {
	late  *jsonfile.Late
	until time.Time
	sets  []jsonfile.Set
	base  []byte // what the old inode held when it was replaced
	wrote jsonfile.Sum
	news  []byte // what a client wrote into it since, not merged yet
}

// editRegistry changes the registry as edits says of what is in it now; without edits nothing is written, and the
// lateEdit is nil.
func (p *Project) editRegistry(edits func(jsonfile.Object) ([]jsonfile.Set, error)) (*lateEdit, error) {
	l := &lateEdit{until: p.now.Add(lateFor)}
	late, err := p.root.Update(registry, maxFile, func(old []byte) ([]byte, error) {
		o, err := jsonfile.Parse(old)
		if err == nil {
			l.sets, err = edits(o)
		}
		if err != nil || len(l.sets) == 0 {
			return nil, err
		}
		next, err := jsonfile.Edit(old, l.sets...)
		l.base, l.wrote = old, jsonfile.SumOf(next)
		return next, err
	})
	if err != nil || len(l.sets) == 0 {
		return nil, err
	}
	l.late = late
	p.lates = append(p.lates, l)
	return l, nil
}

// mergeLate brings what was written into an old inode of the registry back into sight.
func (p *Project) mergeLate(ctx context.Context) {
	lates := p.lates
	p.lates = nil
	for _, l := range lates {
		if data, changed, err := l.late.Check(); changed && err == nil {
			l.news = data
		}
		if l.news != nil {
			_ = p.guarded(ctx, func() error { return p.merge(l) }) // tried again at the next look
		}
		if p.now.Before(l.until) {
			p.lates = append(p.lates, l)
			p.patience.Wish(p.now.Add(100 * time.Millisecond))
			continue
		}
		_ = l.late.Close()
	}
}

// merge makes a late registry the present one, with our edit in it: the client's write counts as the newer one. When
// others have written since, only the agents that the client changed are taken over.
func (p *Project) merge(l *lateEdit) error {
	theirs, err := jsonfile.Parse(l.news)
	if err != nil {
		return nil // its writer is still at work
	}
	next := &lateEdit{until: p.now.Add(lateFor), sets: l.sets}
	next.late, err = p.root.Update(registry, maxFile, func(now []byte) ([]byte, error) {
		from, sets := l.news, l.sets
		if jsonfile.SumOf(now) != l.wrote {
			from, sets = now, append(changedAgents(l.base, theirs), l.sets...)
		}
		doc, err := jsonfile.Edit(from, sets...)
		next.base, next.wrote = now, jsonfile.SumOf(doc)
		return doc, err
	})
	if err != nil {
		return err
	}
	l.base, l.news, l.wrote = l.news, nil, next.wrote
	if next.late != nil {
		p.lates = append(p.lates, next)
	}
	return nil
}

// changedAgents lists what a client changed of the agents.
func changedAgents(base []byte, theirs jsonfile.Object) []jsonfile.Set {
	old, _ := jsonfile.Parse(base)
	before, _ := old.Object("agents")
	after, _ := theirs.Object("agents")
	var sets []jsonfile.Set
	for _, name := range after.Keys() {
		if now := after.Get(name); string(now.Raw()) != string(before.Get(name).Raw()) {
			sets = append(sets, jsonfile.Set{Path: []string{"agents", name}, Value: now})
		}
	}
	return sets
}

func (p *Project) dropLates() {
	for _, l := range p.lates {
		_ = l.late.Close()
	}
	p.lates = nil
}

// pauseAgent puts the operator's hold on record.
func (p *Project) pauseAgent(c protocol.Change) error {
	return p.editCard(c.Subject.ID, func(f *cardFile) { f.Held = c.Why })
}

// resumeAgent ends the operator's hold.
func (p *Project) resumeAgent(c protocol.Change) error {
	return p.editCard(c.Subject.ID, func(f *cardFile) { f.Held = "" })
}

func cardPath(agent string) string { return path.Join(agentsDir, agent+".json") }

// editCard rewrites steward's own card of an agent. One that cannot be read is made anew.
func (p *Project) editCard(agent string, change func(*cardFile)) error {
	if err := p.root.MkdirAll(agentsDir, 0o755); err != nil {
		return err
	}
	k, err := p.readCard(agent)
	if err != nil {
		return err
	}
	f := cardFile{Session: k.session, Held: k.held}
	f.carry(k.process)
	old := f
	if change(&f); f == old && k.there {
		return nil
	}
	f.Agent, f.At = agent, p.now.UTC()
	doc, err := jsonfile.Encode(f)
	if err != nil {
		return err
	}
	late, err := p.root.Replace(cardPath(agent), doc, jsonfile.Any)
	_ = late.Close()
	return err
}

// readCard reads an agent's card; a missing or damaged one is empty.
func (p *Project) readCard(agent string) (card, error) {
	o, _, err := p.root.Load(cardPath(agent), maxFile)
	switch {
	case err == nil:
		k := decodeCard(o)
		k.there = true
		return k, nil
	case unusable(err):
		return card{}, nil
	}
	return card{}, err
}
