package folder

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// A folder appears, vanishes, comes back, and is replaced under the same name: earlier reads are dropped each time.
func TestComesAndGoes(t *testing.T) {
	r := newRoom(t, "")
	if s, there := r.look(0); there || len(s.Faults) > 0 || !s.At.Equal(r.Now) {
		t.Errorf("missing: %v, %+v", there, s)
	}
	if err := r.Open(); !Missing(err) {
		t.Errorf("missing: %v", err)
	}
	if err := r.Change(t.Context(), r.Now, func() error { return nil }); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("a change of a missing folder: %v", err)
	}
	for _, step := range []struct {
		what   string
		do     func() error
		there  bool
		forget bool
	}{
		{"it appears", func() error { return os.Mkdir(r.path("."), 0o755) }, true, true},
		{"it stays", func() error { return nil }, true, false},
		{"it vanishes", func() error { return os.Rename(r.path("."), r.path("../aside")) }, false, true},
		{"it comes back", func() error { return os.Rename(r.path("../aside"), r.path(".")) }, true, true},
		{"another has its name", func() error {
			return errors.Join(os.Rename(r.path("."), r.path("../aside")), os.MkdirAll(r.path("new"), 0o755))
		}, true, true},
	} {
		r.do(step.do())
		before := r.forgot
		s, there := r.look(time.Second)
		if there != step.there || len(s.Faults) > 0 || (r.Root != nil) != there || (r.forgot > before) != step.forget {
			t.Errorf("%s: there %v, open %v, forgot %d, %+v", step.what, there, r.Root != nil, r.forgot-before, s.Faults)
		}
	}
	if _, err := r.Root.Stat("new"); err != nil {
		t.Errorf("the old one is read: %v", err)
	}
}

func TestMake(t *testing.T) {
	r := newRoom(t, "")
	for range 2 {
		r.do(r.Make())
		if names, _, err := r.Root.List("."); err != nil || len(names) > 0 {
			t.Errorf("%v, %v", names, err)
		}
	}
	r.do(os.RemoveAll(r.dir))
	if err := r.Make(); !Missing(err) {
		t.Errorf("in no project: %v", err)
	}
}

// Without a base, the folder is the project.
func TestProjectItself(t *testing.T) {
	dir := t.TempDir()
	f := New(Options{Dir: dir, Own: ".own/deep", Forget: func() {}})
	defer f.Close()
	f.Begin(time.Now())
	if err := errors.Join(os.Mkdir(filepath.Join(dir, ".own"), 0o755), f.Make(), f.Guarded(t.Context(), func() error { return f.Root.Create("x", nil, 0o644) })); err != nil {
		t.Fatal(err)
	}
	if !Is(f.Root.Dir(), ".own/deep") || Is(f.Root.Dir(), "x") || Is(f.Root.Dir(), "none") || Is(f.Root.Dir()+"/none", "x") {
		t.Error("Is: a folder is one, a file and nothing are none")
	}
	if got := f.Fault(nil, "", jsonfile.ErrHostile); got.Path != "." {
		t.Errorf("%+v", got)
	}
}

func TestGuard(t *testing.T) {
	r := newRoom(t, "{}")
	ran := 0
	act := func() error {
		if ran++; !r.held {
			t.Error("the lock is free")
		}
		if _, err := r.Root.Stat("steward"); err != nil {
			t.Errorf("our own folder: %v", err)
		}
		return nil
	}
	r.do(r.Change(t.Context(), r.Now, act))
	if r.guard = errors.New("busy"); r.held || ran != 1 {
		t.Errorf("held %v, ran %d times", r.held, ran)
	}
	err := r.Change(t.Context(), r.Now, act)
	if !errors.Is(err, r.guard) || errors.Is(err, protocol.ErrConflict) || !strings.Contains(err.Error(), "guard lock") || ran != 1 {
		t.Errorf("%v, ran %d times", err, ran)
	}
	r.do(errors.Join(os.RemoveAll(r.path("steward")), os.WriteFile(r.path("steward"), nil, 0o644)))
	if err := r.Guarded(t.Context(), act); err == nil || ran != 1 {
		t.Errorf("a file in the place of our own folder: %v, ran %d times", err, ran)
	}
	other := newRoom(t, "{}")
	if err := other.Change(t.Context(), other.Now, func() error { return jsonfile.ErrTorn }); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("a document that is being written: %v", err)
	}
}

// Every ten minutes, drafts left by a crash are removed, and nothing else.
func TestSweep(t *testing.T) {
	r := newRoom(t, "{}")
	r.do(os.Mkdir(r.path("steward"), 0o755))
	lay := func() {
		for _, name := range []string{".steward-x.tmp", "steward/.steward-y.tmp", "steward/mine.tmp"} {
			r.do(os.WriteFile(r.path(name), nil, 0o644))
		}
	}
	left := func() (n int) {
		for _, dir := range []string{".", "steward"} {
			names, _ := filepath.Glob(r.path(dir + "/.steward-*"))
			n += len(names)
		}
		return n
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{2 * time.Minute, 0}, {9 * time.Minute, 2}, {time.Minute, 0}} {
		lay()
		r.Begin(r.Now.Add(step.after))
		r.do(r.Guarded(t.Context(), func() error { return nil }))
		if left() != step.want {
			t.Errorf("%v later %d drafts are left, want %d", step.after, left(), step.want)
		}
	}
	if _, err := os.Stat(r.path("steward/mine.tmp")); err != nil {
		t.Error(err)
	}
}

// Drafts that an adapter reported are swept without listing the folder: only old drafts of ours, and only reported
// ones.
func TestLitter(t *testing.T) {
	r := newRoom(t, "{}")
	r.do(os.Mkdir(r.path("many"), 0o755))
	for _, name := range []string{".steward-x.tmp", ".steward-y.tmp", "mine.tmp"} {
		r.do(os.WriteFile(r.path("many/"+name), nil, 0o644))
	}
	r.Litter("many", []string{".steward-x.tmp", ".steward-gone.tmp", "mine.tmp"})
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{0, 3}, {9 * time.Minute, 3}, {time.Minute, 2}} { // too young, not yet due, swept
		r.Begin(r.Now.Add(step.after))
		r.do(r.Guarded(t.Context(), func() error { return nil }))
		if names, _ := os.ReadDir(r.path("many")); len(names) != step.left {
			t.Errorf("%v later %d files are left, want %d", step.after, len(names), step.left)
		}
	}
	for _, name := range []string{".steward-y.tmp", "mine.tmp"} {
		if _, err := os.Stat(r.path("many/" + name)); err != nil {
			t.Error(err)
		}
	}
}

func TestConflict(t *testing.T) {
	for _, err := range []error{jsonfile.ErrConflict, jsonfile.ErrNotExist, jsonfile.ErrExist, jsonfile.ErrTorn, jsonfile.ErrBad,
		Moved("%s is %d", "it", 7)} {
		if got := Conflict(err); !errors.Is(got, protocol.ErrConflict) || !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	for _, err := range []error{nil, jsonfile.ErrPermission, jsonfile.ErrHostile, jsonfile.ErrNoSpace, context.Canceled} {
		if got := Conflict(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
	if once := Conflict(jsonfile.ErrTorn); Conflict(once) != once {
		t.Errorf("twice: %v", Conflict(once))
	}
	if once := Moved("%s is %d", "it", 7); Conflict(once) != once || !strings.HasSuffix(once.Error(), "it is 7") {
		t.Errorf("%v", once)
	}
}

// Whole waits for an incomplete document as long as a writer may be active.
func TestWhole(t *testing.T) {
	for what, c := range map[string]struct {
		wholeAfter, stopAfter, took time.Duration
		want                        error
	}{
		"at once":  {0, time.Hour, 0, nil},
		"a writer": {300 * time.Millisecond, time.Hour, 300 * time.Millisecond, nil},
		"for good": {time.Hour, 2 * time.Hour, jsonfile.BadAfter, jsonfile.ErrBad},
		"stopped":  {time.Hour, 320 * time.Millisecond, 320 * time.Millisecond, context.DeadlineExceeded},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, stop := context.WithTimeout(t.Context(), c.stopAfter)
				defer stop()
				err := Whole(ctx, func() error {
					if time.Since(began) < c.wholeAfter {
						return jsonfile.ErrBad
					}
					return nil
				})
				if took := time.Since(began); !errors.Is(err, c.want) || took != c.took {
					t.Errorf("%v after %v, want %v after %v", err, took, c.want, c.took)
				}
			})
		})
	}
	if err := Whole(t.Context(), func() error { return jsonfile.ErrNotExist }); !Missing(err) {
		t.Errorf("a missing one is not waited for: %v", err)
	}
}
