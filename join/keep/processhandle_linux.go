package keep

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/platform/proc"
)

// processHandle is a pidfd: it waits without a thread, and reports how a process that is not a child has ended.
type processHandle struct {
	fd   int
	file *os.File // nil: the kernel returned no pidfd
}

// prepare makes the kernel create the pidfd together with the process.
func (g *processHandle) prepare(attr *syscall.SysProcAttr) {
	g.fd = -1
	attr.PidFD = &g.fd
}

func (g *processHandle) take() {
	if g.fd >= 0 && syscall.SetNonblock(g.fd, true) == nil { // the runtime's poller accepts only a nonblocking descriptor
		g.file = os.NewFile(uintptr(g.fd), "pidfd")
	}
}

// open opens a pidfd of a process that an earlier steward has started.
func (g *processHandle) open(id proc.Identity) {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return
	}
	if proc.Check(id) == proc.Gone { // the PID may have been reused
		_ = unix.Close(fd)
		return
	}
	g.fd = fd
	g.take()
}

// wait returns true when the process has ended, false after close.
func (g *processHandle) wait(c *child) bool {
	if g.file == nil {
		if c.process != nil {
			return waitOwn(c)
		}
		return c.pollGone()
	}
	raw, err := g.file.SyscallConn()
	if err != nil {
		return false
	}
	return raw.Read(hasEnded) == nil
}

// waitOwn waits for a child without a pidfd; the following Wait returns its status.
func waitOwn(c *child) bool { return c.id == (proc.Identity{}) || c.pollGone() }

// hasEnded polls, without waiting, whether the pidfd is readable.
func hasEnded(fd uintptr) bool {
	polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(polled, 0)
	return err == nil && n == 1 && polled[0].Revents&unix.POLLIN != 0
}

// statusWait is how long the ended process's new parent has to reap it: the kernel reports the status to other
// processes only after that. An init reaps at once; some replacements in containers are slower.
const statusWait = 250 * time.Millisecond

// status asks the kernel how the process ended (PIDFD_GET_INFO with PIDFD_INFO_EXIT, Linux 6.15).
func (g *processHandle) status(e *Ending) {
	e.Code, e.Unknown = -1, true
	if g.file == nil {
		return
	}
	raw, err := g.file.SyscallConn()
	if err != nil {
		return
	}
	pause := 100 * time.Microsecond
	for waited := time.Duration(0); waited < statusWait; waited += pause {
		s := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
		var asked error
		_ = raw.Control(func(fd uintptr) { asked = unix.IoctlPidfdInfo(int(fd), &s) })
		if asked == nil && s.Mask&unix.PIDFD_INFO_EXIT != 0 {
			e.Unknown = false
			e.Code, e.Signal = run.Status(syscall.WaitStatus(s.Exit_code))
			return
		}
		if errors.Is(asked, unix.ENOTTY) || errors.Is(asked, unix.EINVAL) { // an older kernel
			return
		}
		pause = min(2*pause, 10*time.Millisecond)
		time.Sleep(pause)
	}
}

func (g *processHandle) close() {
	if g.file != nil {
		_ = g.file.Close()
	}
}
