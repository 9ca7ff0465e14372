// Package watch says where to look again: it turns changes in folders into hints, each for the project that asked.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// ErrNoWatches says that the kernel gives no more watches or descriptors; periodic looks must do.
var ErrNoWatches = errors.New("no watches left")

// Event is a hint, never the truth: look at Path again, or, when Overflow is set, at everything of Key.
type Event struct {
	Key      string
	Path     string // below the folder as it was given to Set; empty on Overflow
	Overflow bool
	Lost     bool // the Overflow is the kernel's: its queue was full, and events are missing
}

// Watcher watches folders for keys. A folder may serve several keys, under several names. Changes of a file's mode or
// times alone are no events.
type Watcher struct {
	events chan Event
	fresh  chan struct{} // holds one token after Set has made an event of its own

	// setting serialises Set. It is held across calls into fsnotify, which block while its reader waits for Run;
	// so Run never takes it, and never calls fsnotify itself.
	setting sync.Mutex
	notify  *fsnotify.Watcher

	mu      sync.Mutex // never held across a call into fsnotify
	watches map[string]*folder
	places  map[target]*folder
	dropped []string // by Run, and still to be taken from fsnotify
	pending pending
}

// folder is one watch, under the name that fsnotify knows.
type folder struct {
	name    string
	info    fs.FileInfo
	stale   bool // events were lost; to be watched anew
	readers map[target]struct{}
}

// target is a folder as one key calls it.
type target struct{ key, dir string }

// New opens the kernel's queue; ErrNoWatches when there is none to be had. Run closes it; without Run, Close must.
func New() (*Watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("open watch: %w", typed(err))
	}
	return &Watcher{
		events:  make(chan Event),
		fresh:   make(chan struct{}, 1),
		notify:  notify,
		watches: map[string]*folder{},
		places:  map[target]*folder{},
		pending: newPending(),
	}, nil
}

// Events delivers the hints, each as soon as it is received; what comes meanwhile is kept and merged. A key with more
// than 1024 paths waiting gets one Overflow instead. It is never closed.
func (w *Watcher) Events() <-chan Event { return w.events }

// Descriptors is the number of watches held.
func (w *Watcher) Descriptors() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watches)
}

// Close ends the kernel's watches. Only a watcher that never runs needs it.
func (w *Watcher) Close() error { return w.notify.Close() }

// Run passes on events until ctx ends, then closes the watcher and returns nil.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.notify.Close()
	for {
		var out chan<- Event
		head, waiting := w.head()
		if waiting {
			out = w.events
		}
		select {
		case <-ctx.Done():
			return nil
		case ev, open := <-w.notify.Events:
			if !open {
				return errors.New("watch folders: closed")
			}
			w.sort(ev)
		case _, open := <-w.notify.Errors:
			if !open {
				return errors.New("watch folders: closed")
			}
			w.lose()
		case <-w.fresh:
		case out <- head:
			w.delivered(head)
		}
	}
}

func (w *Watcher) head() (Event, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pending.head()
}

func (w *Watcher) delivered(ev Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending.delivered(ev)
}

// sort files one event of the kernel under its keys.
func (w *Watcher) sort(ev fsnotify.Event) {
	if ev.Op&^fsnotify.Chmod == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.watches[filepath.Dir(ev.Name)]; f != nil {
		for p := range f.readers {
			w.pending.add(p.key, filepath.Join(p.dir, filepath.Base(ev.Name)))
		}
	}
	if f := w.watches[ev.Name]; f != nil && ev.Op&(fsnotify.Remove|fsnotify.Rename) != 0 {
		w.drop(f)
	}
}

// lose: events are missing, so any folder may also have been replaced by one with the same inode number.
func (w *Watcher) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.watches {
		f.stale = true
	}
	for p := range w.places {
		w.pending.lose(p.key)
	}
}

// drop forgets a folder that is not what its name says any more. The next Set finds what is there now.
func (w *Watcher) drop(f *folder) {
	for p := range f.readers {
		delete(w.places, p)
		w.pending.overflow(p.key)
	}
	delete(w.watches, f.name)
	w.dropped = append(w.dropped, f.name)
}

// look tells whether dir is a folder now.
func look(dir string) (fs.FileInfo, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "watch", Path: dir, Err: syscall.ENOTDIR}
	}
	return info, err
}

// absent: nothing there that could be watched, which is no fault.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// typed marks the errors that mean "no more of them". For inotify, no space is no watches.
func typed(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return fmt.Errorf("%w: %w", ErrNoWatches, err)
	}
	return err
}
