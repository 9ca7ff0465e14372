package folder

import "github.com/livhana/steward/protocol/jsonfile"

// Listing lists one folder of files when its entries may have changed. Its owner sets Dir.
type Listing struct {
	Dir string // relative to Base

	stamp   jsonfile.Stamp // of the folder at its last listing; zero if it had not settled
	missing bool
}

// Read returns the names in the folder; none if the folder is missing. It costs one stat, and ok is false, if no entry can
// have appeared or disappeared since the last call. ok is also false if the folder cannot be listed: f.Patience tracks
// that, and the last good listing stays valid.
func (l *Listing) Read(f *Folder) (names []string, ok bool) {
	st, err := f.Root.Stat(l.Dir)
	if err == nil && st == l.stamp || Missing(err) && l.missing {
		return nil, false
	}
	names, st, err = f.Root.List(l.Dir)
	l.stamp, l.missing = jsonfile.Stamp{}, Missing(err)
	switch {
	case l.missing:
		names = nil
	case err != nil:
		f.Patience.Unreadable(l.Dir, err)
		return nil, false
	case st.Settled(f.Now):
		l.stamp = st
	}
	f.Patience.Clear(l.Dir)
	return names, true
}
