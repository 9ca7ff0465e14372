package proc

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// exitIsProof is true: a pidfd refers to exactly one process, even after its pid is reused.
const exitIsProof = true

// notices is an epoll set of pidfds. A nil set is empty and accepts no process. All methods belong to one goroutine;
// a second goroutine, started by openNotices and ended by close, only waits for events.
type notices struct {
	epoll int
	file  *os.File // owns epoll and registers it with Go's poller
	held  map[Identity]uint64
	open  map[uint64]pidfd
	last  uint64

	news chan []uint64
	fail chan error
	done chan struct{}
	wait sync.WaitGroup
}

type pidfd struct {
	fd int
	id Identity
}

func openNotices() (*notices, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open epoll: %w", err)
	}
	// The runtime's poller accepts only non-blocking descriptors; with the poller, waiting does not block a thread.
	if err := unix.SetNonblock(epoll, true); err != nil {
		unix.Close(epoll)
		return nil, fmt.Errorf("open epoll: %w", err)
	}
	p := &notices{
		epoll: epoll,
		file:  os.NewFile(uintptr(epoll), "epoll"),
		held:  map[Identity]uint64{},
		open:  map[uint64]pidfd{},
		news:  make(chan []uint64),
		fail:  make(chan error, 1),
		done:  make(chan struct{}),
	}
	p.wait.Go(p.listen)
	return p, nil
}

// listen delivers the tokens of ended processes until the set is closed.
func (p *notices) listen() {
	raw, err := p.file.SyscallConn()
	for err == nil {
		var tokens []uint64
		tokens, err = nextTokens(raw.Read)
		if err != nil {
			break
		}
		select {
		case p.news <- tokens:
		case <-p.done:
			return
		}
	}
	select {
	case <-p.done: // close caused the error
	default:
		p.fail <- fmt.Errorf("wait for pidfds: %w", err)
	}
}

func nextTokens(read func(func(fd uintptr) bool) error) ([]uint64, error) {
	var events [64]unix.EpollEvent
	var n int
	var waited error
	err := read(func(fd uintptr) bool {
		n, waited = unix.EpollWait(int(fd), events[:], 0)
		if waited == unix.EINTR {
			n, waited = 0, nil
		}
		return n > 0 || waited != nil
	})
	if err := errors.Join(err, waited); err != nil {
		return nil, err
	}
	tokens := make([]uint64, n)
	for i, e := range events[:n] {
		tokens[i] = uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
	}
	return tokens, nil
}

// add returns ErrGone if the process has ended, and another error if no pidfd is available.
func (p *notices) add(id Identity) error {
	if p == nil {
		return errors.ErrUnsupported
	}
	if _, ok := p.held[id]; ok {
		return nil
	}
	fd, err := openPidfd(id)
	if err != nil {
		return err
	}
	p.last++
	// A token instead of the descriptor, whose number may be reused before the event arrives. One shot, because
	// otherwise listen would loop until the process is removed from the set.
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(uint32(p.last)), Pad: int32(uint32(p.last >> 32))}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		unix.Close(fd)
		return fmt.Errorf("watch pidfd: %w", err)
	}
	p.held[id] = p.last
	p.open[p.last] = pidfd{fd, id}
	return nil
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

// take removes an ended process from the set.
func (p *notices) take(token uint64) (Identity, bool) {
	held, ok := p.open[token]
	if !ok {
		return Identity{}, false
	}
	// Remove it explicitly: a child between fork and exec may share the descriptor, so that closing alone would not
	// remove it.
	_ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, held.fd, nil)
	unix.Close(held.fd)
	delete(p.held, held.id)
	delete(p.open, token)
	return held.id, true
}

func (p *notices) found() <-chan []uint64 {
	if p == nil {
		return nil
	}
	return p.news
}

func (p *notices) broken() <-chan error {
	if p == nil {
		return nil
	}
	return p.fail
}

func (p *notices) close() {
	if p == nil {
		return
	}
	close(p.done)
	p.file.Close()
	p.wait.Wait()
	for _, held := range p.open {
		unix.Close(held.fd)
	}
}
