package keep

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/platform/proc"
)

// awaitEnd waits for the end of a process that is not a child, by its pidfd; false when ctx ends first. It says how the
// process ended where the kernel tells that.
func awaitEnd(ctx context.Context, id proc.Identity, e *Ending) bool {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return pollGone(ctx, id)
	}
	_ = unix.SetNonblock(fd, true) // the runtime's poller accepts only a nonblocking descriptor
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	if proc.Check(id) == proc.Gone { // the pidfd may be of another process that has got the PID
		return true
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := f.SyscallConn()
	if err == nil {
		err = raw.Read(hasEnded)
	}
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		return pollGone(ctx, id)
	}
	exitStatus(raw, e)
	return true
}

// hasEnded polls, without waiting, whether the pidfd is readable.
func hasEnded(fd uintptr) bool {
	polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(polled, 0)
	return err == nil && n == 1 && polled[0].Revents&unix.POLLIN != 0
}

// statusWait is how long the ended process's new parent has to reap it: the kernel reports the status to other
// processes only after that. An init reaps at once; some replacements in containers are slower.
const statusWait = 250 * time.Millisecond

// exitStatus asks the kernel how the process ended (PIDFD_GET_INFO with PIDFD_INFO_EXIT, Linux 6.15).
func exitStatus(raw syscall.RawConn, e *Ending) {
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
