package folder

import "github.com/livhana/steward/protocol/jsonfile"

// Listings remembers the state of sub-folders as last listed: a folder without new or removed names is not listed again,
// and no missing file is looked for in it. The zero value has listed nothing.
type Listings struct {
	stamps  map[string]jsonfile.Stamp // as of the last complete listing
	seen    map[string]jsonfile.Stamp // as of the last probe
	changed map[string]bool           // names may have come or gone since the last complete listing
}

// Reset forgets all folders.
func (l *Listings) Reset() {
	*l = Listings{map[string]jsonfile.Stamp{}, map[string]jsonfile.Stamp{}, map[string]bool{}}
}

// Probe notes which folders have changed since their last complete listing. A missing folder has the zero Stamp.
func (l *Listings) Probe(f *Folder, dirs ...string) {
	for _, dir := range dirs {
		st, err := f.Root.Stat(dir)
		if Missing(err) {
			st, err = jsonfile.Stamp{}, nil
		}
		old, known := l.stamps[dir]
		l.changed[dir] = err != nil || !known || st != old
		l.seen[dir] = st
		if err != nil {
			delete(l.seen, dir)
		}
	}
}

// Changed reports whether names may have come or gone, as of the last probe.
func (l *Listings) Changed(dir string) bool { return l.changed[dir] }

// Expect makes folders count as changed until the next probe.
func (l *Listings) Expect(dirs ...string) {
	for _, dir := range dirs {
		l.changed[dir] = true
	}
}

// Again makes folders be listed again by the next scan.
func (l *Listings) Again(dirs ...string) {
	for _, dir := range dirs {
		delete(l.stamps, dir)
	}
}

// Through marks folders as completely read, in the state of the last probe.
func (l *Listings) Through(f *Folder, dirs ...string) {
	for _, dir := range dirs {
		if st, ok := l.seen[dir]; ok && st.Settled(f.Now) && !f.Patience.Has(dir) {
			l.stamps[dir] = st
		}
	}
}

// List returns a folder's names if names have come or gone since the last scan. fresh is false if the folder is
// unchanged or cannot be read.
func (l *Listings) List(f *Folder, dir string) (names []string, fresh bool) {
	if !l.changed[dir] {
		return nil, false
	}
	names, st, err := f.Root.List(dir)
	return names, l.listed(f, dir, st, err)
}

// Each passes a folder's names to take one by one, and reports whether the listing is complete.
func (l *Listings) Each(f *Folder, dir string, take func(name []byte)) bool {
	st, err := f.Root.Each(dir, take)
	return l.listed(f, dir, st, err)
}

// listed records how the listing of a folder went, and reports whether its names are known now.
func (l *Listings) listed(f *Folder, dir string, st jsonfile.Stamp, err error) bool {
	delete(l.stamps, dir) // also after an error: an unchanged folder would not be listed again and its fault would stay
	switch {
	case Missing(err):
		l.stamps[dir] = jsonfile.Stamp{}
	case err != nil:
		f.Patience.Unreadable(dir, err)
		return false
	case st.Settled(f.Now):
		l.stamps[dir] = st
	}
	f.Patience.Clear(dir)
	return true
}
