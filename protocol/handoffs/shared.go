package handoffs

import (
	"context"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// lateFor is how long the old inode of a state file that we replaced is watched: a client that had it open writes there.
const lateFor = 2 * time.Second

// redo is an edit of the state file, to be made again on what a client wrote meanwhile. No edits: nothing is to be done.
type redo func(jsonfile.Object) ([]jsonfile.Set, error)

// lateEdit is an edit of the state file whose old inode is still watched.
type lateEdit struct {
	late  *jsonfile.Late
	until time.Time
	redo  redo
	base  []byte // what the old inode held when it was replaced
	wrote jsonfile.Sum
	news  []byte // what a client wrote into it since, not merged yet
}

// editState changes the state file as edits says of what is in it now. The old inode is looked at once more at once:
// a client that was about to write would else be unseen until the next look.
func (p *Project) editState(edits redo) error {
	l := &lateEdit{until: p.now.Add(lateFor), redo: edits}
	var err error
	l.late, err = p.root.Update(stateFile, maxFile, func(old []byte) ([]byte, error) {
		next, err := edited(old, edits)
		if err == nil && next != nil {
			l.base, l.wrote = old, jsonfile.SumOf(next)
		}
		return next, err
	})
	if err != nil || l.late == nil {
		return err
	}
	p.lates = append(p.lates, l)
	p.catchUp(l)
	return nil
}

// edited is the document after the edits; nil when there are none.
func edited(doc []byte, edits redo) ([]byte, error) {
	o, err := jsonfile.Parse(doc)
	if err != nil {
		return nil, err
	}
	sets, err := edits(o)
	if err != nil || len(sets) == 0 {
		return nil, err
	}
	return jsonfile.Edit(doc, sets...)
}

// mergeLate brings what was written into an old inode of the state file back into sight.
func (p *Project) mergeLate(ctx context.Context) {
	lates := p.lates
	p.lates = nil
	for _, l := range lates {
		if l.pending() {
			_ = p.guarded(ctx, func() error { p.catchUp(l); return nil })
		}
		if p.now.Before(l.until) {
			p.lates = append(p.lates, l)
			p.patience.Wish(p.now.Add(50 * time.Millisecond))
			continue
		}
		_ = l.late.Close()
	}
}

func (l *lateEdit) pending() bool {
	if data, changed, err := l.late.Check(); changed && err == nil {
		l.news = data
	}
	return l.news != nil
}

// catchUp merges what arrived late; what cannot be merged now is tried again at the next look.
func (p *Project) catchUp(l *lateEdit) {
	if l.pending() {
		_ = p.merge(l)
	}
}

// merge makes a late state file the present one, with our edit in it: the client's write counts as the newer one
// (protocol 001, Workflow Conflicts: last write wins). When others have written since, only what the client changed
// and they did not is taken over.
func (p *Project) merge(l *lateEdit) error {
	theirs, err := jsonfile.Parse(l.news)
	if err != nil {
		return nil // its writer is still at work
	}
	next := &lateEdit{until: p.now.Add(lateFor), redo: l.redo}
	next.late, err = p.root.Update(stateFile, maxFile, func(now []byte) ([]byte, error) {
		doc := l.news
		if jsonfile.SumOf(now) != l.wrote {
			present, err := jsonfile.Parse(now)
			if err != nil {
				return nil, err
			}
			base, _ := jsonfile.Parse(l.base)
			if doc, err = jsonfile.Edit(now, changes(base, theirs, present)...); err != nil {
				return nil, err
			}
		}
		if again, err := edited(doc, l.redo); err == nil && again != nil {
			doc = again
		}
		next.base, next.wrote = now, jsonfile.SumOf(doc)
		return doc, nil
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

// changes lists what theirs changed of base and present did not: whole keys, and in locks and agents entry by entry.
func changes(base, theirs, present jsonfile.Object) []jsonfile.Set {
	var sets []jsonfile.Set
	for _, key := range union(base, theirs) {
		a, aok := base.Object(key)
		b, bok := theirs.Object(key)
		c, cok := present.Object(key)
		if (key == "locks" || key == "agents") && aok.OK() && bok.OK() && cok.OK() {
			for _, name := range union(a, b) {
				sets = appendChange(sets, a.Get(name), b.Get(name), c.Get(name), key, name)
			}
			continue
		}
		sets = appendChange(sets, base.Get(key), theirs.Get(key), present.Get(key), key)
	}
	return sets
}

func appendChange(sets []jsonfile.Set, base, theirs, present jsonfile.Value, path ...string) []jsonfile.Set {
	before, after, now := string(base.Raw()), string(theirs.Raw()), string(present.Raw())
	switch {
	case before == after || now != before:
		return sets
	case after == "":
		return append(sets, jsonfile.Remove(path...))
	}
	return append(sets, jsonfile.Set{Path: path, Value: theirs})
}

// union lists the keys of both, each once.
func union(a, b jsonfile.Object) []string {
	keys := a.Keys()
	for _, key := range b.Keys() {
		if !a.Has(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (p *Project) dropLates() {
	for _, l := range p.lates {
		_ = l.late.Close()
	}
	p.lates = nil
}
