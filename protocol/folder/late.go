package folder

import (
	"context"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

const (
	// lateFor is how long the old inode of a file that we replaced is watched: a client that had it open writes there.
	lateFor = 2 * time.Second
	// lateEvery is how soon it is looked at again.
	lateEvery = 50 * time.Millisecond
)

// Judge says what is to be changed in a document; nothing is, where there are no edits.
type Judge func(doc jsonfile.Object) ([]jsonfile.Set, error)

// Edit is a change of a JSON document to which clients write too.
type Edit struct {
	File  string       // relative to Base
	Max   int64        // bytes; a larger file is an error
	If    jsonfile.Sum // what the file must hold to be changed; jsonfile.Any: whatever Judge accepts
	Judge Judge
	// Again judges a document that a client wrote late, into the file that we had replaced: it counts as the newer one.
	// An error, or no edits: it stands as it was written. nil: Judge is asked again.
	Again Judge
	// Merge lists what a client that wrote late has changed, and nobody since, for when others have written the file: base is
	// what it began with, theirs what it wrote, present what is in the file. nil: what others wrote is newer still and stays.
	Merge func(base, theirs, present jsonfile.Object) []jsonfile.Set
}

func (e *Edit) again() Judge {
	if e.Again == nil {
		return e.Judge
	}
	return e.Again
}

// late is an edit whose file's old inode is still watched.
type late struct {
	edit  Edit
	old   *jsonfile.Late
	until time.Time
	base  []byte       // what the old inode held when it was replaced, or last merged
	wrote jsonfile.Sum // what we put in its place
	news  []byte       // what a client wrote into it since, not merged yet
	// What the file said before and after a late document was merged: another client, which had read it before, may
	// write over the merged one.
	before, merged []byte
	seen           jsonfile.Sum // what the file held when that was last looked for
	restored       int          // how often it was merged again
}

// Edit changes a file as e.Judge says of what is in it now, and reports whether there was anything to change. It must
// run guarded. A client that has the file open writes into an inode that nobody reads any more: for two seconds, what
// arrives there is merged: at once, by the looks that follow, and by Close.
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
	if l.pending() { // a client that was about to write would else be unseen until the next look
		_ = f.merge(l)
	}
	return true, nil
}

// edited is the document after the edits; nil when there are none.
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

// mergeLate brings what was written into old inodes back into sight. What cannot be merged now is tried again at the
// next look, which it asks for.
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

// pending reports whether something arrived that is not merged yet.
func (l *late) pending() bool {
	if data, changed, err := l.old.Check(); changed && err == nil {
		l.news = data
	}
	return l.news != nil
}

// merge makes a late document the present one, with our edit in it: the client's write counts as the newer one. When
// others have written the file since, only what the client changed is taken over, or nothing.
func (f *Folder) merge(l *late) error {
	theirs, err := jsonfile.Parse(l.news)
	if err != nil {
		return nil // its writer is still at work
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

// replace puts a merged document in place, and has its old inode watched, and what becomes of it.
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

// overwritten reports whether somebody has written the merged document anew as if what was merged had never been.
func (f *Folder) overwritten(l *late) bool {
	blob, err := f.Root.Read(l.edit.File, l.edit.Max)
	if err != nil || blob.Sum == l.seen {
		return false
	}
	o, err := jsonfile.Parse(blob.Data)
	if err != nil {
		return false // its writer is still at work
	}
	l.seen = blob.Sum
	return len(l.undone(o)) > 0
}

// undone is what was merged, if all of it is as before in the present document, and its writer has left something of its
// own there: then that client had read the document before the merge. Who did read the merged one may take back what it did;
// so it takes traces of two kinds, or something that was changed and has its old value again. In doubt it stays as it is.
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

// holds reports whether there is something at that path.
func holds(o jsonfile.Object, at []string) bool {
	for _, key := range at[:len(at)-1] {
		o, _ = o.Object(key)
	}
	return o.Has(at[len(at)-1])
}

// mostRestored bounds how often the same thing is merged again.
const mostRestored = 3

// restore merges once more what was written over.
func (f *Folder) restore(l *late) error {
	_, err := f.replace(l.edit, l.restored+1, func(present []byte) ([]byte, error) {
		return edited(present, func(o jsonfile.Object) ([]jsonfile.Set, error) { return l.undone(o), nil })
	})
	if err == nil {
		l.merged = nil
	}
	return err
}

// upon is what others have written with what the client changed; nil when it stays as it is.
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
