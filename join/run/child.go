package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/livhana/steward/platform/proc"
)

// logFlags: do not follow a link, and do not block on a pipe without a reader.
const logFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK

// reapWait is how long the shim waits for the kernel to report the last killed processes.
const reapWait = 500 * time.Millisecond

// apart keeps a ^C in the worker's terminal from the shim.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// child is the command and its descendants.
type child struct {
	id     proc.Identity
	exited chan exit     // receives how the command ended, once
	none   chan struct{} // closed when this process has no more children
}

// exit is how the command ended. alone: no descendants are left, which only a subreaper can know.
type exit struct {
	code   int
	signal string
	alone  bool
}

// launch starts the command in its own session. On Linux the kernel sends it SIGKILL when the calling thread ends, so
// the goroutine must be locked to a thread that stays.
func launch(path string, s *Spec, files []*os.File) (*child, error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
	}
	pid, err := forkExec(path, s.Argv, &syscall.ProcAttr{Dir: s.Dir, Env: s.environment(), Files: fds, Sys: commandAttr()})
	if err != nil {
		return nil, classify(err, path, s.Dir)
	}
	c := &child{exited: make(chan exit, 1), none: make(chan struct{})}
	c.id, _ = proc.Inspect(pid) // zero if it has ended; until it is reaped its PID cannot be reused
	go c.reap(pid)
	return c, nil
}

// forkExec retries briefly while the program is open for writing (ETXTBSY): by the process that has just written it, or
// by a process forked meanwhile that has not yet closed its copy of the descriptor.
func forkExec(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	for wait := time.Millisecond; ; wait *= 2 {
		pid, err = syscall.ForkExec(path, argv, attr)
		if !errors.Is(err, syscall.ETXTBSY) || wait > 256*time.Millisecond {
			return pid, err
		}
		time.Sleep(wait)
	}
}

// reap waits for the command and for the orphans that the shim adopts; no other code in this process may wait for
// children.
func (c *child) reap(pid int) {
	defer close(c.none)
	options := 0
	for known := (exit{}); ; {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, options, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || got == 0: // no children, or none has ended
			if options != 0 {
				known.alone = err != nil && adopts
				c.exited <- known
				options = 0
			}
			if err != nil {
				return
			}
		case got == pid && (status.Exited() || status.Signaled()):
			// Before reporting the end, poll once with WNOHANG to see whether it left descendants.
			known, options = exitOf(status), unix.WNOHANG
		}
	}
}

func exitOf(status syscall.WaitStatus) exit {
	if status.Signaled() {
		name := unix.SignalName(status.Signal())
		if name == "" { // a real-time signal
			name = fmt.Sprintf("signal %d", status.Signal())
		}
		return exit{code: -1, signal: name}
	}
	return exit{code: status.ExitStatus()}
}

// end stops the tree. On Linux the tree is gone only when neither the process table nor the kernel's child count shows
// a process.
func (c *child) end(mark string, grace time.Duration) (ended, left int) {
	root := c.id
	if self, err := proc.Inspect(os.Getpid()); err == nil && adopts {
		root = self
	}
	for range 10 {
		n, rest, err := proc.EndTree(context.Background(), root, mark, grace)
		ended, left = ended+n, rest
		if err != nil || rest > 0 || !adopts {
			return ended, left
		}
		select {
		case <-c.none:
			return ended, 0
		case <-time.After(reapWait):
		}
	}
	return ended, 1
}

// usage is the resource usage of all processes of the tree that have ended and were waited for, here or by their
// parents.
func usage() (user, system time.Duration, rss int64) {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &ru) != nil {
		return 0, 0, 0
	}
	return time.Duration(ru.Utime.Nano()), time.Duration(ru.Stime.Nano()), int64(ru.Maxrss) * rssUnit
}
