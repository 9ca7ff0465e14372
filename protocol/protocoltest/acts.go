package protocoltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"
)

// Act is something that a client of a protocol does in a project.
type Act struct {
	Name string
	// Lay prepares a project. Do acts in it.
	Lay func(t testing.TB, dir string, now time.Time)
	Do  func(dir string, now time.Time) error
	// After does what the next process does, and checks the files. killed is false if Do was not disturbed.
	After func(t testing.TB, dir string, now time.Time, killed bool)
}

// KillActs kills each act before each of its calls that change the file system, and checks the files after that. clock is the clock of the files: time.Now.
func KillActs(t *testing.T, clock func() time.Time, acts []Act) {
	if inChild() {
		childActs(acts)
		return
	}
	if testing.Short() {
		t.Skip("kills some hundred processes; skipped in short mode")
	}
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed: no process can be killed between two steps (apt-get install strace)")
	}
	for i := range acts {
		t.Run(acts[i].Name, func(t *testing.T) {
			t.Parallel()
			acts[i].kill(t, clock)
		})
	}
}

// childActs is the child that is killed.
func childActs(acts []Act) {
	runtime.LockOSThread() // strace counts calls per thread
	now, err := time.Parse(time.RFC3339Nano, os.Getenv(envNow))
	for i := range acts {
		if a := &acts[i]; err == nil && a.Name == os.Getenv(envCase) {
			if err = traceThread(os.Getenv(envHow), os.Getenv(envLog)); err == nil {
				err = a.Do(os.Getenv(envDir), now)
			}
			if err == nil {
				os.Exit(0)
			}
		}
	}
	fmt.Println("no such act, or it failed:", err)
	os.Exit(3)
}

func (a *Act) kill(t *testing.T, clock func() time.Time) {
	trace := filepath.Join(t.TempDir(), "trace")
	a.run(t, clock(), "trace=uname,"+steps, trace)
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for _, call := range regexp.MustCompile(`(?m)^([a-z0-9]+)\(`).FindAllSubmatch(text, -1) {
		calls[string(call[1])]++
	}
	delete(calls, "uname") // of traceThread
	total := 0
	for kind, n := range calls {
		for i := 1; i <= n && !t.Failed(); i++ {
			a.run(t, clock(), fmt.Sprintf("inject=%s:signal=KILL:when=%d", kind, i), os.DevNull)
			total++
		}
	}
	if t.Logf("%d steps", total); total == 0 {
		t.Error("the act takes no step at all")
	}
}

func (a *Act) run(t *testing.T, now time.Time, how, trace string) {
	t.Helper()
	dir := memoryDir(t)
	a.Lay(t, dir, now)
	killed := runUnder(t, how, a.Name, dir, now, trace)
	a.After(t, dir, now, killed)
	if t.Failed() {
		t.Logf("after %s", how)
	}
}
