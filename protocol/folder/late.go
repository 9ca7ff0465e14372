package folder

import (
	"context"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

const (
	// lateFor is how long the old inode of a replaced file is watched: a client that had it open writes there.
	lateFor = 2 * time.Second
	// lateEvery is the interval at which it is checked.
	lateEvery = 50 * time.Millisecond
)

// Judge returns the edits of a document; no edits mean no change.
type Judge func(doc jsonfile.Object) ([]jsonfile.Set, error)

// Edit is a change of a JSON document that clients also write.
type Edit struct {
	File  string       // relative to Base
	Max   int64        // bytes; a larger file is an error
	If    jsonfile.Sum // what the file must contain to be changed; jsonfile.Any: anything that Judge accepts
	Judge Judge
	// Again judges a document that a client wrote late, into the replaced file: it counts as the newer document. On an
	// error, or without edits, the document stays as the client wrote it. nil: Judge is used.
	Again Judge
	// Merge applies when others have written the file since: it lists what the late client changed and others did not.
	// base is the client's original, theirs what it wrote, present the file's content. nil: the others' version is
	// newer and stays.
	Merge func(base, theirs, present jsonfile.Object) []jsonfile.Set
}

func (e *Edit) again() Judge {
	if e.Again == nil {
		return e.Judge
	}
	return e.Again
}

// late is an edit whose old inode is still watched.
type late struct {
	edit  Edit
	old   *jsonfile.Late
	until time.Time
	base  []byte       // content of the old inode when it was replaced, or last merged
	wrote jsonfile.Sum // what steward wrote in its place
	news  []byte       // what a client has since written into it, not merged yet
	// The file's content before and after a late document was merged: another client that had read the file before the
	// merge may overwrite the merged document.
	before, merged []byte
	seen           jsonfile.Sum // the file's content when last checked for that
	restored       int          // how often it was merged again
}

// Edit changes a file as e.Judge decides from its present content, and reports whether there was a change. It must run
// guarded. A client that has the file open writes into an inode that no reader sees: for two seconds, such writes are
// merged at once, by the following scans, and by Close.
func (f *Folder) Edit(e Edit) (wrote bool, err error) {
	l := &late{edit: e, until: f.Now.Add(lateFor)}
	l.old, err = f.Root.Update(e.File, e.Max, func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, Moved("%s is gone", e.File)
		}
		next, err := edited(old, e.Judge)
		if wrote = err == nil && next != nil; !wrote {
			return nil, err
		}
		if e.If != jsonfile.Any && jsonfile.SumOf(old) != e.If {
			return nil, Moved("%s has changed", e.File)
		}
		l.base, l.wrote = old, jsonfile.SumOf(next)
		return next, nil
	})
	if err != nil || l.old == nil {
		return wrote && err == nil, err
	}
	f.lates = append(f.lates, l)
	if l.pending() { // otherwise a write that was about to happen would stay invisible until the next scan
		_ = f.merge(l)
	}
	return true, nil
}

// edited is the document after the edits; nil if there are none.
func edited(doc []byte, judge Judge) ([]byte, error) {
	o, err := jsonfile.Parse(doc)
	if err != nil {
		return nil, err
	}
	sets, err := judge(o)
	if err != nil || len(sets) == 0 {
		return nil, err
	}
	return jsonfile.Edit(doc, sets...)
}

// mergeLate merges writes into old inodes. If a merge is not possible now, it is retried at the next scan, which
// mergeLate requests.
func (f *Folder) mergeLate(ctx context.Context) {
	lates := f.lates
	f.lates = nil
	for _, l := range lates {
		if l.pending() {
			_ = f.Guarded(ctx, func() error { return f.merge(l) })
		}
		if l.merged != nil && f.overwritten(l) {
			_ = f.Guarded(ctx, func() error { return f.restore(l) })
		}
		if f.Now.Before(l.until) {
			f.lates = append(f.lates, l)
			f.Patience.RetryAt(f.Now.Add(lateEvery))
			continue
		}
		_ = l.old.Close()
	}
}

// Watched is the number of replaced files into which clients may still write.
func (f *Folder) Watched() int { return len(f.lates) }

// pending reports whether late content exists that is not merged yet.
func (l *late) pending() bool {
	if data, changed, err := l.old.Check(); changed && err == nil {
		l.news = data
	}
	return l.news != nil
}

// merge makes a late document the present one and applies steward's edit to it: the client's write counts as newer. If
// others have written the file since, only the client's changes are taken over, or nothing.
func (f *Folder) merge(l *late) error {
	theirs, err := jsonfile.Parse(l.news)
	if err != nil {
		return nil // its writer is still active
	}
	moved := false
	wrote, err := f.replace(l.edit, 0, func(present []byte) (doc []byte, err error) {
		if doc, moved = l.news, jsonfile.SumOf(present) != l.wrote; moved {
			doc, err = l.upon(present, theirs)
		}
		if err != nil || doc == nil {
			return nil, err
		}
		if again, err := edited(doc, l.edit.again()); err == nil && again != nil {
			doc = again
		}
		return doc, nil
	})
	if err != nil {
		return err
	}
	l.base, l.news = l.news, nil
	if !moved {
		l.wrote = wrote
	}
	return nil
}

// replace writes a merged document and watches its old inode and whether the merged document is overwritten.
func (f *Folder) replace(e Edit, restored int, judge func(present []byte) ([]byte, error)) (wrote jsonfile.Sum, err error) {
	next := &late{edit: e, until: f.Now.Add(lateFor), restored: restored}
	next.old, err = f.Root.Update(e.File, e.Max, func(present []byte) ([]byte, error) {
		doc, err := judge(present)
		if err != nil || doc == nil {
			return nil, err
		}
		next.base, next.before, next.merged, next.wrote = present, present, doc, jsonfile.SumOf(doc)
		next.seen = next.wrote
		return doc, nil
	})
	if err == nil && next.old != nil {
		f.lates = append(f.lates, next)
	}
	return next.wrote, err
}

// overwritten reports whether a client has rewritten the document without the merged changes.
func (f *Folder) overwritten(l *late) bool {
	blob, err := f.Root.Read(l.edit.File, l.edit.Max)
	if err != nil || blob.Sum == l.seen {
		return false
	}
	o, err := jsonfile.Parse(blob.Data)
	if err != nil {
		return false // its writer is still active
	}
	l.seen = blob.Sum
	return len(l.undone(o)) > 0
}

// undone returns the merged changes if all of them are missing in the present document and its writer has made a change
// of its own: that client had then read the document before the merge. A client that read the merged document may
// revert changes on purpose. So undone requires changes below two different top-level keys, or an existing value that
// has its old value again. In doubt the document stays as it is. See docs/decisions.md, "A merged late write is watched".
func (l *late) undone(present jsonfile.Object) []jsonfile.Set {
	merge := l.edit.Merge
	if merge == nil || l.restored >= mostRestored {
		return nil
	}
	before, err := jsonfile.Parse(l.before)
	merged, merr := jsonfile.Parse(l.merged)
	if err != nil || merr != nil {
		return nil
	}
	all, sets := merge(before, merged, before), merge(before, merged, present)
	if len(sets) < 2 || len(sets) < len(all) || len(merge(before, present, before)) == 0 {
		return nil
	}
	for _, s := range sets {
		if s.Path[0] != sets[0].Path[0] || holds(before, s.Path) {
			return sets
		}
	}
	return nil
}

// holds reports whether a value exists at that path.
func holds(o jsonfile.Object, at []string) bool {
	for _, key := range at[:len(at)-1] {
		o, _ = o.Object(key)
	}
	return o.Has(at[len(at)-1])
}

// mostRestored bounds how often the same changes are merged again.
const mostRestored = 3

// restore merges overwritten changes once more.
func (f *Folder) restore(l *late) error {
	_, err := f.replace(l.edit, l.restored+1, func(present []byte) ([]byte, error) {
		return edited(present, func(o jsonfile.Object) ([]jsonfile.Set, error) { return l.undone(o), nil })
	})
	if err == nil {
		l.merged = nil
	}
	return err
}

// upon applies the client's changes to the version that others have written; nil if that version stays as it is.
func (l *late) upon(present []byte, theirs jsonfile.Object) ([]byte, error) {
	if l.edit.Merge == nil {
		return nil, nil
	}
	base, _ := jsonfile.Parse(l.base)
	doc, err := edited(present, func(o jsonfile.Object) ([]jsonfile.Set, error) { return l.edit.Merge(base, theirs, o), nil })
	if doc == nil {
		doc = present
	}
	return doc, err
}

func (f *Folder) dropLates() {
	for _, l := range f.lates {
		_ = l.old.Close()
	}
	f.lates = nil
}
