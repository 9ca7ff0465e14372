package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Add watches another folder under the empty key. Adding a folder again has no effect.
func (w *Watcher) Add(dir string) error {
	w.setting.Lock()
	defer w.setting.Unlock()
	w.clear()
	if err := w.watch(target{"", filepath.Clean(dir)}); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	return nil
}

// Set makes dirs the watched folders of key. It skips and returns paths that do not exist or are not folders. Calling
// it again costs one stat per folder and detects replaced folders; so call it at each full scan, before the scan,
// because changes made before the watch exists produce no event. Nil dirs remove the key and its waiting hints. On
// ErrNoWatches the folders that already have a watch stay watched. Other errors concern single folders.
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

// clear removes from fsnotify what Run has dropped. fsnotify may already have removed it.
func (w *Watcher) clear() {
	w.mu.Lock()
	dropped := w.dropped
	w.dropped = nil
	w.mu.Unlock()
	for _, name := range dropped {
		_ = w.notify.Remove(name)
	}
}

// keep removes the watches of key that are no longer wanted.
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

// watch makes sure that p is watched, and that the watch is on the folder that p currently names.
func (w *Watcher) watch(p target) error {
	// Stat before watching: if the folder is replaced in between, the next call detects the difference.
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
	return w.open(&watchedFolder{name: p.dir, info: info, readers: map[target]struct{}{}}, p)
}

// adopt joins an existing watch on the same folder under another name (a link, a bind mount), if there is one: the
// kernel has only one watch per folder and reports events under the first name. It drops conflicting watches: on a
// folder that has moved, or under a name that now means another folder.
func (w *Watcher) adopt(p target, info os.FileInfo) bool {
	found := false
	w.mu.Lock()
	for _, f := range w.watches {
		same := os.SameFile(f.info, info)
		switch {
		case same && f.inPlace():
			w.join(f, p) // under the lock: Run may drop it as soon as the lock is free
			found = true
		case same, f.name == p.dir:
			w.drop(f)
		}
	}
	w.mu.Unlock()
	// Clear before the name is reused; a later clear would remove its new watch.
	w.clear()
	w.nudge()
	return found
}

// inPlace reports whether the name still leads to the watched folder.
func (f *watchedFolder) inPlace() bool {
	there, err := look(f.name)
	return err == nil && os.SameFile(there, f.info)
}

// open registers the folder before watching it, because events may arrive before fsnotify has returned.
func (w *Watcher) open(f *watchedFolder, p target) error {
	w.mu.Lock()
	w.watches[f.name] = f
	w.join(f, p)
	w.mu.Unlock()
	return w.begin(f, p)
}

// begin adds the watch in the kernel. Adding a folder that is already watched has no effect.
func (w *Watcher) begin(f *watchedFolder, p target) error {
	err := w.notify.Add(f.name)
	if err == nil {
		return nil
	}
	w.leave(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(f.readers) > 0 { // the other readers rely on a watch that does not exist
		w.drop(f)
		w.nudge()
	}
	return typed(err)
}

func (w *Watcher) join(f *watchedFolder, p target) {
	f.readers[p] = struct{}{}
	w.places[p] = f
}

// leave removes p from its folder, and removes the watch if p was the last reader.
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

// nudge wakes Run for hints that Set has created.
func (w *Watcher) nudge() {
	select {
	case w.fresh <- struct{}{}:
	default:
	}
}
