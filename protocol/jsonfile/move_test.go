package jsonfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/livhana/steward/protocol/jsonfile"
)

func TestRenameNeverOverwrites(t *testing.T) {
	r, dir := open(t, "a/x", "x", "b/y", "y")
	want(t, r.Rename("a/x", "b/y"), jsonfile.ErrExist, "a/x", "b/y")
	same(t, read(t, filepath.Join(dir, "b/y")), "y")
	must(t, r.Rename("a/x", "b/x"))
	same(t, names(t, filepath.Join(dir, "b")), "x y")
	want(t, r.Rename("a/x", "b/z"), jsonfile.ErrNotExist)
	want(t, r.Rename("a", "c"), jsonfile.ErrHostile)
}

func TestRenameHasOneWinner(t *testing.T) {
	r, dir := open(t)
	for i := range 100 {
		write(t, filepath.Join(dir, fmt.Sprint("from/", i)), fmt.Sprint(i))
	}
	must(t, r.MkdirAll("to", 0o755))
	won := race(100, func(i int) error {
		return r.Rename(fmt.Sprint("from/", i), "to/one", jsonfile.Volatile)
	}, jsonfile.ErrExist)
	same(t, len(won), 1)
	same(t, read(t, filepath.Join(dir, "to/one")), fmt.Sprint(won[0]))
	left, _, err := r.List("from")
	must(t, err)
	same(t, len(left), 99)

	won = race(100, func(i int) error {
		return r.Rename("to/one", fmt.Sprint("to/got", i), jsonfile.Volatile)
	}, jsonfile.ErrNotExist)
	same(t, len(won), 1)
	same(t, names(t, filepath.Join(dir, "to")), fmt.Sprint("got", won[0]))
}

func TestRenameIfAndRemoveIf(t *testing.T) {
	r, dir := open(t, "x", "judged", "y", "judged")
	sum := jsonfile.SumOf([]byte("judged"))
	other := jsonfile.SumOf([]byte("other"))
	want(t, r.RenameIf("x", "z", other), jsonfile.ErrConflict)
	want(t, r.RemoveIf("y", other), jsonfile.ErrConflict)
	same(t, names(t, dir), "x y")
	must(t, r.RenameIf("x", "z", sum))
	must(t, r.RemoveIf("y", sum))
	same(t, names(t, dir), "z")
	want(t, r.RemoveIf("y", sum), jsonfile.ErrNotExist)
	must(t, r.Remove("z"))
	want(t, r.Remove("z"), jsonfile.ErrNotExist)
}

// The moved file is the judged file, however quickly a client replaces it.
func TestRenameIfMovesWhatWasJudged(t *testing.T) {
	r, dir := open(t, "x", "0")
	moved, conflicts := 0, 0
	for i := 1; i <= 1000; i++ {
		mine := filepath.Join(dir, "client.tmp")
		write(t, mine, fmt.Sprint(i))
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := os.Rename(mine, filepath.Join(dir, "x")); err != nil {
				t.Error(err)
			}
		})
		if b, err := r.Read("x", 0); err == nil {
			switch err := r.RenameIf("x", "y", b.Sum, jsonfile.Volatile); {
			case err == nil:
				same(t, read(t, filepath.Join(dir, "y")), string(b.Data))
				must(t, r.Remove("y", jsonfile.Volatile))
				moved++
			case errors.Is(err, jsonfile.ErrConflict):
				conflicts++
			default:
				t.Fatal(err)
			}
		}
		wg.Wait()
		if got := names(t, dir); got != "x" && got != "" {
			t.Fatalf("round %d left %q", i, got)
		}
	}
	t.Logf("%d moved, %d conflicts", moved, conflicts)
}

func TestHardLink(t *testing.T) {
	r, dir := open(t, "x", "x")
	must(t, os.Link(filepath.Join(dir, "x"), filepath.Join(dir, "first")))
	want(t, r.Append("first", []byte("z")), jsonfile.ErrHostile, "2 hard links")
	_, err := r.Read("first", 0)
	must(t, err)
}

func TestMkdirAll(t *testing.T) {
	r, dir := open(t, "file", "")
	must(t, r.MkdirAll("a/b/c", 0o775))
	must(t, os.Chmod(filepath.Join(dir, "a"), 0o700))
	must(t, r.MkdirAll("a/b/c/d", 0o777))
	must(t, r.MkdirAll("a/b/c/d", 0o777))
	must(t, r.MkdirAll(".", 0o777))
	st, err := r.Stat("a")
	must(t, err)
	if st.UID >= 0 {
		same(t, st.Mode.Perm(), 0o700)
	}
	want(t, r.MkdirAll("file/x", 0o755), jsonfile.ErrHostile)
}
