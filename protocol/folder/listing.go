package folder

import (
	"slices"

	"github.com/livhana/steward/protocol/jsonfile"
)

// Listing is what a folder contained when it was last read. An unchanged folder costs one stat.
type Listing struct {
	Strict bool // a file in place of the folder is a fault; otherwise it counts as no folder

	There bool
	Names []string // sorted
	Stamp jsonfile.Stamp
	rest  bool // Stamp had settled: an equal Stamp proves that no entry was added or removed
}

// Read brings the listing of dir (relative to Base) up to date and reports whether it was read again. If the folder
// cannot be read, the last listing stays.
func (l *Listing) Read(f *Folder, dir string) (changed bool) {
	st, err := f.Root.Stat(dir)
	if err == nil && l.There && l.rest && st == l.Stamp {
		f.Patience.Clear(dir) // an earlier error has passed
		return false
	}
	folder := err == nil && (l.Strict || st.Mode.IsDir())
	var names []string
	if folder {
		names, st, err = f.Root.List(dir)
	}
	switch {
	case Missing(err) || err == nil && !folder:
		changed = l.There
		*l = Listing{Strict: l.Strict}
	case err != nil:
		f.Patience.Unreadable(dir, err)
		return false
	default:
		slices.Sort(names)
		*l, changed = Listing{Strict: l.Strict, There: true, Names: names, Stamp: st, rest: st.Settled(f.Now)}, true
	}
	f.Patience.Clear(dir)
	return changed
}
