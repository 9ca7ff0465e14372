package jsonfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

func TestReadGivesContentStampAndSum(t *testing.T) {
	r, dir := open(t, "codex_tasks/task_1.request.json", `{"a":1}`)
	b, err := r.Read("codex_tasks/task_1.request.json", 0)
	must(t, err)
	same(t, string(b.Data), `{"a":1}`)
	same(t, b.Sum, jsonfile.SumOf([]byte(`{"a":1}`)))
	st, err := r.Stat("codex_tasks/task_1.request.json")
	must(t, err)
	same(t, st, b.Stamp)
	same(t, st.Size, 7)

	write(t, filepath.Join(dir, "codex_tasks/task_1.request.json"), `{"a":12}`)
	st, err = r.Stat("codex_tasks/task_1.request.json")
	must(t, err)
	if st == b.Stamp {
		t.Fatal("stamp did not change with the file")
	}
}

func TestPathsStayInside(t *testing.T) {
	r, dir := open(t, "a/b.json", "{}")
	write(t, filepath.Join(filepath.Dir(dir), "secret.json"), "{}")
	for _, p := range []string{"../secret.json", "a/../../secret.json", "/etc/passwd", "", ".", "..", "a/", "a//b.json", "./a/b.json", "a/b\x00.json"} {
		_, err := r.Read(p, 0)
		want(t, err, jsonfile.ErrHostile)
		want(t, r.Create(p, nil, 0o644), jsonfile.ErrHostile)
		want(t, r.Rename("a/b.json", p), jsonfile.ErrHostile)
		want(t, r.Append(p, []byte("x")), jsonfile.ErrHostile)
		if p != "." {
			want(t, r.MkdirAll(p, 0o755), jsonfile.ErrHostile)
		}
	}
	for id, plain := range map[string]bool{"T-1": true, "a.b": true, "": false, ".": false, "..": false, "a/b": false, `a\b`: false, "a\nb": false, "a\x00": false, strings.Repeat("x", 300): false, "\xff": false} {
		if jsonfile.PlainName(id) != plain {
			t.Errorf("PlainName(%q) = %v", id, !plain)
		}
	}
}

func TestReadLimits(t *testing.T) {
	r, _ := open(t, "two", strings.Repeat("x", 2<<20), "small", "12345", "empty", "")
	_, err := r.Read("two", 0)
	want(t, err, jsonfile.ErrTooBig, "2097152")
	_, err = r.Read("small", 4)
	want(t, err, jsonfile.ErrTooBig)
	for p, max := range map[string]int64{"two": 2 << 20, "small": 5, "empty": 0} {
		if _, err := r.Read(p, max); err != nil {
			t.Error(err)
		}
	}
	_, err = r.Read("none/none", 0)
	want(t, err, jsonfile.ErrNotExist, "none/none")
}

// A folder or file in the wrong place yields an error, not a hang.
func TestFolderInPlaceOfFileAndBack(t *testing.T) {
	r, _ := open(t, "dir/x", "1", "file", "2")
	_, err := r.Read("dir", 0)
	want(t, err, jsonfile.ErrHostile, "folder")
	_, err = r.Read("file/x", 0)
	want(t, err, jsonfile.ErrHostile, "file")
	_, _, err = r.List("file")
	want(t, err, jsonfile.ErrHostile)
	_, err = r.Replace("dir", []byte("{}"), jsonfile.Any)
	want(t, err, jsonfile.ErrHostile)
	want(t, r.Append("dir", []byte("x")), jsonfile.ErrHostile)
	want(t, r.Remove("dir"), jsonfile.ErrHostile)
	st, err := r.Stat("dir")
	must(t, err)
	same(t, st.Mode.IsDir(), true)
}

// The document has its number at both ends, so a mixture of two versions is detected.
func TestTornReaderNeverSeesAMixture(t *testing.T) {
	if fi, err := os.Stat("/dev/shm"); err == nil && fi.IsDir() {
		t.Setenv("TMPDIR", "/dev/shm") // a fast disk mixes more
	}
	r, dir := open(t)
	path := filepath.Join(dir, "heartbeat.json")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := 0; ; i++ {
			doc := fmt.Sprintf(`{"first":%d,"fill":"%s","last":%d}`, i, strings.Repeat("é", 60_000-i%7), i)
			if err := os.WriteFile(path, []byte(doc), 0o644); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	halt := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer halt()
	good, torn := 0, 0
	for good < 200 && t.Context().Err() == nil {
		o, _, err := r.Load("heartbeat.json", 0)
		switch {
		case errors.Is(err, jsonfile.ErrTorn):
			torn++
		case errors.Is(err, jsonfile.ErrNotExist) && good == 0:
		case err != nil:
			t.Fatalf("a torn read was judged: %v", err)
		default:
			first, _ := o.Int("first")
			last, _ := o.Int("last")
			same(t, last, first)
			good++
		}
	}
	halt()
	t.Logf("%d good, %d torn", good, torn)
	_, _, err := r.Load("heartbeat.json", 0)
	must(t, err)
}

func TestReadAtFollowsALog(t *testing.T) {
	r, dir := open(t, "log", "one\ntwo\n")
	data, st, err := r.ReadAt("log", 4, 0)
	must(t, err)
	same(t, string(data), "two\n")
	data, _, err = r.ReadAt("log", 0, 3)
	must(t, err)
	same(t, string(data), "one")
	data, _, err = r.ReadAt("log", st.Size, 0)
	must(t, err)
	same(t, len(data), 0)
	must(t, os.Truncate(filepath.Join(dir, "log"), 2))
	data, st, err = r.ReadAt("log", 8, 0)
	must(t, err)
	same(t, fmt.Sprint(len(data), st.Size < 8), "0 true")
}

func TestList(t *testing.T) {
	r, _ := open(t, "d/a", "", "d/b", "")
	got, before, err := r.List("d")
	must(t, err)
	same(t, len(got), 2)
	must(t, r.Create("d/c", nil, 0o644))
	got, after, err := r.List("d")
	must(t, err)
	same(t, len(got), 3)
	if !after.Settled(after.ModTime().Add(3*time.Second)) || after.Settled(after.ModTime()) {
		t.Error("Settled does not follow the clock")
	}
	if before.Inode != after.Inode {
		t.Error("another folder")
	}
	for range 2 { // a second read of the root starts from the beginning
		got, _, err = r.List(".")
		must(t, err)
		same(t, len(got), 1)
	}
}

// Each returns the same names as List, also if that takes many system calls, and whatever the names are.
func TestEach(t *testing.T) {
	r, dir := open(t, "d/"+strings.Repeat("n", 255), "", "d/.hidden", "", "d/\xff\xfe", "", "d/x/y", "")
	for i := range 3000 {
		write(t, filepath.Join(dir, "d", fmt.Sprintf("task_%d.%s", i, strings.Repeat("x", i%70))), "")
	}
	list, before, err := r.List("d")
	must(t, err)
	for range 2 {
		var each []string
		st, err := r.Each("d", func(name []byte) { each = append(each, string(name)) })
		must(t, err)
		slices.Sort(list)
		slices.Sort(each)
		if !slices.Equal(list, each) || len(each) != 3004 || st != before {
			t.Errorf("%d names, want the same %d; %v, want %v", len(each), len(list), st, before)
		}
	}
	_, err = r.Each("missing", func([]byte) { t.Error("a name from nowhere") })
	want(t, err, jsonfile.ErrNotExist, "missing")
	if _, err = r.Each("d/.hidden", func([]byte) { t.Error("a name in a file") }); err == nil {
		t.Error("a file was listed")
	}
}

func TestAlive(t *testing.T) {
	r, dir := open(t, "p/x.json", "{}")
	sub, err := r.Sub("p")
	must(t, err)
	defer sub.Close()
	same(t, sub.Alive() && r.Alive(), true)
	same(t, sub.Dir(), filepath.Join(r.Dir(), "p"))
	must(t, os.RemoveAll(filepath.Join(dir, "p")))
	same(t, sub.Alive(), false)
	must(t, os.Mkdir(filepath.Join(dir, "p"), 0o755))
	same(t, sub.Alive(), false)
	same(t, r.Alive(), true)
	_, err = sub.Read("x.json", 0)
	want(t, err, jsonfile.ErrNotExist, "p/x.json")
}

func TestClosedRootSaysSo(t *testing.T) {
	r, _ := open(t, "x", "1")
	must(t, r.Close())
	_, err := r.Read("x", 0)
	want(t, err, os.ErrClosed)
	if _, err := jsonfile.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, jsonfile.ErrNotExist) {
		t.Error(err)
	}
}
