package proc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// pollEvery is the poll interval for processes whose exits the kernel does not report.
const pollEvery = 2 * time.Second

// Watcher reports the end of every added process once: immediately where the kernel reports exits (pidfds on Linux, a
// kqueue on macOS), otherwise within two seconds by polling. A goroutine waits for each process. With pidfds it uses no
// CPU while no process ends. See docs/decisions.md, "Process exits come from the kernel".
type Watcher struct {
	exits chan Identity
	wake  chan struct{} // holds a token while added is not empty

	mu      sync.Mutex
	added   []Identity // not yet seen by Run
	watched map[Identity]bool

	open  func(Identity) (*handle, error)
	every time.Duration
}

// NewWatcher returns a watcher that is inactive until Run.
func NewWatcher() *Watcher {
	return &Watcher{exits: make(chan Identity), wake: make(chan struct{}, 1), watched: map[Identity]bool{}, open: grasp, every: pollEvery}
}

// Add watches a process. A process that is already gone is reported at once. An identity without start or boot is an
// error. Adding a process again has no effect. Add never blocks and may be called before Run.
func (w *Watcher) Add(id Identity) error {
	if !id.proves() {
		return fmt.Errorf("watch process %d: identity lacks its start or boot", id.PID)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched[id] {
		return nil
	}
	w.watched[id] = true
	w.added = append(w.added, id)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

// Exits delivers each ended process once. Reports wait for a slow receiver without limit. The channel is never
// closed.
func (w *Watcher) Exits() <-chan Identity { return w.exits }

// Run watches until ctx ends, then returns nil. It may be called only once.
func (w *Watcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		}
		w.mu.Lock()
		added := w.added
		w.added = nil
		w.mu.Unlock()
		for _, id := range added {
			wg.Go(func() { w.follow(ctx, id) })
		}
	}
}

// follow reports the end of one process.
func (w *Watcher) follow(ctx context.Context, id Identity) {
	for !w.gone(ctx, id) {
		if sleep(ctx, w.every) != nil {
			return
		}
	}
	select {
	case <-ctx.Done():
		return
	case w.exits <- id:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watched, id)
}

// gone waits until the kernel reports the end of the process. It returns false if the kernel cannot report it, perhaps
// because no descriptor is free, and the process is not known to be gone; then it must be called again.
func (w *Watcher) gone(ctx context.Context, id Identity) bool {
	g, err := w.open(id)
	if errors.Is(err, ErrGone) {
		return true
	}
	if err == nil {
		defer g.release()
		for g.kernelReports() && ctx.Err() == nil {
			if gone, err := g.wait(ctx, time.Hour); gone || err != nil {
				return gone
			}
		}
	}
	return Check(id) == Gone
}
