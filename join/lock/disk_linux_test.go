package lock

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// TestFullAndReadOnlyDisk: the error comes before a grant, the old record stays intact, and when there is room again
// the fencing tokens continue.
func TestFullAndReadOnlyDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("steward-test", dir, "tmpfs", 0, "size=128k"); err != nil {
		t.Skip("a small disk needs root: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	seed(t, dir)
	p := locksOf(dir, true)
	defer p.Close()
	h := take(t, p, "it")
	first := h.Fence()
	give(t, h)
	before, state := readText(t, place(dir, "it.json")), readText(t, statePath(dir))
	ask := Request{Name: "it", Agent: "builder", TTL: time.Minute, NoWait: true}
	refuse := func(what string, name string, want error) {
		t.Helper()
		ask.Name = name
		_, err := p.Acquire(t.Context(), ask)
		if !errors.Is(err, want) {
			t.Errorf("%s, %s: %v, want %v", what, name, err, want)
		}
		if readText(t, place(dir, "it.json")) != before || readText(t, statePath(dir)) != state {
			t.Errorf("%s: something was lost", what)
		}
		if s := p.status("it", "it", time.Now()); s.State != StateFree {
			t.Errorf("%s: %+v", what, s)
		}
	}
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 512))
	}
	filler.Close()
	refuse("full", "it", jsonfile.ErrNoSpace)
	refuse("full", "another", jsonfile.ErrNoSpace)
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	if h := take(t, p, "it"); h.Fence() != first+1 {
		t.Errorf("with room again: number %d", h.Fence())
	} else {
		give(t, h)
	}
	before = readText(t, place(dir, "it.json"))
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skip("a read-only folder needs root: ", err)
	}
	refuse("read-only", "it", syscall.EROFS)
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	if h := take(t, p, "it"); h.Fence() != first+2 {
		t.Errorf("writable again: number %d", h.Fence())
	} else {
		give(t, h)
	}
}
