package proc

import (
	"context"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// descriptors sets how many descriptors this process may open; the returned function restores the limit.
func descriptors(t *testing.T, n uint64) (back func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	back = func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &old) }
	t.Cleanup(back)
	return back
}

func TestWatchWithoutDescriptors(t *testing.T) {
	w := NewWatcher()
	w.every = 5 * time.Millisecond
	first, second := start(t, "quiet"), start(t, "quiet")
	id1, id2 := inspectChild(t, first), inspectChild(t, second)
	run(t, w)
	add(t, w, Identity{PID: 1 << 30, Start: 1, Boot: id1.Boot})
	next(t, w) // now Run has opened all its own descriptors

	back := descriptors(t, 0)
	if got := Check(id1); got != Unknown {
		t.Fatalf("cannot read, yet the state is %v", got)
	}
	add(t, w, id1)
	add(t, w, id2)
	quiet(t, w)
	first.reap()
	if got := next(t, w); got != id1 {
		t.Fatalf("got %+v", got)
	}
	back()
	second.kill()
	if got := next(t, w); got != id2 {
		t.Fatalf("got %+v", got)
	}
}

func TestTerminateWithoutPidfd(t *testing.T) {
	c := start(t, "deaf")
	g := &handle{id: inspectChild(t, c)}
	if ended, err := g.end(t.Context(), unix.SIGTERM, 30*time.Millisecond); ended || err != nil {
		t.Fatalf("deaf, yet %v, %v", ended, err)
	}
	if ended, err := g.end(t.Context(), unix.SIGKILL, patience); !ended || err != nil {
		t.Fatalf("killed: %v, %v", ended, err)
	}
	c.reap()
	if gone, err := g.signal(unix.SIGKILL); !gone || err != nil {
		t.Fatalf("nobody: %v, %v", gone, err)
	}
	if err := g.send(unix.SIGKILL); err != unix.ESRCH {
		t.Fatalf("nobody: %v", err)
	}
}

func TestWatcherGivesDescriptorsBack(t *testing.T) {
	count := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	ended, left := start(t, "quiet"), start(t, "quiet")
	id := inspectChild(t, ended)
	before := count()
	w := NewWatcher()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	for _, c := range []*child{ended, ended, left} {
		add(t, w, inspectChild(t, c))
	}
	ended.kill()
	if got := next(t, w); got != id {
		t.Fatalf("got %+v", got)
	}
	if during := count(); during != before+1 { // the remaining pidfd
		t.Fatalf("%d descriptors before, %d while one process is watched", before, during)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if after := count(); after != before {
		t.Fatalf("%d descriptors before, %d after", before, after)
	}
}
