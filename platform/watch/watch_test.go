package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
)

// running starts a watcher, and stops it at the end of the test and checks for leaks.
func running(t testing.TB) *Watcher {
	t.Helper()
	others := goleak.IgnoreCurrent()
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		goleak.VerifyNone(t, others)
	})
	return w
}

func set(t testing.TB, w *Watcher, key string, dirs ...string) {
	t.Helper()
	if missing, err := w.Set(key, dirs); len(missing) > 0 || err != nil {
		t.Fatalf("Set: missing %v, %v", missing, err)
	}
}

func folderOf(t testing.TB, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t testing.TB, path string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func next(t testing.TB, w *Watcher) Event {
	t.Helper()
	select {
	case ev := <-w.Events():
		return ev
	case <-time.After(20 * time.Second):
		t.Fatal("no event")
		return Event{}
	}
}

// until reads events until the wanted one.
func until(t testing.TB, w *Watcher, want Event) {
	t.Helper()
	for next(t, w) != want {
	}
}

// silence reads events until that of a marker file, and fails on any event that breaks accepts.
func silence(t *testing.T, w *Watcher, key, dir string, breaks func(Event) bool) {
	t.Helper()
	marker := Event{Key: key, Path: write(t, filepath.Join(dir, "marker"))}
	for ev := next(t, w); ; ev = next(t, w) {
		if breaks(ev) {
			t.Fatalf("unexpected %+v", ev)
		}
		if ev == marker {
			return
		}
	}
}

func TestEachKindOfChange(t *testing.T) {
	w, dir := running(t), t.TempDir()
	set(t, w, "p", dir)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a)
	until(t, w, Event{Key: "p", Path: a})
	if err := os.Rename(a, b); err != nil {
		t.Fatal(err)
	}
	until(t, w, Event{Key: "p", Path: b})
	os.Remove(b)
	until(t, w, Event{Key: "p", Path: b})
	sub := folderOf(t, filepath.Join(dir, "sub"))
	until(t, w, Event{Key: "p", Path: sub})
}

func TestModeAloneIsNoEvent(t *testing.T) {
	w, dir := running(t), t.TempDir()
	a := write(t, filepath.Join(dir, "a"))
	set(t, w, "p", dir)
	os.Chmod(a, 0o644)
	os.Chmod(dir, 0o755)
	silence(t, w, "p", dir, func(ev Event) bool { return ev.Path == a || ev.Overflow })
}

func TestSetReplaces(t *testing.T) {
	w, root := running(t), t.TempDir()
	one, two := folderOf(t, filepath.Join(root, "1")), folderOf(t, filepath.Join(root, "2"))
	set(t, w, "p", one, one+"/", two)
	if n := w.Descriptors(); n != 2 {
		t.Fatalf("%d descriptors", n)
	}
	set(t, w, "p", two)
	if n := w.Descriptors(); n != 1 {
		t.Fatalf("%d descriptors", n)
	}
	write(t, filepath.Join(one, "a"))
	silence(t, w, "p", two, func(ev Event) bool { return filepath.Dir(ev.Path) == one })
	set(t, w, "p")
	if n := w.Descriptors(); n != 0 {
		t.Fatalf("%d descriptors", n)
	}
}

func TestMissingFolders(t *testing.T) {
	w, root := running(t), t.TempDir()
	there, later := root, filepath.Join(root, "later")
	file := write(t, filepath.Join(root, "file"))
	missing, err := w.Set("p", []string{there, later, file, filepath.Join(file, "below")})
	if want := []string{later, file, filepath.Join(file, "below")}; err != nil || !slices.Equal(missing, want) {
		t.Fatalf("missing %v, %v", missing, err)
	}
	folderOf(t, later)
	until(t, w, Event{Key: "p", Path: later})
	set(t, w, "p", there, later)
	until(t, w, Event{Key: "p", Path: write(t, filepath.Join(later, "a"))})
}

func TestAdd(t *testing.T) {
	w, dir := running(t), t.TempDir()
	for range 2 {
		if err := w.Add(dir); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.Descriptors(); n != 1 {
		t.Fatalf("%d descriptors", n)
	}
	a := write(t, filepath.Join(dir, "a"))
	until(t, w, Event{Path: a})
	if err := w.Add(a); err == nil {
		t.Error("a file was added")
	}
	if err := w.Add(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestFolderOfTwoKeys(t *testing.T) {
	w, dir := running(t), t.TempDir()
	set(t, w, "p", dir)
	set(t, w, "q", dir)
	if n := w.Descriptors(); n != 1 {
		t.Fatalf("%d descriptors", n)
	}
	a := write(t, filepath.Join(dir, "a"))
	got := map[string]bool{}
	for !got["p"] || !got["q"] {
		if ev := next(t, w); ev.Path == a {
			got[ev.Key] = true
		}
	}
	set(t, w, "p")
	until(t, w, Event{Key: "q", Path: write(t, filepath.Join(dir, "b"))})
}

func TestFolderUnderTwoNames(t *testing.T) {
	w, root := running(t), t.TempDir()
	dir, link := folderOf(t, filepath.Join(root, "dir")), filepath.Join(root, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	set(t, w, "p", dir)
	set(t, w, "q", link)
	write(t, filepath.Join(dir, "a"))
	got := map[Event]bool{}
	for !got[Event{Key: "p", Path: filepath.Join(dir, "a")}] || !got[Event{Key: "q", Path: filepath.Join(link, "a")}] {
		got[next(t, w)] = true
	}
	set(t, w, "p")
	write(t, filepath.Join(dir, "b"))
	until(t, w, Event{Key: "q", Path: filepath.Join(link, "b")})
	w.notify.Errors <- fsnotify.ErrEventOverflow
	until(t, w, Event{Key: "q", Overflow: true, Lost: true})
	set(t, w, "q", link)
	write(t, filepath.Join(dir, "c"))
	until(t, w, Event{Key: "q", Path: filepath.Join(link, "c")})
}

func TestFolderRemovedAndMadeAgain(t *testing.T) {
	w, root := running(t), t.TempDir()
	dir := folderOf(t, filepath.Join(root, "dir"))
	for round := range 20 {
		set(t, w, "p", root, dir)
		set(t, w, "q", dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for !got["p"] || !got["q"] {
			ev := next(t, w)
			got[ev.Key] = got[ev.Key] || ev.Overflow
		}
		folderOf(t, dir)
		set(t, w, "p", root, dir)
		set(t, w, "q", dir)
		a := filepath.Join(dir, "a")
		for _, want := range []Event{{Key: "p", Path: a}, {Key: "q", Path: a}} {
			if !arrives(t, w, want, map[string][]string{"p": {root, dir}, "q": {dir}}) {
				t.Fatalf("round %d: no %+v", round, want)
			}
		}
	}
}

// arrives writes the file until its event arrives. It acts as a caller: on Overflow it calls Set again.
func arrives(t *testing.T, w *Watcher, want Event, dirs map[string][]string) bool {
	t.Helper()
	write(t, want.Path)
	watchdog := time.After(20 * time.Second)
	for {
		select {
		case ev := <-w.Events():
			if ev == want {
				return true
			}
			if ev.Overflow {
				set(t, w, ev.Key, dirs[ev.Key]...)
				write(t, want.Path)
			}
		case <-watchdog:
			return false
		}
	}
}

// TestChurnSettles: whatever happens to the folders during scans, each change is reported in the end.
func TestChurnSettles(t *testing.T) {
	w, root := running(t), t.TempDir()
	a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
	dirs := map[string][]string{"p": {root, a, b}, "q": {a}}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // the callers
		defer close(stopped)
		for {
			select {
			case ev := <-w.Events():
				w.Set(ev.Key, dirs[ev.Key])
			case <-stop:
				return
			}
		}
	}()
	w.Set("p", dirs["p"])
	w.Set("q", dirs["q"])
	for i := range 300 {
		switch i % 4 {
		case 0, 2:
			os.Mkdir(a, 0o700)
		case 1:
			os.Rename(a, b)
		case 3:
			os.Remove(a)
			os.Remove(b)
		}
	}
	folderOf(t, a)
	folderOf(t, b)
	close(stop)
	<-stopped
	set(t, w, "p", dirs["p"]...)
	set(t, w, "q", dirs["q"]...)
	for _, want := range []Event{{Key: "p", Path: filepath.Join(a, "x")}, {Key: "q", Path: filepath.Join(a, "x")}, {Key: "p", Path: filepath.Join(b, "x")}} {
		if !arrives(t, w, want, dirs) {
			t.Fatalf("no %+v", want)
		}
	}
}

func TestFolderReplacedUnseen(t *testing.T) {
	w, root := running(t), t.TempDir()
	above := folderOf(t, filepath.Join(root, "above"))
	dir := folderOf(t, filepath.Join(above, "dir"))
	set(t, w, "p", dir)
	if err := os.Rename(above, above+".old"); err != nil { // dir itself is not renamed, so there is no event
		t.Fatal(err)
	}
	if missing, err := w.Set("p", []string{dir}); len(missing) != 1 || err != nil || w.Descriptors() != 0 {
		t.Fatalf("missing %v, %v, %d descriptors", missing, err, w.Descriptors())
	}
	folderOf(t, dir)
	set(t, w, "p", dir)
	until(t, w, Event{Key: "p", Path: write(t, filepath.Join(dir, "a"))})
	moved := filepath.Join(above+".old", "dir")
	set(t, w, "q", moved)
	until(t, w, Event{Key: "q", Path: write(t, filepath.Join(moved, "b"))})
}

func TestFolderMovedToAnotherKey(t *testing.T) {
	w, root := running(t), t.TempDir()
	above := folderOf(t, filepath.Join(root, "above"))
	dir := folderOf(t, filepath.Join(above, "dir"))
	set(t, w, "p", dir)
	os.Rename(above, above+".new")
	moved := filepath.Join(above+".new", "dir")
	set(t, w, "q", moved) // the kernel would continue to report under the old name
	until(t, w, Event{Key: "p", Overflow: true})
	w.Set("p", []string{dir})
	until(t, w, Event{Key: "q", Path: write(t, filepath.Join(moved, "a"))})
}

func TestFolderRenamed(t *testing.T) {
	w, root := running(t), t.TempDir()
	dir := folderOf(t, filepath.Join(root, "dir"))
	set(t, w, "p", dir)
	os.Rename(dir, dir+".old")
	until(t, w, Event{Key: "p", Overflow: true})
	if n := w.Descriptors(); n != 0 {
		t.Fatalf("%d descriptors", n)
	}
	os.Rename(dir+".old", dir)
	set(t, w, "p", dir)
	until(t, w, Event{Key: "p", Path: write(t, filepath.Join(dir, "a"))})
}

func TestBurstAndASlowReaderLoseNothing(t *testing.T) {
	w, root := running(t), t.TempDir()
	busy, calm := folderOf(t, filepath.Join(root, "busy")), folderOf(t, filepath.Join(root, "calm"))
	set(t, w, "busy", busy)
	set(t, w, "calm", calm)
	open := map[string]bool{}
	for i := range 5000 {
		open[write(t, filepath.Join(busy, fmt.Sprint(i)))] = true
	}
	last := write(t, filepath.Join(calm, "last"))
	calmSeen := false
	for len(open) > 0 || !calmSeen {
		switch ev := next(t, w); {
		case ev.Overflow && ev.Key == "busy":
			clear(open)
		case ev.Overflow, ev.Path == last:
			calmSeen = true
		default:
			delete(open, ev.Path)
		}
	}
}

func TestKernelQueueOverflow(t *testing.T) {
	w, dir := running(t), t.TempDir()
	set(t, w, "p", dir)
	set(t, w, "q", dir)
	w.notify.Errors <- fsnotify.ErrEventOverflow
	got := map[string]bool{}
	for !got["p"] || !got["q"] {
		ev := next(t, w)
		got[ev.Key] = got[ev.Key] || ev.Overflow
	}
	set(t, w, "p", dir)
	until(t, w, Event{Key: "p", Path: write(t, filepath.Join(dir, "a"))})
}

func TestNoWatchesIsTyped(t *testing.T) {
	for _, err := range []error{syscall.ENOSPC, syscall.EMFILE} {
		if got := typed(fmt.Errorf("add: %w", err)); !errors.Is(got, ErrNoWatches) || !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	if got := typed(fs.ErrPermission); errors.Is(got, ErrNoWatches) {
		t.Errorf("%v", got)
	}
}

func TestCloseWithoutRun(t *testing.T) {
	others := goleak.IgnoreCurrent()
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, others)
}

func BenchmarkLatency(b *testing.B) {
	w, dir := running(b), b.TempDir()
	set(b, w, "p", dir)
	tmp, path := filepath.Join(dir, "t"), filepath.Join(dir, "a")
	var took []time.Duration
	for b.Loop() {
		write(b, tmp)
		at := time.Now()
		os.Rename(tmp, path)
		until(b, w, Event{Key: "p", Path: path})
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(took[(len(took)-1)*99/100].Seconds()*1000, "p99-ms")
}

func BenchmarkSetUnchanged(b *testing.B) {
	w, root := running(b), b.TempDir()
	var dirs []string
	for i := range 50 {
		dirs = append(dirs, folderOf(b, filepath.Join(root, fmt.Sprint(i))))
	}
	for b.Loop() {
		set(b, w, "p", dirs...)
	}
}
