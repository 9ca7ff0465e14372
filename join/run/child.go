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

// logFlags: a link is not followed, and a pipe without a reader does not hold the shim.
const logFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK

// reapWait is how long the shim waits for the kernel to hand it the last of what was killed.
const reapWait = 500 * time.Millisecond

// apart keeps a terminal's ^C at the worker from the shim.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// child is the command, and what it has brought along.
type child struct {
	id     proc.Identity
	exited chan exit     // how the command ended, once
	none   chan struct{} // closed when this process has no child any more
}

// exit is how the command ended. alone: it left nobody behind, which only a subreaper can know.
type exit struct {
	code   int
	signal string
	alone  bool
}

// launch starts the command in a session of its own. On Linux it gets a SIGKILL when the calling thread ends, so the
// goroutine must be locked to a thread that stays.
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
	c.id, _ = proc.Inspect(pid) // the zero value when it has ended already; it is not reaped yet, so it is no other
	go c.reap(pid)
	return c, nil
}

// forkExec tries again for a moment while somebody still has the program open for writing: who has just written it, or
// a process that was started meanwhile and has not closed its copy of the descriptor.
func forkExec(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	for wait := time.Millisecond; ; wait *= 2 {
		pid, err = syscall.ForkExec(path, argv, attr)
		if !errors.Is(err, syscall.ETXTBSY) || wait > 256*time.Millisecond {
			return pid, err
		}
		time.Sleep(wait)
	}
}

// reap waits for the command and for the orphans that came to the shim; nobody else may wait for children here.
func (c *child) reap(pid int) {
	defer close(c.none)
	options := 0
	for known := (exit{}); ; {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, options, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || got == 0: // no children, or none that has ended
			if options != 0 {
				known.alone = err != nil && adopts
				c.exited <- known
				options = 0
			}
			if err != nil {
				return
			}
		case got == pid && (status.Exited() || status.Signaled()):
			// Before this is told, one look without waiting: did it leave anybody behind?
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

// end stops the tree. What neither the process table shows nor the kernel still counts as a child is gone for sure.
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

// usage is what all of the tree has used that has ended and was waited for, here or by its parents.
func usage() (user, system time.Duration, rss int64) {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &ru) != nil {
		return 0, 0, 0
	}
	return time.Duration(ru.Utime.Nano()), time.Duration(ru.Stime.Nano()), int64(ru.Maxrss) * rssUnit
}
