package proc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// pollEvery is the poll interval for processes whose exits the kernel does not report.
const pollEvery = 2 * time.Second

// Watcher reports the end of every added process once: immediately where the kernel reports exits (pidfds on Linux, a
// kqueue on macOS), otherwise within two seconds by polling. With kernel events it uses no CPU while no process ends.
type Watcher struct {
	exits chan Identity
	wake  chan struct{} // holds a token while asked is not empty

	mu    sync.Mutex
	asked []Identity // added, and not yet seen by Run

	open  func() (*notices, error)
	every time.Duration
}

// NewWatcher returns a watcher that is inactive until Run.
func NewWatcher() *Watcher {
	return &Watcher{
		exits: make(chan Identity),
		wake:  make(chan struct{}, 1),
		open:  openNotices,
		every: pollEvery,
	}
}

// Add watches a process. A process that is already gone is reported at once. An identity without start or boot is an
// error. Adding a process again has no effect. Add never blocks and may be called before Run.
func (w *Watcher) Add(id Identity) error {
	if !id.proves() {
		return fmt.Errorf("watch process %d: identity lacks its start or boot", id.PID)
	}
	w.mu.Lock()
	w.asked = append(w.asked, id)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

// Exits delivers each ended process once. Reports wait for a slow receiver without limit. The channel is never
// closed.
func (w *Watcher) Exits() <-chan Identity { return w.exits }

func (w *Watcher) take() []Identity {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = nil
	return asked
}

// Run watches until ctx ends, then returns nil. It may be called only once.
func (w *Watcher) Run(ctx context.Context) error {
	fds, err := w.open()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("watch exits: %w", err)
	}
	v := &exitWatch{fds: fds, polled: map[Identity]struct{}{}, every: w.every, timer: time.NewTimer(w.every)}
	v.timer.Stop()
	defer v.close()
	for {
		var out chan<- Identity
		var head Identity
		if len(v.ended) > 0 {
			out, head = w.exits, v.ended[0]
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
			for _, id := range w.take() {
				v.watch(id)
			}
		case tokens := <-fds.found():
			v.learn(tokens)
		case err := <-fds.broken():
			return fmt.Errorf("watch exits: %w", err)
		case <-v.timer.C:
			v.poll()
		case out <- head:
			v.ended = v.ended[1:]
		}
	}
}

// exitWatch is the state of one Run; only Run's goroutine accesses it.
type exitWatch struct {
	fds    *notices // nil if the system does not support them
	polled map[Identity]struct{}
	ended  []Identity // not yet received
	timer  *time.Timer
	every  time.Duration
}

// watch selects the best way to detect the end of a process. It is called again for polled processes, so that they
// switch to kernel events when descriptors become available again.
func (v *exitWatch) watch(id Identity) {
	err := v.fds.add(id)
	if err != nil && !errors.Is(err, ErrGone) && Check(id) == Gone {
		err = ErrGone
	}
	switch {
	case err == nil:
		delete(v.polled, id)
	case errors.Is(err, ErrGone):
		v.report(id)
	default:
		v.polled[id] = struct{}{}
		if len(v.polled) == 1 {
			v.timer.Reset(v.every)
		}
	}
}

func (v *exitWatch) learn(tokens []uint64) {
	for _, token := range tokens {
		id, ok := v.fds.take(token)
		switch {
		case !ok: // reported already
		case exitIsProof:
			v.report(id)
		default:
			v.watch(id)
		}
	}
}

func (v *exitWatch) poll() {
	for id := range v.polled {
		v.watch(id)
	}
	if len(v.polled) > 0 {
		v.timer.Reset(v.every)
	}
}

func (v *exitWatch) report(id Identity) {
	delete(v.polled, id)
	if !slices.Contains(v.ended, id) {
		v.ended = append(v.ended, id)
	}
}

func (v *exitWatch) close() {
	v.timer.Stop()
	v.fds.close()
}
