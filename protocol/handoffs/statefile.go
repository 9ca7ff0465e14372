package handoffs

import (
	"context"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// stateReader reads and edits the state file.
type stateReader struct {
	*source
	jsonfile.Reading[state]
	mentionsOurs bool // the unreadable state file contains keys of this protocol
}

// read brings the state file up to date.
func (r *stateReader) read() {
	jsonfile.LoadText(r.Root, &r.Patience, &r.Reading, stateFile, maxFile, func(doc []byte) (state, error) {
		v, err := jsonfile.ParseValue(doc)
		if err != nil {
			r.mentionsOurs = mentionsOurs(doc)
			return state{}, err
		}
		o, _ := v.Object()
		return decodeState(o), nil
	})
}

// current returns the state file, or an empty state if the file is missing or another tool's.
func (r *stateReader) current() *state {
	if !r.Good {
		return &state{}
	}
	return &r.Value
}

// whole returns the state file's text, and its object if it is one. It waits up to two seconds for a writer to finish.
func (r *stateReader) whole(ctx context.Context) (text []byte, o jsonfile.Object, err error) {
	err = folder.Whole(ctx, func() error {
		blob, err := r.Root.Read(stateFile, maxFile)
		if err != nil {
			return err
		}
		text = blob.Data
		v, err := jsonfile.ParseValue(text)
		o, _ = v.Object()
		return err
	})
	return text, o, err
}

// edit changes the state file as judge decides from its current content. If a late client wrote to the replaced file,
// its changes are merged where the present file is unchanged (protocol 001, Workflow Conflicts: last write wins).
func (r *stateReader) edit(judge folder.Judge) error {
	_, err := r.Edit(folder.Edit{File: stateFile, Max: maxFile, Judge: judge, Merge: changes})
	return err
}

// changes lists the values that theirs changed from base and present did not: whole keys, but single entries in locks and
// agents.
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

// union lists the keys of both objects, each once.
func union(a, b jsonfile.Object) []string {
	keys := a.Keys()
	for _, key := range b.Keys() {
		if !a.Has(key) {
			keys = append(keys, key)
		}
	}
	return keys
}
