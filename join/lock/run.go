package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/status/terminal"
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

// Run runs a command while it holds the lock, and returns the command's exit code as a shell would. The command
// inherits the lock: if this process is killed, the lock lasts until the command has ended. Processes that outlive the
// command keep the lock, and Run reports them. The error is a *run.StartError, or Acquire's. See docs/decisions.md, "The command inherits the lock".
func (l *Locks) Run(ctx context.Context, r Request, c Program) (code int, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	search, _ := run.Variable(c.Env, "PATH")
	path, err := run.Find(c.Argv[0], dir, search) // before the wait for the lock
	if err != nil {
		return 0, run.NotStarted(fmt.Errorf("lock run: %w", err))
	}
	r.Command = c.Argv
	h, err := l.Acquire(ctx, r)
	if err != nil {
		return 0, err
	}
	ctx, stopped := context.WithoutCancel(ctx), ctx.Err()
	signals, stop := run.ForwardSignals()
	defer stop()
	if stopped != nil {
		return 0, errors.Join(stopped, h.Release(ctx))
	}
	cmd, err := h.start(path, c)
	if err != nil {
		err = run.NotStarted(fmt.Errorf("lock run: %w", run.StartFault(err, path, dir)))
		return 0, errors.Join(err, h.Release(ctx))
	}
	h.recordChild(cmd.Process.Pid, c)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	h.maintain(ctx, cmd, done, signals, c)
	return run.ShellCode(run.Status(cmd.ProcessState.Sys().(syscall.WaitStatus))), h.finish(ctx, c)
}

// start starts the command, which shares the lock from the start.
func (h *Held) start(path string, c Program) (*exec.Cmd, error) {
	cmd := &exec.Cmd{Path: path, Args: c.Argv, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
		Env: append(c.Env[:len(c.Env):len(c.Env)], "STEWARD_LOCK="+h.rec.Name, "STEWARD_LOCK_FENCE="+strconv.FormatUint(h.rec.Fence, 10))}
	if err := h.lock.Share(true); err != nil {
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
	renew, settle, look := time.NewTicker(half), time.NewTicker(mergeInterval), time.NewTicker(fileCheckInterval)
	defer renew.Stop()
	defer settle.Stop()
	defer look.Stop()
	over := time.After(h.rec.ttl())
	var last string
	for {
		select {
		case <-done:
			return
		case s := <-signals:
			if s != os.Interrupt && s != syscall.SIGQUIT || !c.Foreground() {
				_ = cmd.Process.Signal(s)
			}
		case <-over:
			c.Tell(fmt.Sprintf("the lock %s is held for longer than %s now; %s goes on", h.rec.Name, h.rec.ttl(), terminal.ShellQuote(c.Argv[0])))
		case <-look.C:
			h.checkFile(ctx, c.Tell)
		case <-settle.C:
			if !h.locks.mirror.Settle(ctx, h.locks.opts.Now()) {
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
	noun, pids := "process", make([]string, len(left))
	for i, id := range left {
		pids[i] = strconv.Itoa(id.PID)
	}
	if len(left) > 1 {
		noun = "processes"
	}
	c.Tell(fmt.Sprintf("%s has ended, but left %s %s behind: the lock %s stays until nothing of it is left (or: steward lock break %s --end-holder)",
		terminal.ShellQuote(c.Argv[0]), noun, strings.Join(pids, ", "), h.rec.Name, terminal.ShellQuote(h.rec.Name)))
	return errors.Join(err, h.lock.Leave())
}
