package protocoltest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// The killed child process learns from its environment what to do.
const (
	envCase = "PROTOCOLTEST_CASE"
	envDir  = "PROTOCOLTEST_DIR"
	envNow  = "PROTOCOLTEST_NOW"
	envHow  = "PROTOCOLTEST_HOW"
	envLog  = "PROTOCOLTEST_LOG"
)

// steps are the calls that change the file system. A child is killed before one of them.
const steps = "rename,renameat,renameat2,unlink,unlinkat,link,linkat,fsync,fdatasync,mkdir,mkdirat,fchmod"

func inChild() bool { return os.Getenv(envDir) != "" }

// child scans and applies one case's change in a folder that its parent has prepared.
func (s Suite) child(t *testing.T) {
	runtime.LockOSThread() // strace counts calls per thread
	i := slices.IndexFunc(s.Cases, func(c Case) bool { return c.Name == os.Getenv(envCase) })
	now, err := time.Parse(time.RFC3339Nano, os.Getenv(envNow))
	if i < 0 || err != nil {
		fmt.Println("no such case, or no time:", err)
		os.Exit(3)
	}
	if err := traceThread(os.Getenv(envHow), os.Getenv(envLog)); err != nil {
		fmt.Println("strace:", err)
		os.Exit(3)
	}
	a := s.Open(t, os.Getenv(envDir))
	snap := a.Observe(t.Context(), protocol.ScanOrder{Now: now})
	if err := a.Apply(t.Context(), s.Cases[i].Change(&snap, now), now); err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	os.Exit(0)
}

// crashes: after a kill before any step of a change, the next scan is sane, and the decisions based on it produce the
// same files.
func (s Suite) crashes(t *testing.T) {
	if testing.Short() {
		t.Skip("kills some hundred processes; skipped in short mode")
	}
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed: no process can be killed between two steps (apt-get install strace)")
	}
	for i := range s.Cases {
		c := &s.Cases[i]
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			s.crash(t, c)
		})
	}
}

// crash kills one child per step. strace counts each kind of call separately, so the kinds are tested one by one; an
// undisturbed child shows how many calls of each kind there are.
func (s Suite) crash(t *testing.T, c *Case) {
	now := s.Now().UTC()
	want := s.uncrashed(t, c, now)
	trace := filepath.Join(t.TempDir(), "trace")
	s.crashAt(t, c, now, want, "trace=uname,"+steps, trace)
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for _, call := range regexp.MustCompile(`(?m)^([a-z0-9]+)\(`).FindAllSubmatch(text, -1) {
		calls[string(call[1])]++
	}
	delete(calls, "uname") // of traceThread
	if len(calls) == 0 {
		t.Error("the change takes no step at all")
	}
	total := 0
	for kind, n := range calls {
		for i := 1; i <= n && !t.Failed(); i++ {
			how := fmt.Sprintf("inject=%s:signal=KILL:when=%d", kind, i)
			if !s.crashAt(t, c, now, want, how, os.DevNull) {
				t.Errorf("%s: the child was not killed; an undisturbed child makes %d such calls", how, n)
			}
			total++
		}
	}
	t.Logf("%d steps", total)
}

// crashAt runs a case in a child under strace and checks the result. It reports whether the child was killed.
func (s Suite) crashAt(t *testing.T, c *Case, now time.Time, want map[string]node, how, trace string) (killed bool) {
	t.Helper()
	b := &bench{dir: memoryDir(t), now: now}
	s.layIn(t, c, b)
	b.now = now
	before := b.scan(t)
	change := c.Change(before, now)
	killed = runUnder(t, how, c.Name, b.dir, now, trace)
	s.settle(t, how, c, b, before, change)
	same(t, how, want, tree(t, b.dir), slices.Concat(s.Logs, c.Tail)...)
	return killed
}

// uncrashed is the tree after an undisturbed change and its follow-up changes.
func (s Suite) uncrashed(t *testing.T, c *Case, now time.Time) map[string]node {
	t.Helper()
	b := &bench{dir: memoryDir(t), now: now}
	s.layIn(t, c, b)
	b.now = now
	before := b.scan(t)
	change := c.Change(before, now)
	if err := b.a.Apply(t.Context(), change, now); err != nil {
		t.Fatalf("apply: %v", err)
	}
	s.settle(t, "undisturbed", c, b, before, change)
	return tree(t, b.dir)
}

// settle scans with a new adapter, and applies the requested changes until there are none.
func (s Suite) settle(t *testing.T, what string, c *Case, b *bench, before *protocol.Snapshot, change protocol.Change) {
	t.Helper()
	a := s.Open(t, b.dir)
	for turn := range 8 {
		snap := a.Observe(t.Context(), protocol.ScanOrder{Now: b.now})
		sane(t, what, before, &snap)
		next := []protocol.Change{change}
		if s.Next != nil && c.Unseen == "" {
			next = s.Next(c, &snap, b.now)
		} else if turn > 0 {
			return
		}
		if len(next) == 0 {
			return
		}
		for _, n := range next {
			if err := a.Apply(t.Context(), n, b.now); err != nil && !errors.Is(err, protocol.ErrConflict) {
				t.Errorf("%s: %s at turn %d: %v", what, n.Verb, turn, err)
			}
		}
	}
	t.Errorf("%s: no rest after 8 turns", what)
}

// sane: no agent or task vanished, and there is no new fault.
func sane(t *testing.T, what string, before, now *protocol.Snapshot) {
	t.Helper()
	if len(now.Faults) > len(before.Faults) {
		t.Errorf("%s: %+v", what, now.Faults)
	}
	for i := range before.Tasks {
		if !slices.ContainsFunc(now.Tasks, func(k protocol.Task) bool { return k.ID == before.Tasks[i].ID }) {
			t.Errorf("%s: task %s vanished", what, before.Tasks[i].ID)
		}
	}
	for i := range before.Agents {
		if _, ok := now.Agent(before.Agents[i].Name); !ok {
			t.Errorf("%s: agent %s vanished", what, before.Agents[i].Name)
		}
	}
}

// memoryDir is t.TempDir on a RAM disk if the machine has one. No law tests a power loss, so no real disk is needed,
// and every fsync of a disk costs milliseconds.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "steward-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// runUnder runs a case in a child under strace, and reports whether the child was killed.
func runUnder(t *testing.T, how, name, dir string, now time.Time, trace string) (killed bool) {
	t.Helper()
	root, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+regexp.QuoteMeta(root)+"$")
	cmd.Env = append(os.Environ(), envCase+"="+name, envDir+"="+dir, envNow+"="+now.Format(time.RFC3339Nano), envHow+"="+how, envLog+"="+trace,
		"GORACE=atexit_sleep_ms=0") // otherwise every child waits a second
	out, err := cmd.CombinedOutput() // ends with strace, which keeps the output open
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() == -1:
		killed = true
	default:
		t.Fatalf("child under %s: %v\n%s", how, err, out)
	}
	return killed
}
