package agentstatus

import (
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// folders remembers the state of the protocol's folders, so that a folder without new or removed names is not listed
// again.
type folders struct {
	stamps  map[string]jsonfile.Stamp // as of the last complete listing
	seen    map[string]jsonfile.Stamp // as of the last probe
	changed map[string]bool           // entries may have come or gone since the last complete listing
}

func newFolders() folders {
	return folders{stamps: map[string]jsonfile.Stamp{}, seen: map[string]jsonfile.Stamp{}, changed: map[string]bool{}}
}

// probe notes which folders have changed since their last complete listing. A missing folder has the zero Stamp.
func (p *Project) probe(dirs ...string) {
	for _, dir := range dirs {
		st, err := p.Root.Stat(dir)
		if folder.Missing(err) {
			st, err = jsonfile.Stamp{}, nil
		}
		old, known := p.stamps[dir]
		p.changed[dir] = err != nil || !known || st != old
		p.seen[dir] = st
		if err != nil {
			delete(p.seen, dir)
		}
	}
}

// through marks folders as completely read, in the state of the last probe.
func (p *Project) through(dirs ...string) {
	for _, dir := range dirs {
		if st, ok := p.seen[dir]; ok && st.Settled(p.Now) && !p.Patience.Has(dir) {
			p.stamps[dir] = st
		}
	}
}

// list returns a folder's names if entries have come or gone since the last scan. fresh is false if the folder is
// unchanged or cannot be read.
func (p *Project) list(dir string) (names []string, fresh bool) {
	if !p.changed[dir] {
		return nil, false
	}
	names, st, err := p.Root.List(dir)
	return names, p.listed(dir, st, err)
}

// each passes a folder's names to take one by one, and reports whether the listing is complete.
func (p *Project) each(dir string, take func(name []byte)) bool {
	st, err := p.Root.Each(dir, take)
	return p.listed(dir, st, err)
}

// listed records how the listing of a folder went, and reports whether its names are known now.
func (p *Project) listed(dir string, st jsonfile.Stamp, err error) bool {
	if folder.Missing(err) {
		p.stamps[dir] = jsonfile.Stamp{}
		p.Patience.Clear(dir)
		return true
	}
	if err != nil {
		delete(p.stamps, dir) // otherwise an unchanged folder would not be listed again and its fault would stay
		p.Patience.Unreadable(dir, err)
		return false
	}
	p.Patience.Clear(dir)
	delete(p.stamps, dir)
	if st.Settled(p.Now) {
		p.stamps[dir] = st
	}
	return true
}
