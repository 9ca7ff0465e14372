package proc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// handle identifies a process by its pid: a race of some microseconds remains between a check and its signal.
type handle struct {
	id    Identity
	queue int // a kqueue that reports the exit; -1: none
}

// grasp checks the identity after registering the pid: from then on the event belongs to the process that has the pid,
// and once that process is gone, the requested one is gone too.
func grasp(id Identity) (*handle, error) {
	g := &handle{id: id, queue: -1}
	queue, err := unix.Kqueue()
	if err != nil {
		return g, nil
	}
	unix.CloseOnExec(queue)
	exit := make([]unix.Kevent_t, 1)
	unix.SetKevent(&exit[0], id.PID, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	exit[0].Fflags = unix.NOTE_EXIT
	_, err = unix.Kevent(queue, exit, nil, nil)
	if errors.Is(err, unix.ESRCH) || Check(id) == Gone { // ESRCH also while the process is exiting
		unix.Close(queue)
		return nil, ErrGone
	}
	if err != nil {
		unix.Close(queue)
		return g, nil
	}
	g.queue = queue
	return g, nil
}

// kernelReports reports whether wait needs no polling.
func (g *handle) kernelReports() bool { return g.queue >= 0 }

func (g *handle) send(sig unix.Signal) error { return unix.Kill(g.id.PID, sig) }

// wait returns as soon as the process exits, or (false, nil) on timeout. It looks at ctx five times a second, because
// ctx cannot end the system call.
func (g *handle) wait(ctx context.Context, wait time.Duration) (bool, error) {
	if g.queue < 0 {
		return pollGone(ctx, g.id, wait)
	}
	events := make([]unix.Kevent_t, 1)
	for end := time.Now().Add(wait); ctx.Err() == nil; {
		slice := unix.NsecToTimespec(max(0, min(time.Until(end), 200*time.Millisecond)).Nanoseconds())
		n, err := unix.Kevent(g.queue, nil, events, &slice)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("wait for the exit: %w", err)
		case n > 0:
			g.release() // the event comes once
			return true, nil
		case !time.Now().Before(end):
			return Check(g.id) == Gone, nil
		}
	}
	return false, ctx.Err()
}

func (g *handle) release() {
	if g.queue >= 0 {
		unix.Close(g.queue)
		g.queue = -1
	}
}
