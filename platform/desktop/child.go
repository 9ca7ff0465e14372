package desktop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// drainTime is how long a child's output may stay open after the child's end.
const drainTime = time.Second

// errDeadline is the cause if a child exceeded its own limit, not its caller's.
var errDeadline = errors.New("deadline passed")

// child is one run of a tool in its own process group.
type child struct {
	path  string // absolute
	args  []string
	env   []string
	stdin string
	limit time.Duration // after this time the whole group is killed

	stdout io.Writer // nil: discarded
}

// run starts the tool, waits until it has ended, and returns its run time. When run returns, no process of the tool's
// group is left (Linux; on other systems, processes that a tool left behind may still run).
func (c child) run(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, errDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = c.env, string(filepath.Separator), drainTime
	cmd.Stdin = strings.NewReader(c.stdin)
	words := &tail{}
	cmd.Stdout, cmd.Stderr = c.stdout, words
	group := &group{cmd: cmd}
	cmd.Cancel = group.kill
	isolate(cmd)

	runtime.LockOSThread() // Linux sends the parent-death signal when the thread ends, not the process
	defer runtime.UnlockOSThread()
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	if awaitExit(cmd.Process.Pid) {
		group.sweep()
	}
	took := time.Since(begin)
	return took, c.explain(ctx, cmd.Wait(), took, words.last())
}

// explain returns the error of a run.
func (c child) explain(ctx context.Context, err error, took time.Duration, said string) error {
	name := filepath.Base(c.path)
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // the tool succeeded; only its children kept the output open
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s: ended after %s: %w", name, took.Round(time.Millisecond), cause)
	}
	if said != "" {
		return fmt.Errorf("%s: %w (%s)", name, err, said)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// group kills a child's process group, but only until the child is reaped: then another process may have its pid.
type group struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	end bool
}

func (g *group) kill() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.end {
		return os.ErrProcessDone
	}
	return killGroup(g.cmd.Process)
}

// sweep kills what an ended but unreaped child left in its group. No kill is possible after it.
func (g *group) sweep() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end = true
	_ = killGroup(g.cmd.Process)
}

// tail keeps the last output of a child, at most 1 KiB.
type tail struct{ buf bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	const most = 1024
	t.buf.Write(p[max(0, len(p)-most):])
	if extra := t.buf.Len() - most; extra > 0 {
		t.buf.Next(extra)
	}
	return len(p), nil
}

// last returns the last line, cleaned for use in an error.
func (t *tail) last() string {
	lines := strings.Split(strings.TrimSpace(t.buf.String()), "\n")
	return oneLine(lines[len(lines)-1], 200)
}
