package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// handle refers to exactly one process, even if its pid is reused.
type handle struct {
	id   Identity
	file *os.File // the pidfd; if it is nil, the pid is used
}

func grasp(id Identity) (*handle, error) {
	fd, err := openPidfd(id)
	if errors.Is(err, ErrGone) {
		return nil, err
	}
	if err != nil {
		return &handle{id: id}, nil
	}
	// The runtime's poller supports deadlines only for a non-blocking descriptor.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return &handle{id: id}, nil
	}
	return &handle{id: id, file: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// openPidfd returns a pidfd of exactly this process. It checks the identity after opening: from then on the pidfd
// cannot refer to another process. If the check is inconclusive, the pidfd is still usable for watching: once the
// process that now has the pid is gone, the requested process is gone too.
func openPidfd(id Identity) (int, error) {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err == unix.ESRCH {
		return -1, ErrGone
	}
	if err != nil {
		return -1, fmt.Errorf("open pidfd: %w", err)
	}
	if Check(id) == Gone {
		unix.Close(fd)
		return -1, ErrGone
	}
	return fd, nil
}

// kernelReports reports whether wait needs no polling.
func (g *handle) kernelReports() bool {
	return g.file != nil && g.file.SetReadDeadline(time.Time{}) == nil
}

func (g *handle) send(sig unix.Signal) error {
	if g.file == nil {
		return unix.Kill(g.id.PID, sig)
	}
	raw, err := g.file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	return errors.Join(err, sent)
}

// wait returns as soon as the process exits, or (false, nil) on timeout.
func (g *handle) wait(ctx context.Context, wait time.Duration) (bool, error) {
	if g.file == nil || g.file.SetReadDeadline(time.Now().Add(wait)) != nil {
		return pollGone(ctx, g.id, wait)
	}
	stop := context.AfterFunc(ctx, func() { g.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := g.file.SyscallConn()
	if err != nil {
		return false, err
	}
	err = raw.Read(hasEnded)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Check(g.id) == Gone, nil
	}
	return false, fmt.Errorf("wait for the exit: %w", err)
}

// hasEnded reports whether a pidfd is readable, which means that its process has ended, reaped or not.
func hasEnded(fd uintptr) bool {
	polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(polled, 0)
	return err == nil && n == 1 && polled[0].Revents&unix.POLLIN != 0
}

func (g *handle) release() {
	if g.file != nil {
		g.file.Close()
	}
}
