package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFlockWaitersNamesWhoWaits: waiters are returned; the holder, processes that only have the file open, and
// waiters for another lock are not.
func TestFlockWaitersNamesWhoWaits(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip(err)
	}
	path, f := lockFileIn(t)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if got, err := FlockWaiters(path); err != nil || len(got) != 0 {
		t.Errorf("nobody waits, got %v, %v", got, err)
	}
	other, g := lockFileIn(t)
	if err := unix.Flock(int(g.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	waiter := exec.Command("flock", path, "true")
	elsewhere := exec.Command("flock", other, "true")
	elsewhere.ExtraFiles = []*os.File{f} // shares the lock on path and waits for another lock
	for _, c := range []*exec.Cmd{waiter, elsewhere} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	}
	for _, c := range []struct {
		path string
		pid  int
	}{{path, waiter.Process.Pid}, {other, elsewhere.Process.Pid}} {
		want := []int{c.pid}
		var got []int
		for deadline := time.Now().Add(20 * time.Second); !slices.Equal(got, want) && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			ids, err := FlockWaiters(c.path)
			if err != nil {
				t.Fatal(err)
			}
			got = nil
			for _, id := range ids {
				got = append(got, id.PID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("for %s wait %v, want %v", c.path, got, want)
		}
	}
	if waiting, err := FlockWaiters(path); err != nil || len(waiting) != 1 {
		t.Errorf("with somebody else's queue beside it: %v, %v", waiting, err)
	}
	if _, err := FlockWaiters(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(unwrapped(err)) {
		t.Errorf("of a missing file: %v", err)
	}
}

func TestFlockQueueReadsTheTable(t *testing.T) {
	text := "1: FLOCK  ADVISORY  WRITE 20 00:2f:77 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 30 00:2f:77 0 EOF\n" +
		"1: -> FLOCK  ADVISORY  WRITE 25 00:2f:77 0 EOF\n2: -> POSIX  ADVISORY  WRITE 40 08:01:77 0 EOF\n" +
		"3: -> FLOCK  ADVISORY  WRITE 30 00:2f:78 0 EOF\n4: -> FLOCK\n5: -> FLOCK  ADVISORY  WRITE 0 00:2f:78 0 EOF\n\n"
	if got, want := flockQueue([]byte(text)), []int{25, 30}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
