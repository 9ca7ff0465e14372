package lock

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// gitProject creates a work tree with one commit, and returns a function to call git there.
func gitProject(t *testing.T) (dir string, git func(args ...string) string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	dir = t.TempDir()
	git = func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org", "-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v, %s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q")
	write(t, filepath.Join(dir, "tracked"), "x")
	git("add", "tracked")
	git("commit", "-q", "-m", "x")
	return dir, git
}

// TestGitLeavesLocksAlone: git's default cleaning commands remove neither a lock nor its fencing token.
func TestGitLeavesLocksAlone(t *testing.T) {
	dir, git := gitProject(t)
	p := locksOf(dir, false)
	defer p.Close()
	h := take(t, p, "it")
	for _, args := range [][]string{{"clean", "-qfd"}, {"stash", "-q", "-u"}, {"add", "-A"}} {
		write(t, filepath.Join(dir, "new"), "x")
		git(args...)
		if now, err := os.Lstat(place(dir, "it.lock")); err != nil || !os.SameFile(now, h.lock.on) {
			t.Errorf("git %q took the lock away: %v", args, err)
		}
		if s := p.status("it", "it", time.Now()); s.Fence != h.Fence() {
			t.Errorf("git %q took the record away: %+v", args, s)
		}
	}
	if got := git("diff", "--cached", "--name-only"); got != "new\n" {
		t.Errorf("to be committed: %q", got)
	}
	give(t, h)
}

// TestIgnoreFile: the ignore file is created where it is missing, also for an open Place, and an existing file stays.
func TestIgnoreFile(t *testing.T) {
	dir := t.TempDir()
	p := locksOf(dir, false)
	defer p.Close()
	path := filepath.Join(dir, own, ignoreFile)
	for range 2 {
		give(t, take(t, p, "it"))
		if got := readText(t, path); got != "*\n" {
			t.Fatalf("it says %q", got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	write(t, path, "theirs")
	give(t, take(t, p, "it"))
	if got := readText(t, path); got != "theirs" {
		t.Errorf("another's became %q", got)
	}
}

// wipe removes everything, as git clean -fdx does.
func wipe(t *testing.T, dir string) {
	t.Helper()
	away := filepath.Join(t.TempDir(), "away") // rename first: a holder may check in the middle
	if err := os.Rename(filepath.Join(dir, ".claude"), away); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(away); err != nil {
		t.Fatal(err)
	}
}

// unlink removes every file of the locks, and leaves the folder. The lock files go last: a holder may check in the
// middle.
func unlink(t *testing.T, dir string) {
	t.Helper()
	files, _ := filepath.Glob(place(dir, "*"))
	slices.SortStableFunc(files, func(a, b string) int {
		return cmp.Compare(strings.Count(filepath.Ext(a), lockSuffix), strings.Count(filepath.Ext(b), lockSuffix))
	})
	for _, file := range append([]string{filepath.Join(dir, own, tombFile)}, files...) {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// TestRemovedFolderStaysAway: neither a holder nor a waiter recreates the folder; a new command does.
func TestRemovedFolderStaysAway(t *testing.T) {
	dir := t.TempDir()
	p, other := locksOf(dir, false), locksOf(dir, false)
	defer p.Close()
	defer other.Close()
	r := runCat(t, p)
	waits, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := other.Acquire(context.Background(), Request{Name: "it", Agent: "fixer", TTL: time.Minute, Wait: 20 * time.Second,
			Waiting: func(Status) { close(waits) }})
		ended <- err
	}()
	<-waits
	time.Sleep(20 * time.Millisecond) // most probably in the kernel's queue by now
	wipe(t, dir)
	r.hears("others may get in: the folder " + filepath.Dir(place(dir, "it.lock")) + " was removed meanwhile")
	time.Sleep(2 * fileCheckInterval)
	gone := func(when string) {
		t.Helper()
		if _, err := os.Lstat(filepath.Join(dir, ".claude")); err == nil {
			t.Errorf("the folder is there again %s", when)
		}
	}
	gone("while the lock is held")
	r.end()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "was removed meanwhile; a new steward lock run makes it again") {
		t.Errorf("who waited: %v", err)
	}
	gone("after the wait")
	give(t, take(t, other, "it"))
}

// TestNumberAfterAWipe: the fencing token grows although every trace of the earlier tokens is gone.
func TestNumberAfterAWipe(t *testing.T) {
	dir := t.TempDir()
	p := locksOf(dir, true)
	defer p.Close()
	var last uint64
	for range 20 {
		for range 3 {
			h := take(t, p, "it")
			if h.Fence() <= last {
				t.Fatalf("number %d after %d", h.Fence(), last)
			}
			last = h.Fence()
			give(t, h)
		}
		wipe(t, dir)
	}
}

// TestRemovedWhileWaiting: a waiter whose lock file was removed gets the lock on the file that has the name then.
func TestRemovedWhileWaiting(t *testing.T) {
	dir := t.TempDir()
	p, other := locksOf(dir, false), locksOf(dir, false)
	defer p.Close()
	defer other.Close()
	first := take(t, p, "it")
	waits, got := make(chan struct{}), make(chan *Held, 1)
	go func() {
		defer close(got)
		h, err := other.Acquire(t.Context(), Request{Name: "it", Agent: "fixer", TTL: time.Minute, Wait: 20 * time.Second,
			Waiting: func(Status) { close(waits) }})
		if err != nil {
			t.Error(err)
			return
		}
		got <- h
	}()
	<-waits
	time.Sleep(20 * time.Millisecond) // most probably in the kernel's queue by now
	unlink(t, dir)
	give(t, first)
	h := <-got
	if h == nil {
		t.FailNow()
	}
	if now, err := os.Lstat(place(dir, "it.lock")); err != nil || !os.SameFile(now, h.lock.on) {
		t.Errorf("what it holds has no name: %v", err)
	}
	if h.Fence() <= first.Fence() {
		t.Errorf("number %d after %d", h.Fence(), first.Fence())
	}
	if _, err := p.Acquire(t.Context(), Request{Name: "it", Agent: "builder", TTL: time.Minute, NoWait: true}); !errors.Is(err, ErrHeld) {
		t.Errorf("a second one gets in: %v", err)
	}
	give(t, h)
}

// running is a command under the lock "it"; it ends with its input.
type running struct {
	*testing.T
	in    *os.File
	told  chan string
	ended chan error
}

func runCat(t *testing.T, p *Locks) *running {
	t.Helper()
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Skip(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t, in, make(chan string, 10), make(chan error, 1)}
	started := make(chan struct{})
	p.opts.step = func(s string) {
		if s == "started" {
			close(started)
		}
	}
	go func() {
		defer out.Close()
		_, err := p.Run(context.Background(), Request{Name: "it", Agent: "builder", TTL: time.Hour},
			Program{Argv: []string{cat}, Env: os.Environ(), Stdin: out, Stdout: os.Stdout, Stderr: os.Stderr, Tell: func(s string) { r.told <- s }, Foreground: func() bool { return false }})
		r.ended <- err
	}()
	t.Cleanup(func() { in.Close() })
	<-started
	return r
}

// hears waits for the next message.
func (r *running) hears(word string) {
	r.Helper()
	select {
	case s := <-r.told:
		if !strings.Contains(s, word) {
			r.Fatalf("it says %q, want %q", s, word)
		}
	case err := <-r.ended:
		r.Fatalf("the command has ended: %v", err)
	case <-time.After(20 * time.Second):
		r.Fatalf("it never says %q", word)
	}
}

func (r *running) end() {
	r.Helper()
	r.in.Close()
	if err := <-r.ended; err != nil {
		r.Error(err)
	}
	if len(r.told) > 0 {
		r.Errorf("it also says %q", <-r.told)
	}
}

// TestRemovedWhileHeld: the removal is reported and recorded; the holder is shown as before, and no other process gets
// the lock.
func TestRemovedWhileHeld(t *testing.T) {
	dir := t.TempDir()
	p, other := locksOf(dir, false), locksOf(dir, false)
	defer p.Close()
	defer other.Close()
	r := runCat(t, p)
	before := other.status("it", "it", time.Now())
	ask := Request{Name: "it", Agent: "fixer", TTL: time.Minute, NoWait: true}
	for range 2 { // also the recreated file
		unlink(t, dir)
		r.hears("another process removed the lock file " + place(dir, "it.lock"))
		if _, err := other.Acquire(t.Context(), ask); !errors.Is(err, ErrHeld) {
			t.Fatalf("a second one gets in: %v", err)
		}
		list, err := other.List(t.Context())
		if err != nil || len(list) != 1 || list[0].Agent != "builder" || list[0].State != before.State || list[0].Fence != before.Fence || list[0].PID != before.PID {
			t.Errorf("the list: %+v, %v; before: %+v", list, err, before)
		}
		if got := readText(t, filepath.Join(dir, own, tombFile)); strings.Count(got, `"reason":"lock_file_removed"`) != 1 || !strings.Contains(got, `"agent":"builder"`) {
			t.Errorf("on record: %s", got)
		}
	}
	r.end()
	h := take(t, other, "it")
	if h.Fence() <= before.Fence {
		t.Errorf("number %d after %d", h.Fence(), before.Fence)
	}
	give(t, h)
}

// TestRemovedAndTaken: if another process locks the new file first, that is reported once, its record stays, and the
// file is locked again when that process has released it.
func TestRemovedAndTaken(t *testing.T) {
	dir := t.TempDir()
	p, other := locksOf(dir, false), locksOf(dir, false)
	defer p.Close()
	defer other.Close()
	r := runCat(t, p)
	wipe(t, dir)
	ask := Request{Name: "it", Agent: "fixer", TTL: time.Minute, NoWait: true}
	h, err := other.Acquire(t.Context(), ask)
	if err != nil {
		r.hears("another process removed the lock file")
		t.Skip("the holder was quicker")
	}
	r.hears("others may get in")
	time.Sleep(fileCheckInterval + fileCheckInterval/2) // long enough for a second report, which must not come
	if got := other.status("it", "it", time.Now()); got.Fence != h.Fence() || got.Agent != "fixer" {
		t.Errorf("the record of the other one: %+v", got)
	}
	give(t, h)
	r.hears("is locked again")
	if _, err := other.Acquire(t.Context(), ask); !errors.Is(err, ErrHeld) {
		t.Errorf("a second one gets in: %v", err)
	}
	r.end()
	next := take(t, other, "it")
	if next.Fence() != h.Fence()+1 {
		t.Errorf("number %d after %d: the holder wrote over the record of the other one", next.Fence(), h.Fence())
	}
	give(t, next)
}

// TestHolderWithoutARecord: the kernel's answer suffices to show that the lock is held.
func TestHolderWithoutARecord(t *testing.T) {
	dir := t.TempDir()
	p := locksOf(dir, false)
	defer p.Close()
	h := take(t, p, "it")
	if err := os.Remove(place(dir, "it.json")); err != nil {
		t.Fatal(err)
	}
	by, err := p.opts.Holders(place(dir, "it.lock"))
	if err != nil {
		t.Skip(err)
	}
	list, err := p.List(t.Context())
	if err != nil || len(list) != 1 || list[0].State != StateHeld || !list[0].Alive || list[0].PID != by[0].PID {
		t.Errorf("%+v, %v", list, err)
	}
	give(t, h)
}
