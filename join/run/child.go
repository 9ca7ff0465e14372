package run

import (
	"cmp"
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

// detach keeps a ^C in the worker's terminal from the shim.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// child is the command and its descendants.
type child struct {
	id        proc.Identity
	exited    chan exit     // receives how the command ended, once
	childless chan struct{} // closed when this process has no more children
}

// exit is how the command ended. alone: no descendants are left, which only a subreaper can know.
type exit struct {
	code          int
	signal        string
	noDescendants bool
}

// launch starts the command in its own session. On Linux the kernel sends it SIGKILL when the calling thread ends, so
// the goroutine must be locked to a thread that stays.
func launch(path string, s *Spec, files []*os.File) (*child, error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
	}
	pid, err := forkExec(path, s.Argv, &syscall.ProcAttr{Dir: s.Dir, Env: WithVariable(s.Env, proc.MarkName, s.Mark), Files: fds, Sys: commandAttr()})
	if err != nil {
		return nil, StartFault(err, path, s.Dir)
	}
	c := &child{exited: make(chan exit, 1), childless: make(chan struct{})}
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
	defer close(c.childless)
	options := 0
	for known := (exit{}); ; {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, options, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || got == 0: // no children, or none has ended
			if options != 0 {
				known.noDescendants = err != nil && adopts
				c.exited <- known
				options = 0
			}
			if err != nil {
				return
			}
		case got == pid && (status.Exited() || status.Signaled()):
			// Before reporting the end, poll once with WNOHANG to see whether it left descendants.
			known.code, known.signal = Status(status)
			options = unix.WNOHANG
		}
	}
}

// Status reads how a process ended: its exit code, or -1 and the name of the signal that ended it.
func Status(status syscall.WaitStatus) (code int, signal string) {
	if status.Signaled() {
		return -1, SignalName(status.Signal())
	}
	return status.ExitStatus(), ""
}

// SignalName is the signal's name, such as SIGKILL; a real-time signal has only a number.
func SignalName(s syscall.Signal) string {
	return cmp.Or(unix.SignalName(s), fmt.Sprintf("signal %d", int(s)))
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
		case <-c.childless:
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
