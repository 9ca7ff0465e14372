package jsonfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

func TestCreateIsExclusive(t *testing.T) {
	r, dir := open(t)
	must(t, r.MkdirAll("a/b", 0o775))
	must(t, r.Create("a/b/x.json", []byte("{}"), 0o664))
	want(t, r.Create("a/b/x.json", []byte("[]"), 0o664), jsonfile.ErrExist, "a/b/x.json")
	same(t, read(t, filepath.Join(dir, "a/b/x.json")), "{}")
	same(t, names(t, filepath.Join(dir, "a/b")), "x.json")
	want(t, r.Create("none/x.json", nil, 0o644), jsonfile.ErrNotExist)
}

func TestCreateHasOneWinner(t *testing.T) {
	r, dir := open(t)
	won := race(100, func(i int) error {
		return r.Create("x.json", fmt.Append(nil, i), 0o644, jsonfile.Volatile)
	}, jsonfile.ErrExist)
	same(t, len(won), 1)
	same(t, read(t, filepath.Join(dir, "x.json")), fmt.Sprint(won[0]))
	same(t, names(t, dir), "x.json")
}

// race runs n goroutines at once and returns which succeeded; a loser with another error counts as a winner and so
// fails the test.
func race(n int, do func(i int) error, lost error) (won []int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			if err := do(i); !errors.Is(err, lost) {
				mu.Lock()
				won = append(won, i)
				mu.Unlock()
			}
		})
	}
	close(start)
	wg.Wait()
	return won
}

func TestReplaceComparesFirst(t *testing.T) {
	r, dir := open(t, "x.json", "old")
	path := filepath.Join(dir, "x.json")
	old := jsonfile.SumOf([]byte("old"))
	for _, c := range []struct {
		file   string
		expect jsonfile.Sum
		err    error
		after  string
	}{
		{"old", old, nil, "new"},
		{"old", jsonfile.Any, nil, "new"},
		{"other", old, jsonfile.ErrConflict, "other"},
		{"other", jsonfile.Absent, jsonfile.ErrConflict, "other"},
		{"-", old, jsonfile.ErrConflict, "-"},
		{"-", jsonfile.Absent, nil, "new"},
		{"-", jsonfile.Any, nil, "new"},
	} {
		must(t, os.RemoveAll(path))
		if c.file != "-" {
			write(t, path, c.file)
		}
		late, err := r.Replace("x.json", []byte("new"), c.expect)
		if !errors.Is(err, c.err) {
			t.Fatalf("%+v: %v", c, err)
		}
		must(t, late.Close())
		got := "-"
		if b, err := os.ReadFile(path); err == nil {
			got = string(b)
		}
		same(t, got, c.after)
	}
	same(t, names(t, dir), "x.json")
}

// A client that renames its own document into place at any moment must find that document or our edit of it there:
// never our edit of an older one.
func TestReplaceNeverHidesANewerFile(t *testing.T) {
	r, dir := open(t, "x", "0")
	conflicts := 0
	for i := 1; i <= 400; i++ {
		mine := filepath.Join(dir, "client.tmp")
		write(t, mine, fmt.Sprint(i))
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := os.Rename(mine, filepath.Join(dir, "x")); err != nil {
				t.Error(err)
			}
		})
		for range 3 {
			b, err := r.Read("x", 0)
			must(t, err)
			late, err := r.Replace("x", []byte(strings.TrimSuffix(string(b.Data), "+")+"+"), b.Sum, jsonfile.Volatile)
			if errors.Is(err, jsonfile.ErrConflict) {
				conflicts++
			} else {
				must(t, err)
			}
			must(t, late.Close())
		}
		wg.Wait()
		if got := strings.TrimSuffix(read(t, filepath.Join(dir, "x")), "+"); got != fmt.Sprint(i) {
			t.Fatalf("round %d: the file holds %q", i, got)
		}
	}
	same(t, names(t, dir), "x")
	t.Logf("%d conflicts", conflicts)
}

func TestUpdate(t *testing.T) {
	r, dir := open(t, "x", "1")
	calls := 0
	late, err := r.Update("x", 0, func(old []byte) ([]byte, error) {
		if calls++; calls == 1 { // another process writes in the meantime
			write(t, filepath.Join(dir, "x"), "2")
		}
		return append(old, '!'), nil
	})
	must(t, err)
	must(t, late.Close())
	same(t, read(t, filepath.Join(dir, "x")), "2!")

	_, err = r.Update("x", 0, func(old []byte) ([]byte, error) {
		write(t, filepath.Join(dir, "x"), string(old)+"?")
		return append(old, '!'), nil
	})
	want(t, err, jsonfile.ErrConflict)

	late, err = r.Update("x", 0, func(old []byte) ([]byte, error) {
		old[0] = '9' // an in-place modification is a change
		return old, nil
	})
	must(t, err)
	must(t, late.Close())
	same(t, read(t, filepath.Join(dir, "x"))[:1], "9")

	_, err = r.Update("new", 0, func(old []byte) ([]byte, error) {
		same(t, old == nil, true)
		return []byte("made"), nil
	})
	must(t, err)
	same(t, read(t, filepath.Join(dir, "new")), "made")
}

func TestUpdateThatChangesNothingWritesNothing(t *testing.T) {
	r, _ := open(t, "x", `{"a": 1}`)
	before, err := r.Stat("x")
	must(t, err)
	boom := errors.New("boom")
	for _, f := range []func([]byte) ([]byte, error){
		func(old []byte) ([]byte, error) { return old, nil },
		func([]byte) ([]byte, error) { return nil, nil },
		func([]byte) ([]byte, error) { return []byte("x"), boom },
	} {
		late, err := r.Update("x", 0, f)
		if late != nil || (err != nil && !errors.Is(err, boom)) {
			t.Fatal(late, err)
		}
	}
	_, err = r.Update("x", 0, func(old []byte) ([]byte, error) {
		return jsonfile.Edit(old[:3], jsonfile.Set{Path: []string{"a"}, Value: 2})
	})
	want(t, err, jsonfile.ErrTorn, "update x")
	after, err := r.Stat("x")
	must(t, err)
	same(t, after, before)
}

func TestAppend(t *testing.T) {
	r, dir := open(t, "torn.jsonl", "{\"a\":1}\n{\"b\":")
	must(t, r.Append("torn.jsonl", []byte(`{"c":3}`)))
	must(t, r.Append("torn.jsonl", []byte("{\"d\":4}\n")))
	same(t, read(t, filepath.Join(dir, "torn.jsonl")), "{\"a\":1}\n{\"b\":\n{\"c\":3}\n{\"d\":4}\n")
	for _, bad := range []string{"", "\n", "a\nb", "a\rb"} {
		want(t, r.Append("torn.jsonl", []byte(bad)), jsonfile.ErrShape)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := r.Append("new.jsonl", []byte(strings.Repeat("x", 300)), jsonfile.Volatile); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	lines := strings.Fields(read(t, filepath.Join(dir, "new.jsonl"))) // blank lines are allowed
	same(t, len(lines), 400)
	for _, l := range lines {
		same(t, len(l), 300)
	}
}

func TestSweepTakesOnlyOurOldDrafts(t *testing.T) {
	r, dir := open(t, ".steward-OLD.tmp", "", ".steward-keep.json", "", "x.tmp", "", ".steward.tmp", "")
	must(t, os.Mkdir(filepath.Join(dir, ".steward-dir.tmp"), 0o755))
	st, err := r.Stat(".steward-OLD.tmp")
	must(t, err)
	must(t, r.Sweep(".", st.ModTime().Add(50*time.Second)))
	same(t, names(t, dir), ".steward-OLD.tmp .steward-dir.tmp .steward-keep.json .steward.tmp x.tmp")
	must(t, r.Sweep(".", st.ModTime().Add(65*time.Second)))
	same(t, names(t, dir), ".steward-dir.tmp .steward-keep.json .steward.tmp x.tmp")
}
