package proc

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// exitIsProof: an open handle speaks of one process only, whoever has its number now.
const exitIsProof = true

// onlyOnce is WT_EXECUTEONLYONCE of RegisterWaitForSingleObject.
const onlyOnce = 0x8

// notices has the system's own threads wait for open processes, 63 per thread. A nil set holds nothing and takes
// nothing. All methods but ended belong to one goroutine; a second one, started by openNotices and ended by close, only
// hands on.
type notices struct {
	register, unregister *windows.LazyProc
	callback             uintptr
	held                 map[Identity]uint64
	open                 map[uint64]waited
	last                 uint64

	mu    sync.Mutex
	fired []uint64
	wake  chan struct{} // holds one token while fired is not empty

	news chan []uint64
	done chan struct{}
	wait sync.WaitGroup
}

// waited is a process that is waited for.
type waited struct {
	id     Identity
	handle windows.Handle
	wait   windows.Handle
}

func openNotices() (*notices, error) {
	kernel := windows.NewLazySystemDLL("kernel32.dll")
	n := &notices{
		register: kernel.NewProc("RegisterWaitForSingleObject"), unregister: kernel.NewProc("UnregisterWaitEx"),
		held: map[Identity]uint64{}, open: map[uint64]waited{}, wake: make(chan struct{}, 1), news: make(chan []uint64), done: make(chan struct{}),
	}
	if errors.Join(n.register.Find(), n.unregister.Find()) != nil {
		return nil, errors.ErrUnsupported
	}
	n.callback = windows.NewCallback(n.ended)
	n.wait.Go(n.handOn)
	return n, nil
}

// ended is called by a thread of the system when a process has ended.
func (n *notices) ended(token, _ uintptr) uintptr {
	n.mu.Lock()
	n.fired = append(n.fired, uint64(token))
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
	return 0
}

// handOn passes the tokens of ended processes on until the set is closed.
func (n *notices) handOn() {
	for {
		select {
		case <-n.wake:
		case <-n.done:
			return
		}
		n.mu.Lock()
		tokens := n.fired
		n.fired = nil
		n.mu.Unlock()
		select {
		case n.news <- tokens:
		case <-n.done:
			return
		}
	}
}

// add returns ErrGone when the process has ended, another error when it cannot be waited for.
func (n *notices) add(id Identity) error {
	if n == nil {
		return errors.ErrUnsupported
	}
	if _, ok := n.held[id]; ok {
		return nil
	}
	if Check(id) == Gone { // it may be of another boot
		return ErrGone
	}
	h, err := open(id.PID, mayLook) // SYNCHRONIZE is part of it
	if err != nil {
		return err
	}
	start, _, err := lookAt(h)
	if err == nil && start != id.Start {
		err = ErrGone
	}
	if err != nil {
		windows.CloseHandle(h)
		return err
	}
	w := waited{id: id, handle: h}
	n.last++
	ok, _, err := n.register.Call(uintptr(unsafe.Pointer(&w.wait)), uintptr(h), n.callback, uintptr(n.last), windows.INFINITE, onlyOnce)
	if ok == 0 {
		windows.CloseHandle(h)
		return fmt.Errorf("wait for process: %w", err)
	}
	n.held[id], n.open[n.last] = n.last, w
	return nil
}

// take removes an ended process from the set.
func (n *notices) take(token uint64) (Identity, bool) {
	w, ok := n.open[token]
	if ok {
		n.remove(w.id)
	}
	return w.id, ok
}

func (n *notices) remove(id Identity) {
	if n == nil {
		return
	}
	token, ok := n.held[id]
	if !ok {
		return
	}
	w := n.open[token]
	// The handle must stay open until the wait is over; this call returns when no thread is in ended for it any more.
	n.unregister.Call(uintptr(w.wait), uintptr(windows.InvalidHandle))
	windows.CloseHandle(w.handle)
	delete(n.held, id)
	delete(n.open, token)
}

func (n *notices) found() <-chan []uint64 {
	if n == nil {
		return nil
	}
	return n.news
}

func (n *notices) broken() <-chan error { return nil }

func (n *notices) close() {
	if n == nil {
		return
	}
	for _, w := range n.open {
		n.unregister.Call(uintptr(w.wait), uintptr(windows.InvalidHandle))
		windows.CloseHandle(w.handle)
	}
	close(n.done)
	n.wait.Wait()
}
