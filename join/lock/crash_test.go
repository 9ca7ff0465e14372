package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
)

// dieAt takes and releases the lock, and kills itself with SIGKILL at one step.
func dieAt(dir, step string) error {
	o := Options{Now: time.Now, Mirror: mirrorOf(dir), step: func(s string) {
		if s == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}}
	h, err := Open(dir, o).Acquire(context.Background(), Request{Name: "src/a.go", Agent: "builder", TTL: time.Minute})
	if err != nil {
		return err
	}
	fmt.Println(h.Fence())
	return h.Release(context.Background())
}

// TestCrashAtEachStep: after a crash at any step the next process gets the lock at once, with a larger fencing token,
// and the state file ends up as it was before.
func TestCrashAtEachStep(t *testing.T) {
	steps := []string{"flocked", "claimed", "copied", "recorded", "releasing", "dropped"}
	dir := t.TempDir()
	seed(t, dir)
	var last uint64
	for _, step := range append(steps, steps...) {
		if step == "copied" { // the second copy is written only once in a thousand grants
			_ = os.Remove(place(dir, "src%2Fa.go.fence"))
		}
		out, err := withOutput(role(t, "step", dir, envStep+"="+step))
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != -1 {
			t.Fatalf("%s: it did not die there: %v, %s", step, err, out)
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(out), 10, 64); err == nil {
			if n <= last {
				t.Fatalf("%s: number %d after %d", step, n, last)
			}
			last = n
		}
		p := locksOf(dir, true)
		h, err := p.Acquire(t.Context(), Request{Name: "src/a.go", Agent: "fixer", TTL: time.Minute, NoWait: true})
		if err != nil {
			t.Fatalf("after a death at %s: %v", step, err)
		}
		if h.Fence() <= last {
			t.Fatalf("after a death at %s: number %d after %d", step, h.Fence(), last)
		}
		last = h.Fence()
		if got := readText(t, statePath(dir)); strings.Count(got, `"agent":`) != 1 || !strings.Contains(got, `"agent": "fixer"`) {
			t.Errorf("after a death at %s the state is %s", step, got)
		}
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.Close()
		if got := readText(t, statePath(dir)); got != plainState {
			t.Errorf("after a death at %s and one holding more the state is %s", step, got)
		}
	}
}

func withOutput(cmd *exec.Cmd) (string, error) {
	var out strings.Builder
	cmd.Stdout = &out
	err := cmd.Run()
	return out.String(), err
}

// holdUntilEOF holds a lock, prints its fencing token, and releases it at the end of its input.
func holdUntilEOF(dir string) error {
	p := locksOf(dir, true)
	h, err := p.Acquire(context.Background(), Request{Name: "it", Agent: "builder", TTL: time.Minute})
	if err != nil {
		return err
	}
	fmt.Println(h.Fence())
	_, _ = io.Copy(io.Discard, os.Stdin)
	err = h.Release(context.Background())
	p.Close()
	return err
}

// runHold runs "cat" under the lock; it ends with its input.
func runHold(dir string) error {
	p := locksOf(dir, true)
	_, err := p.Run(context.Background(), Request{Name: "it", Agent: "builder", TTL: time.Minute},
		Program{Argv: []string{"sh", "-c", "echo $STEWARD_LOCK_FENCE; cat"}, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			Tell: func(string) {}, Foreground: func() bool { return false }})
	return err
}

// holder starts a process that holds the lock "it"; end closes its input, kill sends SIGKILL.
func holder(t *testing.T, part, dir string) (cmd *exec.Cmd, end func()) {
	t.Helper()
	cmd = role(t, part, dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() { in.Close(); _ = cmd.Wait() }
	t.Cleanup(end)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the other process takes no lock: %v", err)
	}
	return cmd, end
}

// TestKillOfTheOneWhoRunsTheCommand: after a SIGKILL of steward the lock stays held while the command runs, list names
// the command, and the command's end frees the lock.
func TestKillOfTheOneWhoRunsTheCommand(t *testing.T) {
	dir := t.TempDir()
	seed(t, dir)
	cmd, end := holder(t, "runhold", dir)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = cmd.Process.Wait()
	p := locksOf(dir, true)
	defer p.Close()
	ask := Request{Name: "it", Agent: "fixer", TTL: time.Minute, NoWait: true}
	if _, err := p.Acquire(t.Context(), ask); !errors.Is(err, ErrHeld) {
		t.Fatalf("while the command runs: %v", err)
	}
	first := p.status("it", "it", time.Now()).Fence
	if _, err := proc.Table(); err == nil {
		s := p.status("it", "it", time.Now())
		if s.State != StateHeld || !s.Outlived || s.PID == cmd.Process.Pid || !strings.Contains(s.Why, "left behind") {
			t.Errorf("the list says %+v", s)
		}
		if l, ok := p.Granted("it"); !ok || !l.Kernel || l.Process.PID == cmd.Process.Pid {
			t.Errorf("adapters are told %+v, %v", l, ok)
		}
	}
	end()
	ask.NoWait, ask.Wait = false, 20*time.Second
	h, err := p.Acquire(t.Context(), ask)
	if err != nil {
		t.Fatalf("after the command: %v", err)
	}
	if h.Fence() != first+1 {
		t.Errorf("number %d", h.Fence())
	}
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestBreakEndsTheHolder: a break ends the holder and everything it started, but only with EndHolder.
func TestBreakEndsTheHolder(t *testing.T) {
	dir := t.TempDir()
	seed(t, dir)
	cmd, _ := holder(t, "runhold", dir)
	p := locksOf(dir, true)
	defer p.Close()
	s, err := p.Find(t.Context(), "it")
	if err != nil || !s.Alive || s.PID != cmd.Process.Pid {
		t.Skipf("the holder cannot be told here: %+v, %v", s, err)
	}
	b := Breaking{Status: s, By: "jesse", Why: "it hangs", Grace: 10 * time.Second}
	if err := p.Break(t.Context(), b); !errors.Is(err, ErrHeld) {
		t.Fatalf("a living holder: %v", err)
	}
	b.EndHolder = true
	stale := b
	stale.Status.Fence = 99
	if err := p.Break(t.Context(), stale); !errors.Is(err, ErrHeld) {
		t.Fatalf("another holding than the one that was shown: %v", err)
	}
	go cmd.Wait() // reap it, or it stays a zombie, which holds no lock
	if err := p.Break(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := readText(t, statePath(dir)); got != plainState {
		t.Errorf("the state is %s", got)
	}
	if got := readText(t, dir+"/.claude/steward/tombstones.jsonl"); !strings.Contains(got, `"why":"it hangs","by":"jesse"`) || !strings.Contains(got, `"agent":"builder"`) {
		t.Errorf("on record: %s", got)
	}
	h, err := p.Acquire(t.Context(), Request{Name: "it", Agent: "fixer", TTL: time.Minute, NoWait: true})
	if err != nil || h.Fence() != s.Fence+1 {
		t.Fatalf("after the break: %v", err)
	}
	_ = h.Release(t.Context())
}
