// Package child runs the programs that steward uses to reach a person: each in a session of its own, within a time
// limit, and ended with its process group.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// drainTime is how long leftover processes may keep a child's pipes open after its end.
const drainTime = time.Second

// Child is one run of a program. It runs in the root folder, without steward's terminal, so that it cannot prompt there
// for a password. On Linux it dies with steward: a hung child must not outlive a killed supervisor.
type Child struct {
	Path   string // absolute
	Args   []string
	Env    []string
	Stdin  io.Reader
	Stdout io.Writer // nil: discarded

	// Grace is the time from SIGTERM to SIGKILL when ctx ends; 0: SIGKILL at once. The signals reach the whole group.
	Grace time.Duration
	// Sweep also kills what a child that ended by itself left in its group (Linux).
	Sweep bool
}

// Result describes a run.
type Result struct {
	Took time.Duration
	Said string // the end of its standard error
}

// Run starts the program and waits until it has ended. A run that ctx has cut short is an error that wraps the cause of
// ctx, whatever the exit code is.
func (c Child) Run(ctx context.Context) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = c.Env, "/", drainTime
	cmd.Stdin, cmd.Stdout = c.Stdin, c.Stdout
	isolate(cmd)
	words, err := overhear(cmd)
	if err != nil {
		return Result{}, err
	}
	runtime.LockOSThread() // Linux sends the parent-death signal when the thread ends, not the process
	defer runtime.UnlockOSThread()
	begin := time.Now()
	err = cmd.Start()
	words.started()
	if err != nil {
		words.last()
		return Result{}, err
	}
	took, cut, err := c.await(ctx, cmd, begin, words.over)
	r := Result{Took: took, Said: words.last()}
	switch {
	case cut != nil:
		return r, fmt.Errorf("it was ended after %s: %w", took.Round(time.Millisecond), cut)
	case errors.Is(err, exec.ErrWaitDelay): // the program succeeded; only its children kept a pipe open
		return r, nil
	}
	return r, err
}

// await waits until the child has ended. When ctx ends first, it ends the child and returns the cause in cut. silent is
// closed when no process has the child's standard error open any more.
func (c Child) await(ctx context.Context, cmd *exec.Cmd, begin time.Time, silent <-chan struct{}) (took time.Duration, cut, err error) {
	var reaped bool // then its pid may belong to another group
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if !awaitExit(cmd.Process.Pid) {
			err, reaped = cmd.Wait(), true
		}
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	}
	took = time.Since(begin)
	kill := c.Sweep
	if !closed(gone) {
		cut, kill = context.Cause(ctx), true
		if c.Grace > 0 {
			signal(cmd.Process, syscall.SIGTERM)
			patience := time.NewTimer(c.Grace)
			defer patience.Stop()
			_ = wait(gone, patience.C) && wait(silent, patience.C)
		}
	}
	if kill && (!closed(gone) || !reaped) {
		signal(cmd.Process, syscall.SIGKILL)
	}
	if <-gone; !reaped {
		err = cmd.Wait()
	}
	return took, cut, err
}

// signal reaches the child's whole process group. The child must not have been reaped.
func signal(p *os.Process, sig syscall.Signal) { _ = syscall.Kill(-p.Pid, sig) }

func wait(done <-chan struct{}, patience <-chan time.Time) bool {
	select {
	case <-done:
		return true
	case <-patience:
		return false
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// words reads a child's standard error.
type words struct {
	ours, childs *os.File
	tail         Tail
	over         chan struct{} // closed when the pipe has no writers
}

// overhear sets the standard error of a child before its start. It uses a pipe of its own, whose end shows when all
// descendants are gone or have closed it.
func overhear(cmd *exec.Cmd) (*words, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = w
	return &words{ours: r, childs: w, over: make(chan struct{})}, nil
}

// started must be called after the start, even after one that failed.
func (w *words) started() {
	w.childs.Close()
	go func() {
		defer close(w.over)
		_, _ = io.Copy(&w.tail, w.ours)
	}()
}

// last waits briefly for processes that still hold the pipe and returns the last output.
func (w *words) last() string {
	patience := time.NewTimer(drainTime)
	defer patience.Stop()
	wait(w.over, patience.C)
	w.ours.Close()
	<-w.over
	return w.tail.String()
}

// Tail keeps the last output of a child, at most 1 KiB.
type Tail struct{ text []byte }

func (t *Tail) Write(p []byte) (int, error) {
	const most = 1024
	t.text = append(t.text, p[max(0, len(p)-most):]...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(p), nil
}

func (t *Tail) String() string { return string(t.text) }

// Environment returns only the variables that a program needs to find its settings, its language and its desktop, and
// those with the further names. The others often contain secrets of the agents (tokens, keys).
func Environment(further ...string) []string {
	names := append([]string{
		"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TMPDIR",
		"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
	}, further...)
	env := make([]string, 0, len(names)) // never nil, which would pass on the whole environment
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
