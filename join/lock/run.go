package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/status/terminal"
)

// A shell's exit codes for a command that did not run.
const (
	codeNotRunnable = 126
	codeNotFound    = 127
	codeSignal      = 128 // plus the signal's number, for a command that a signal ended
)

// Program is a command to run under a lock.
type Program struct {
	Argv                  []string
	Env                   []string // complete; STEWARD_LOCK and STEWARD_LOCK_FENCE are added
	Stdin, Stdout, Stderr *os.File
	// Tell reports one line to the user.
	Tell func(string)
	// Foreground reports whether the terminal itself sends keyboard interrupts to the command.
	Foreground func() bool
}

// StartError says why the command did not run; Code is the exit code that a shell would return.
type StartError struct {
	Code int
	Err  error
}

func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Run runs a command while it holds the lock, and returns the command's exit code as a shell would. The command
// inherits the lock: if this process is killed, the lock lasts until the command has ended. Processes that outlive the
// command keep the lock, and Run reports them. The error is a *StartError, or Acquire's. See docs/decisions.md, "The command inherits the lock".
func (l *Locks) Run(ctx context.Context, r Request, c Program) (code int, err error) {
	path, err := find(c.Argv[0])
	if err != nil {
		return 0, err
	}
	r.Command = c.Argv
	h, err := l.Acquire(ctx, r)
	if err != nil {
		return 0, err
	}
	ctx, stopped := context.WithoutCancel(ctx), ctx.Err()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwardedSignals()...)
	defer signal.Stop(signals)
	if stopped != nil {
		return 0, errors.Join(stopped, h.Release(ctx))
	}
	cmd, err := h.start(path, c)
	if err != nil {
		return 0, errors.Join(&StartError{codeOf(err), fmt.Errorf("run %s: %w", terminal.ShellQuote(c.Argv[0]), err)}, h.Release(ctx))
	}
	h.recordChild(cmd.Process.Pid, c)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	h.maintain(ctx, cmd, done, signals, c)
	return exitCode(cmd.ProcessState), h.finish(ctx, c)
}

// find resolves the command as a shell does, before waiting for a lock.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return path, nil
	}
	if strings.ContainsRune(name, filepath.Separator) || errors.Is(err, exec.ErrNotFound) {
		err = errors.Unwrap(err)
	}
	return "", &StartError{codeOf(err), fmt.Errorf("run %s: %w", terminal.ShellQuote(name), err)}
}

func codeOf(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return codeNotFound
	}
	return codeNotRunnable
}

// start starts the command, which shares the lock from the start.
func (h *Held) start(path string, c Program) (*exec.Cmd, error) {
	cmd := &exec.Cmd{Path: path, Args: c.Argv, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
		Env: append(c.Env[:len(c.Env):len(c.Env)], "STEWARD_LOCK="+h.rec.Name, "STEWARD_LOCK_FENCE="+strconv.FormatUint(h.rec.Fence, 10))}
	if err := h.lock.Share(true); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	err := cmd.Start()
	_ = h.lock.Share(false)
	h.locks.opts.step("started")
	return cmd, err
}

// recordChild records the command's process where the kernel does not tell who holds a lock.
func (h *Held) recordChild(pid int, c Program) {
	if _, err := h.locks.opts.Holders(h.locks.folder.path(h.file, lockSuffix)); !errors.Is(err, errors.ErrUnsupported) {
		return
	}
	child, err := proc.Inspect(pid)
	if err != nil {
		return // the command has already ended
	}
	h.rec.Child = child
	if err := h.locks.folder.write(h.file, h.rec, max(h.seen, h.rec.Fence)); err != nil {
		c.Tell(fmt.Sprintf("the command cannot be put on record: %v", err))
	}
}

// mergeInterval is the interval between merges of late writes into a replaced state file.
const mergeInterval = 100 * time.Millisecond

// maintain maintains the lock until the command has ended. It renews the mirror's entry, merges late writes, forwards
// signals, recreates a removed lock file, and reports when the TTL has passed.
func (h *Held) maintain(ctx context.Context, cmd *exec.Cmd, done <-chan error, signals <-chan os.Signal, c Program) {
	half := max(h.rec.ttl()/2, 10*time.Millisecond)
	renew, settle, over := time.NewTicker(half), time.NewTicker(mergeInterval), time.NewTimer(h.rec.ttl())
	look := time.NewTicker(fileCheckInterval)
	defer look.Stop()
	defer renew.Stop()
	defer settle.Stop()
	defer over.Stop()
	var last string
	for {
		select {
		case <-done:
			return
		case s := <-signals:
			if s != os.Interrupt && s != syscall.SIGQUIT || !c.Foreground() {
				_ = cmd.Process.Signal(s)
			}
		case <-over.C:
			c.Tell(fmt.Sprintf("the lock %s is held for longer than %s now; %s goes on", h.rec.Name, h.rec.ttl(), terminal.ShellQuote(c.Argv[0])))
		case <-look.C:
			h.checkFile(ctx, c.Tell)
		case <-settle.C:
			if !h.locks.mirror.settle(ctx, h.locks.opts.Now()) {
				settle.Stop()
			}
		case <-renew.C:
			if news := h.renewEntry(ctx); news != "" && news != last {
				last = news
				c.Tell(news)
			}
			settle.Reset(mergeInterval)
		}
	}
}

// renewEntry renews the mirror's entry, and returns what is wrong with it.
func (h *Held) renewEntry(ctx context.Context) string {
	switch rival, err := h.Renew(ctx); {
	case err != nil:
		return fmt.Sprintf("other agents may not see that the lock %s is held: %v", h.rec.Name, err)
	case rival != nil:
		return fmt.Sprintf("%s has entered a lock of its own on %s, which is held here", rival.Holder, h.rec.Name)
	}
	return ""
}

// finish releases the lock. If processes that outlived the command share the lock, they keep it. The mirror's entry is
// then renewed once more, because no process renews it from now on.
func (h *Held) finish(ctx context.Context, c Program) error {
	left := h.locks.procs.sharers(h.locks.folder.path(h.file, lockSuffix))
	if len(left) == 0 {
		return h.Release(ctx)
	}
	_, err := h.Renew(ctx)
	c.Tell(fmt.Sprintf("%s has ended, but left %s behind: the lock %s stays until %s ended (or: steward lock break %s --end-holder)",
		terminal.ShellQuote(c.Argv[0]), processNames(left), h.rec.Name, theyHave(left), terminal.ShellQuote(h.rec.Name)))
	return errors.Join(err, h.lock.Leave())
}

func processNames(ids []proc.Identity) string {
	if len(ids) == 1 {
		return fmt.Sprintf("process %d", ids[0].PID)
	}
	words := make([]string, 0, len(ids))
	for _, id := range ids {
		words = append(words, strconv.Itoa(id.PID))
	}
	return "processes " + strings.Join(words, ", ")
}

func theyHave(ids []proc.Identity) string {
	if len(ids) == 1 {
		return "it has"
	}
	return "they have"
}

// forwardedSignals are the signals to forward. An ignored signal (nohup) stays ignored, here and in the command.
func forwardedSignals() []os.Signal {
	var all []os.Signal
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}

func exitCode(st *os.ProcessState) int {
	if w := st.Sys().(syscall.WaitStatus); w.Signaled() {
		return codeSignal + int(w.Signal())
	}
	return st.ExitCode()
}
