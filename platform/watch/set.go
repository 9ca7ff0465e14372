package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Add watches one more folder under the empty key. Adding twice is adding once.
func (w *Watcher) Add(dir string) error {
	w.setting.Lock()
	defer w.setting.Unlock()
	w.clear()
	if err := w.watch(target{"", filepath.Clean(dir)}); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	return nil
}

// Set makes dirs the folders that are watched for key. Those that do not exist, or are no folders, are left out and
// returned. Called again it costs one stat per folder, and finds folders that were replaced; so call it at each full
// look, and before the look, for what happened before the watch is in no event. Nil dirs forget the key and its
// waiting hints. On ErrNoWatches the folders that did get one stay watched. Other errors concern single folders.
func (w *Watcher) Set(key string, dirs []string) (missing []string, err error) {
	w.setting.Lock()
	defer w.setting.Unlock()
	w.clear()
	wanted := make(map[target]bool, len(dirs))
	for _, dir := range dirs {
		wanted[target{key, filepath.Clean(dir)}] = true
	}
	w.keep(key, wanted)
	var errs []error
	for _, dir := range dirs {
		switch err := w.watch(target{key, filepath.Clean(dir)}); {
		case err == nil:
		case absent(err):
			missing = append(missing, dir)
		case errors.Is(err, ErrNoWatches):
			return missing, fmt.Errorf("watch %s: %w", dir, errors.Join(append(errs, err)...))
		default:
			errs = append(errs, fmt.Errorf("watch %s: %w", dir, err))
		}
	}
	return missing, errors.Join(errs...)
}

// clear takes from fsnotify what Run has dropped. It may be gone there already.
func (w *Watcher) clear() {
	w.mu.Lock()
	dropped := w.dropped
	w.dropped = nil
	w.mu.Unlock()
	for _, name := range dropped {
		_ = w.notify.Remove(name)
	}
}

// keep ends the watches of key that are not wanted any more.
func (w *Watcher) keep(key string, wanted map[target]bool) {
	var old []target
	w.mu.Lock()
	for p := range w.places {
		if p.key == key && !wanted[p] {
			old = append(old, p)
		}
	}
	if len(wanted) == 0 {
		w.pending.forget(key)
	}
	w.mu.Unlock()
	for _, p := range old {
		w.leave(p)
	}
}

// watch makes sure that p is watched, and that the watch is on the folder that p names now.
func (w *Watcher) watch(p target) error {
	// Before the watch: should the folder be replaced in between, the next call sees the difference.
	info, err := look(p.dir)
	if err != nil {
		w.leave(p)
		return err
	}
	w.mu.Lock()
	now := w.places[p]
	same := now != nil && os.SameFile(now.info, info)
	renew := same && now.stale && now.name == p.dir
	if renew {
		now.stale = false
	}
	done := same && !now.stale
	w.mu.Unlock()
	switch {
	case renew:
		return w.begin(now, p)
	case done:
		return nil
	}
	w.leave(p)
	if w.adopt(p, info) {
		return nil
	}
	return w.open(&folder{name: p.dir, info: info, readers: map[target]struct{}{}}, p)
}

// adopt joins the watch on the same folder under another name (a link, a bind mount), if there is one: the kernel has
// only one watch per folder and reports under the name that came first. Watches in the way, on a folder that has moved
// or under a name that now means another one, are ended.
func (w *Watcher) adopt(p target, info os.FileInfo) bool {
	found := false
	w.mu.Lock()
	for _, f := range w.watches {
		same := os.SameFile(f.info, info)
		switch {
		case same && f.inPlace():
			w.join(f, p) // here and now: Run may drop it as soon as the lock is free
			found = true
		case same, f.name == p.dir:
			w.drop(f)
		}
	}
	w.mu.Unlock()
	// Before the name is used again, or a later clear would end its new watch.
	w.clear()
	w.nudge()
	return found
}

// inPlace reports whether the name still leads to the watched folder.
func (f *folder) inPlace() bool {
	there, err := look(f.name)
	return err == nil && os.SameFile(there, f.info)
}

// open registers the folder first: its events may arrive before fsnotify has returned.
func (w *Watcher) open(f *folder, p target) error {
	w.mu.Lock()
	w.watches[f.name] = f
	w.join(f, p)
	w.mu.Unlock()
	return w.begin(f, p)
}

// begin asks the kernel. Asking for a folder that it watches already changes nothing.
func (w *Watcher) begin(f *folder, p target) error {
	err := w.notify.Add(f.name)
	if err == nil {
		return nil
	}
	w.leave(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(f.readers) > 0 { // they rely on a watch that is not there
		w.drop(f)
		w.nudge()
	}
	return typed(err)
}

func (w *Watcher) join(f *folder, p target) {
	f.readers[p] = struct{}{}
	w.places[p] = f
}

// leave takes p from its folder, and ends the watch when p was its last reader.
func (w *Watcher) leave(p target) {
	w.mu.Lock()
	f := w.places[p]
	if f == nil {
		w.mu.Unlock()
		return
	}
	delete(w.places, p)
	delete(f.readers, p)
	last := len(f.readers) == 0
	if last {
		delete(w.watches, f.name)
	}
	w.mu.Unlock()
	if last {
		_ = w.notify.Remove(f.name)
	}
}

// nudge lets Run see hints that Set has made.
func (w *Watcher) nudge() {
	select {
	case w.fresh <- struct{}{}:
	default:
	}
}
