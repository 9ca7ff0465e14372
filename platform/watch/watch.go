// Package watch turns changes in folders into hints about what to rescan, each for the key that requested it.
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

// ErrNoWatches means that the kernel provides no more watches or descriptors; the caller must rely on periodic scans.
var ErrNoWatches = errors.New("no watches left")

// Event is a hint and never authoritative: rescan Path or, if Overflow is set, everything of Key.
type Event struct {
	Key      string
	Path     string // below the folder as passed to Set; empty on Overflow
	Overflow bool
	Lost     bool // the kernel's queue overflowed, and events are missing
}

// Watcher watches folders for keys. A folder may serve several keys under several names. A change of only a file's
// mode or times is not an event.
type Watcher struct {
	events chan Event
	fresh  chan struct{} // holds a token after Set has created an event itself

	// setting serialises Set. It is held across calls into fsnotify, which block while fsnotify's reader waits for
	// Run. Therefore Run never acquires it and never calls fsnotify itself.
	setting sync.Mutex
	notify  *fsnotify.Watcher

	mu      sync.Mutex // never held across a call into fsnotify
	watches map[string]*watchedFolder
	places  map[target]*watchedFolder
	dropped []string // dropped by Run, and not yet removed from fsnotify
	pending pending
}

// watchedFolder is one watch under the name that fsnotify uses.
type watchedFolder struct {
	name    string
	info    fs.FileInfo
	stale   bool // events were lost; the watch must be renewed
	readers map[target]struct{}
}

// target is a folder under the name that one key uses.
type target struct{ key, dir string }

// New opens the kernel's queue; it returns ErrNoWatches if none is available. Run closes the watcher; without Run,
// call Close.
func New() (*Watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("open watch: %w", typed(err))
	}
	return &Watcher{
		events:  make(chan Event),
		fresh:   make(chan struct{}, 1),
		notify:  notify,
		watches: map[string]*watchedFolder{},
		places:  map[target]*watchedFolder{},
		pending: newPending(),
	}, nil
}

// Events delivers hints one by one; hints that arrive meanwhile are kept and merged. A key with more than 1024
// waiting paths gets one Overflow instead. The channel is never closed.
func (w *Watcher) Events() <-chan Event { return w.events }

// Descriptors returns the number of watches.
func (w *Watcher) Descriptors() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watches)
}

// Close removes the kernel's watches. Only a watcher that never runs needs it.
func (w *Watcher) Close() error { return w.notify.Close() }

// Run delivers events until ctx ends, then closes the watcher and returns nil.
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

// sort adds one kernel event to the pending hints of its keys.
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

// lose marks all folders as stale, because events are missing: a folder may also have been replaced by one with the
// same inode number.
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

// drop removes the watch of a folder that its name no longer leads to. The next Set finds the current folder.
func (w *Watcher) drop(f *watchedFolder) {
	for p := range f.readers {
		delete(w.places, p)
		w.pending.overflow(p.key)
	}
	delete(w.watches, f.name)
	w.dropped = append(w.dropped, f.name)
}

// look returns the file info of dir, and an error if dir is not a folder.
func look(dir string) (fs.FileInfo, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "watch", Path: dir, Err: syscall.ENOTDIR}
	}
	return info, err
}

// absent reports whether there is no folder to watch, which is not an error.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// typed marks errors that mean exhausted resources. For inotify, ENOSPC means no watches.
func typed(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return fmt.Errorf("%w: %w", ErrNoWatches, err)
	}
	return err
}
