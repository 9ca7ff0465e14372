package protocoltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/livhana/steward/protocol"
)

// roundTrip: after Apply, Observe shows the change; with hints as in a full scan, and to a new adapter as to an
// existing one.
func (s Suite) roundTrip(t *testing.T, c *Case) {
	b := s.lay(t, c)
	untouched := tree(t, b.dir)
	before := b.scan(t)
	for name, n := range tree(t, b.dir) {
		if was := untouched[name]; was.text != n.text || !os.SameFile(was.info, n.info) || !was.info.ModTime().Equal(n.info.ModTime()) {
			t.Errorf("a scan changed %s", name)
		}
	}
	shows := c.shows(t, before)
	if c.Unseen == "" && shows(before) == nil {
		t.Error("the case proves nothing: Shows is content before the change")
	}
	frozen := dump(t, before)
	change := c.Change(before, b.now)
	if change.Verb != c.Verb {
		t.Fatalf("the case is about %s, its change about %s", c.Verb, change.Verb)
	}
	if err := b.a.Apply(t.Context(), change, b.now); err != nil {
		t.Fatalf("apply: %v", err)
	}
	after := tree(t, b.dir)
	hints := []string{}
	for name, n := range after {
		if was, ok := untouched[name]; !ok || was.text != n.text {
			hints = append(hints, name)
		}
	}
	for name := range untouched {
		if _, ok := after[name]; !ok {
			hints = append(hints, name)
		}
	}
	quick := b.a.Observe(t.Context(), protocol.ScanOrder{Now: b.now, Hints: hints})
	full := b.a.Observe(t.Context(), protocol.ScanOrder{Now: b.now})
	again := s.Open(t, b.dir).Observe(t.Context(), protocol.ScanOrder{Now: b.now})
	for what, snap := range map[string]*protocol.Snapshot{"a hinted scan": &quick, "a full scan": &full, "a new adapter": &again} {
		if err := shows(snap); err != nil {
			t.Errorf("%s: %v\n%s", what, err, dump(t, snap))
		}
		if got, want := facts(t, snap), facts(t, &full); got != want {
			t.Errorf("%s sees\n%s\na full scan\n%s", what, got, want)
		}
	}
	if now := dump(t, before); now != frozen {
		t.Errorf("a snapshot changed after it was made:\n%s\nwas\n%s", now, frozen)
	}
}

// shows is the case's Shows, or for a change that no scan shows, a check that the snapshot is unchanged.
func (c *Case) shows(t testing.TB, before *protocol.Snapshot) func(*protocol.Snapshot) error {
	if (c.Shows == nil) == (c.Unseen == "") {
		t.Fatal("one of Shows and Unseen must be given")
	}
	if c.Shows != nil {
		return c.Shows
	}
	want := facts(t, before)
	return func(s *protocol.Snapshot) error {
		if facts(t, s) != want {
			return fmt.Errorf("no scan shows the change (%s), but before it was seen\n%s", c.Unseen, want)
		}
		return nil
	}
}

// facts is a snapshot without the values that depend on when the adapter began to observe.
func facts(t testing.TB, s *protocol.Snapshot) string {
	bare := *s
	bare.Again = s.At
	bare.Agents = append([]protocol.Agent(nil), s.Agents...)
	for i := range bare.Agents {
		bare.Agents[i].Signs = ""
	}
	return dump(t, &bare)
}

func dump(t testing.TB, s *protocol.Snapshot) string {
	t.Helper()
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// leavesTheRest: bytes, keys, order and modes unrelated to the change are preserved.
func (s Suite) leavesTheRest(t *testing.T, c *Case) {
	b := s.lay(t, c)
	before := tree(t, b.dir)
	if err := b.a.Apply(t.Context(), c.Change(b.scan(t), b.now), b.now); err != nil {
		t.Fatalf("apply: %v", err)
	}
	after := tree(t, b.dir)
	want := Parse(c.Want, b.now)
	for name, text := range want {
		got, ok := after[name]
		if !ok || got.text != text {
			t.Errorf("%s is\n%s\nwant\n%s", name, got.text, text)
		}
		from, moved := c.Moves[name]
		if was, ok := before[name]; ok && got.mode != was.mode {
			t.Errorf("%s has mode %v, had %v", name, got.mode, was.mode)
		} else if moved && got.mode != before[from].mode {
			t.Errorf("%s has mode %v, but %s had %v", name, got.mode, from, before[from].mode)
		}
	}
	for _, name := range c.Gone {
		if _, there := after[name]; there {
			t.Errorf("%s is still there", name)
		}
	}
	for name, was := range before {
		got, ok := after[name]
		if _, meant := want[name]; meant || matches(c.Gone, name) || matches(c.Free, name) {
			continue
		}
		if !ok || got.text != was.text || got.mode != was.mode || !os.SameFile(got.info, was.info) {
			t.Errorf("the change is not about %s, and altered it (there: %v):\n%s", name, ok, got.text)
		}
	}
	for name := range after {
		_, was := before[name]
		_, meant := want[name]
		if !was && !meant && !matches(c.Free, name) {
			t.Errorf("%s was made without need", name)
		}
	}
}

// twice: a change that is already in place is no error, and changes nothing.
func (s Suite) twice(t *testing.T, c *Case) {
	b, change := s.judged(t, c)
	var once map[string]node
	for i, a := range []protocol.Adapter{b.a, b.a, s.Open(t, b.dir)} {
		if err := a.Apply(t.Context(), change, b.now); err != nil {
			t.Fatalf("apply, time %d: %v", i+1, err)
		}
		if i == 0 {
			once = tree(t, b.dir)
		}
	}
	same(t, "applied again", once, tree(t, b.dir))
}

// conflict: files that changed since they were judged are left alone.
func (s Suite) conflict(t *testing.T, c *Case) {
	if c.Meddle == nil {
		if c.Careless == "" {
			t.Error("neither Meddle nor Careless is given")
		}
		return
	}
	b, change := s.judged(t, c)
	if err := c.Meddle(b.dir); err != nil {
		t.Fatal(err)
	}
	before := tree(t, b.dir)
	if err := b.a.Apply(t.Context(), change, b.now); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("apply after the files moved on: %v, want ErrConflict", err)
	}
	same(t, "after the conflict", before, tree(t, b.dir))
}

func (s Suite) unsupported(t *testing.T) {
	b := s.lay(t, &s.Cases[0])
	snap := b.scan(t)
	before := tree(t, b.dir)
	for _, v := range s.Unsupported {
		change := s.Cases[0].Change(snap, b.now)
		change.Verb = v
		if err := b.a.Apply(t.Context(), change, b.now); !errors.Is(err, protocol.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", v, err)
		}
	}
	same(t, "after unsupported verbs", before, tree(t, b.dir))
}

func (s Suite) relativeDirs(t *testing.T) {
	b := s.lay(t, &s.Cases[0])
	for range 2 { // before and after the first scan
		dirs := b.a.Dirs()
		if len(dirs) == 0 {
			t.Error("no folder is watched")
		}
		for _, d := range dirs {
			if !filepath.IsLocal(filepath.FromSlash(d)) || filepath.ToSlash(d) != d {
				t.Errorf("%q is not relative to the project", d)
			}
		}
		b.scan(t)
	}
}
