package proc

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// exitIsProof is false: a kqueue identifies processes by pid, and the pid may be reused before the event is read.
const exitIsProof = false

// notices is a kqueue that reports exits. The tokens are pids. A nil set is empty and accepts no process. All methods
// belong to one goroutine; a second goroutine, started by openNotices and ended by close, only waits for events.
type notices struct {
	queue int
	held  map[int]Identity

	news chan []uint64
	fail chan error
	done chan struct{}
	wait sync.WaitGroup
}

func openNotices() (*notices, error) {
	queue, err := unix.Kqueue()
	if err != nil {
		return nil, fmt.Errorf("open kqueue: %w", err)
	}
	unix.CloseOnExec(queue)
	n := &notices{queue: queue, held: map[int]Identity{}, news: make(chan []uint64), fail: make(chan error, 1), done: make(chan struct{})}
	// close triggers this event to wake the waiting goroutine.
	if err := n.change(0, unix.EVFILT_USER, unix.EV_ADD|unix.EV_CLEAR, 0); err != nil {
		unix.Close(queue)
		return nil, fmt.Errorf("open kqueue: %w", err)
	}
	n.wait.Go(n.listen)
	return n, nil
}

func (n *notices) change(ident, filter, flags int, fflags uint32) error {
	change := make([]unix.Kevent_t, 1)
	unix.SetKevent(&change[0], ident, filter, flags)
	change[0].Fflags = fflags
	for {
		_, err := unix.Kevent(n.queue, change, nil, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

// listen delivers the pids of ended processes until the set is closed.
func (n *notices) listen() {
	events := make([]unix.Kevent_t, 64)
	for {
		found, err := unix.Kevent(n.queue, nil, events, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			n.fail <- fmt.Errorf("wait for exits: %w", err)
			return
		}
		var tokens []uint64
		for _, e := range events[:found] {
			if e.Filter == unix.EVFILT_USER {
				return
			}
			tokens = append(tokens, uint64(e.Ident))
		}
		select {
		case n.news <- tokens:
		case <-n.done:
			return
		}
	}
}

// add returns ErrGone if the process has ended, and another error if it cannot be watched. It checks the identity
// after registering: from then on the event belongs to the process that has the pid, and once that process is gone,
// the requested one is gone too.
func (n *notices) add(id Identity) error {
	if n == nil {
		return errors.ErrUnsupported
	}
	if old, ok := n.held[id.PID]; ok && old != id {
		if Check(id) == Gone {
			return ErrGone
		}
		return errors.New("watch process: another identity of its number is watched") // polled until the other identity is reported
	} else if ok {
		return nil
	}
	err := n.change(id.PID, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT, unix.NOTE_EXIT)
	if errors.Is(err, unix.ESRCH) { // also while the process is exiting and still in the process table
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("watch process: %w", err)
	}
	if Check(id) == Gone {
		n.drop(id.PID)
		return ErrGone
	}
	n.held[id.PID] = id
	return nil
}

// drop removes a pid from the queue. A pid whose event has fired is already removed.
func (n *notices) drop(pid int) { _ = n.change(pid, unix.EVFILT_PROC, unix.EV_DELETE, 0) }

// take removes an ended process from the set.
func (n *notices) take(token uint64) (Identity, bool) {
	id, ok := n.held[int(token)]
	delete(n.held, int(token))
	return id, ok
}

func (n *notices) found() <-chan []uint64 {
	if n == nil {
		return nil
	}
	return n.news
}

func (n *notices) broken() <-chan error {
	if n == nil {
		return nil
	}
	return n.fail
}

func (n *notices) close() {
	if n == nil {
		return
	}
	close(n.done)
	_ = n.change(0, unix.EVFILT_USER, 0, unix.NOTE_TRIGGER)
	n.wait.Wait()
	unix.Close(n.queue)
}
