package folder

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// setB is the edit of these tests: b becomes 1.
func setB(jsonfile.Object) ([]jsonfile.Set, error) {
	return []jsonfile.Set{{Path: []string{"b"}, Value: 1}}, nil
}

// changed takes over every key that a late client changed.
func changed(base, theirs, _ jsonfile.Object) (sets []jsonfile.Set) {
	for _, key := range theirs.Keys() {
		if string(theirs.Get(key).Raw()) != string(base.Get(key).Raw()) {
			sets = append(sets, jsonfile.Set{Path: []string{key}, Value: theirs.Get(key)})
		}
	}
	return sets
}

func (r *room) edit(e Edit) (wrote bool) {
	r.t.Helper()
	e.File, e.Max = doc, 1000
	r.do(r.Change(r.t.Context(), r.Now, func() (err error) { wrote, err = r.Edit(e); return err }))
	return wrote
}

// client has the document open while it is replaced.
type client struct {
	r *room
	f *os.File
}

func (r *room) client() *client {
	r.t.Helper()
	f, err := os.OpenFile(r.path(doc), os.O_RDWR, 0)
	r.do(err)
	r.t.Cleanup(func() { _ = f.Close() })
	return &client{r, f}
}

// writes writes as clients do: it truncates the file first.
func (c *client) writes(text string) {
	c.r.t.Helper()
	c.r.do(c.f.Truncate(0))
	_, err := c.f.WriteAt([]byte(text), 0)
	c.r.do(err)
}

func TestEdit(t *testing.T) {
	r := newRoom(t, `{"a": 0}`)
	if r.edit(Edit{Judge: func(jsonfile.Object) ([]jsonfile.Set, error) { return nil, nil }}) || r.Watched() > 0 {
		t.Error("nothing to change, and it was")
	}
	if !r.edit(Edit{Judge: setB, If: jsonfile.SumOf([]byte(`{"a": 0}`))}) {
		t.Error("not changed")
	}
	r.wants(`{"a": 0, "b": 1}`)
	if !r.edit(Edit{Judge: setB}) {
		t.Error("what is in place already counts as changed")
	}
	own := errors.New("no")
	for what, c := range map[string]struct {
		text string
		edit Edit
		want error
	}{
		"judged otherwise": {`{"a": 0}`, Edit{Judge: func(jsonfile.Object) ([]jsonfile.Set, error) { return nil, own }}, own},
		"written anew":     {`{"a": 0}`, Edit{Judge: setB, If: "another"}, protocol.ErrConflict},
		"torn":             {`{"a": `, Edit{Judge: setB}, protocol.ErrConflict},
		"too big":          {`{"a": 0, "b": 2}`, Edit{Judge: setB, Max: 5}, jsonfile.ErrTooBig},
		"gone":             {"", Edit{Judge: setB}, protocol.ErrConflict},
	} {
		r := newRoom(t, `{}`)
		if r.write(c.text); c.text == "" {
			r.do(os.Remove(r.path(doc)))
		}
		c.edit.File = doc
		if c.edit.Max == 0 {
			c.edit.Max = 1000
		}
		err := r.Change(t.Context(), r.Now, func() error {
			wrote, err := r.Edit(c.edit)
			if wrote || r.Watched() > 0 {
				t.Errorf("%s: wrote", what)
			}
			return err
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
		if c.text != "" {
			r.wants(c.text)
		}
	}
}

// A client's write into the replaced file is merged, together with our edit.
func TestLateWrite(t *testing.T) {
	none := func(jsonfile.Object) ([]jsonfile.Set, error) { return nil, nil }
	fails := func(jsonfile.Object) ([]jsonfile.Set, error) { return nil, errors.New("no") }
	for what, c := range map[string]struct {
		edit             Edit
		meanwhile        string
		late, then, want string
	}{
		"nothing arrives":             {Edit{}, "", "", "", `{"a": 0, "b": 1}`},
		"whole":                       {Edit{}, "", `{"a": 5}`, "", `{"a": 5, "b": 1}`},
		"twice":                       {Edit{}, "", `{"a": 5}`, `{"a": 6}`, `{"a": 6, "b": 1}`},
		"judged again, and enough":    {Edit{Again: none}, "", `{"a": 5}`, "", `{"a": 5}`},
		"judged again, and not right": {Edit{Again: fails}, "", `{"a": 5}`, "", `{"a": 5}`},
		"a newer one is there":        {Edit{}, `{"c": 7}`, `{"a": 5}`, "", `{"c": 7}`},
		"a newer one to merge into":   {Edit{Merge: threeWay}, `{"a": 0, "c": 7}`, `{"a": 5}`, "", `{"a": 5, "c": 7, "b": 1}`},
		"merged twice":                {Edit{Merge: threeWay}, `{"a": 0, "c": 7}`, `{"a": 5}`, `{"a": 6}`, `{"a": 6, "c": 7, "b": 1}`},
		"merged, and taken back":      {Edit{Merge: threeWay}, `{"a": 0, "c": 7}`, `{"a": 5}`, `{"a": 0}`, `{"a": 0, "c": 7, "b": 1}`},
		"merged, nothing of it new":   {Edit{Merge: threeWay}, `{"c": 7}`, `{"a":  0}`, "", `{"c": 7, "b": 1}`},
		"torn, then whole":            {Edit{}, "", `{"a": `, `{"a": 5}`, `{"a": 5, "b": 1}`},
		"torn for ever":               {Edit{}, "", `{"a": `, "", `{"a": 0, "b": 1}`},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRoom(t, `{"a": 0}`)
			old := r.client()
			c.edit.Judge = setB
			r.edit(c.edit)
			if c.meanwhile != "" {
				r.write(c.meanwhile)
			}
			for _, text := range []string{c.late, c.then} {
				if text != "" {
					old.writes(text)
				}
				if r.look(100 * time.Millisecond); r.Patience.Again().IsZero() {
					t.Error("nobody asks for another look")
				}
			}
			r.wants(c.want)
			r.look(time.Minute)
			if r.look(time.Minute); r.Watched() > 0 || !r.Patience.Again().IsZero() || r.held {
				t.Errorf("%d old files are watched for ever", r.Watched())
			}
			r.wants(c.want)
		})
	}
}

// A file replaced by a merge is watched too: a client may have opened our version before.
func TestLateWriteAfterAMerge(t *testing.T) {
	r := newRoom(t, `{"a": 0}`)
	first := r.client()
	r.edit(Edit{Judge: setB})
	second := r.client()
	first.writes(`{"a": 5}`)
	r.look(100 * time.Millisecond)
	second.writes(`{"a": 6, "b": 2}`)
	r.look(100 * time.Millisecond)
	r.wants(`{"a": 6, "b": 1}`)
}

// While the lock cannot be taken, late content is kept and retried.
func TestLateWriteWithoutGuard(t *testing.T) {
	r := newRoom(t, `{"a": 0}`)
	old := r.client()
	r.edit(Edit{Judge: setB})
	old.writes(`{"a": 5}`)
	r.guard = errors.New("busy")
	r.look(100 * time.Millisecond)
	r.wants(`{"a": 0, "b": 1}`)
	r.guard = nil
	r.look(100 * time.Millisecond)
	r.wants(`{"a": 5, "b": 1}`)
}

// Close runs a last check, and releases everything.
func TestLateWriteBeforeClose(t *testing.T) {
	r := newRoom(t, `{"a": 0}`)
	old := r.client()
	r.edit(Edit{Judge: setB})
	old.writes(`{"a": 5}`)
	r.Close()
	r.wants(`{"a": 5, "b": 1}`)
	if r.Watched() > 0 || r.Root != nil {
		t.Errorf("closed: %d are watched, %v", r.Watched(), r.Root)
	}
}

// The folder was recreated: files replaced in the old folder are no longer watched.
func TestLateWriteToAnotherFolder(t *testing.T) {
	r := newRoom(t, `{"a": 0}`)
	old := r.client()
	r.edit(Edit{Judge: setB})
	r.do(os.Rename(r.path("."), r.path("../aside")))
	r.write(`{}`)
	old.writes(`{"a": 5}`)
	if r.look(100 * time.Millisecond); r.Watched() > 0 {
		t.Errorf("%d are watched", r.Watched())
	}
	r.wants(`{}`)
}

// threeWay takes over every key that a late client changed and others did not.
func threeWay(base, theirs, present jsonfile.Object) (sets []jsonfile.Set) {
	for _, s := range changed(base, theirs, present) {
		if string(present.Get(s.Path[0]).Raw()) == string(base.Get(s.Path[0]).Raw()) {
			sets = append(sets, s)
		}
	}
	return sets
}

// A client that read the document before a late one was merged may overwrite it afterwards: the merged changes are then
// merged once more. If a client that read the merged document reverts some of them, they stay reverted.
func TestMergedAndWrittenOver(t *testing.T) {
	for what, c := range map[string]struct{ late, then, want string }{
		"by one who had not seen it": {`{"a": 5, "m": 1}`, `{"a": 0, "m": 0, "b": 1, "c": 9}`, `{"a": 5, "m": 1, "b": 1, "c": 9}`},
		"by one who saw it":          {`{"a": 5, "m": 1}`, `{"a": 5, "m": 0, "b": 1, "c": 9}`, `{"a": 5, "m": 0, "b": 1, "c": 9}`},
		"one thing goes on":          {`{"a": 5, "m": 1}`, `{"a": 6, "m": 0, "b": 1}`, `{"a": 6, "m": 0, "b": 1}`},
		"by one who only took back":  {`{"a": 5, "m": 1}`, `{"a": 0, "m": 0, "b": 1}`, `{"a": 0, "m": 0, "b": 1}`},
		"two new ones, taken back":   {`{"a": 0, "m": 0, "n": 1}`, `{"a": 0, "m": 0, "b": 1, "c": 9}`, `{"a": 0, "m": 0, "b": 1, "c": 9}`},
		"one thing alone":            {`{"a": 5, "m": 0}`, `{"a": 0, "m": 0, "b": 1, "c": 9}`, `{"a": 0, "m": 0, "b": 1, "c": 9}`},
		"torn":                       {`{"a": 5, "m": 1}`, `{"a": 0, "m"`, `{"a": 0, "m"`},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRoom(t, `{"a": 0, "m": 0}`)
			old := r.client()
			r.edit(Edit{Judge: setB, Merge: threeWay})
			old.writes(c.late)
			r.look(100 * time.Millisecond)
			r.write(c.then)
			for range 3 {
				r.look(100 * time.Millisecond)
			}
			r.wants(c.want)
			if r.look(time.Minute); r.Watched() > 0 {
				t.Errorf("%d are watched for ever", r.Watched())
			}
			r.wants(c.want)
		})
	}
}
