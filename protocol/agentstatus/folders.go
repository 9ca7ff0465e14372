package agentstatus

import (
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// folders remembers how the protocol's folders stood, so that one in which no name has come or gone is not listed.
type folders struct {
	stamps  map[string]jsonfile.Stamp // as they were when they were read through
	seen    map[string]jsonfile.Stamp // as the last probe found them
	changed map[string]bool           // entries have come or gone since the folder was read through
}

func newFolders() folders {
	return folders{stamps: map[string]jsonfile.Stamp{}, seen: map[string]jsonfile.Stamp{}, changed: map[string]bool{}}
}

// probe notes which folders have changed since they were read through. One that is missing has the zero Stamp.
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

// through notes that folders have been read through as probe found them.
func (p *Project) through(dirs ...string) {
	for _, dir := range dirs {
		if st, ok := p.seen[dir]; ok && st.Settled(p.Now) && !p.Patience.Has(dir) {
			p.stamps[dir] = st
		}
	}
}

// list reads a folder's names when entries have come or gone since the last look. fresh is false when the folder
// is as it was, or cannot be read.
func (p *Project) list(dir string) (names []string, fresh bool) {
	if !p.changed[dir] {
		return nil, false
	}
	names, st, err := p.Root.List(dir)
	return names, p.listed(dir, st, err)
}

// each hands a folder's names over one by one, and reports whether these were all.
func (p *Project) each(dir string, take func(name []byte)) bool {
	st, err := p.Root.Each(dir, take)
	return p.listed(dir, st, err)
}

// listed keeps book of how the listing of a folder went, and reports whether its names are known now.
func (p *Project) listed(dir string, st jsonfile.Stamp, err error) bool {
	if folder.Missing(err) {
		p.stamps[dir] = jsonfile.Stamp{}
		p.Patience.Clear(dir)
		return true
	}
	if err != nil {
		delete(p.stamps, dir) // or one that stands as it stood would not be listed again, and stay in trouble
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
