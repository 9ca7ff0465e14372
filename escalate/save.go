package escalate

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
)

// wall returns the time as it will be read back from disk, without the monotonic clock, which stops while the machine
// sleeps and is lost on restart.
func wall(t time.Time) time.Time { return t.UTC().Round(0) }

// save writes one incident. If that fails, it marks the incident as unsaved.
func (l *Incidents) save(i Incident) error {
	b, err := encode(i)
	if err == nil {
		err = l.put(l.dir, i.Key+".json", b)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.unsaved[i.Key] = true
		return fmt.Errorf("write incident %s: %w", i.Key, err)
	}
	delete(l.unsaved, i.Key)
	return nil
}

// publish makes an incident visible to readers.
func (l *Incidents) publish(i Incident) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, known := l.all[i.Key]; !known || old.head() != i.head() {
		l.heads = nil // a delivery alone does not invalidate them
	}
	l.all[i.Key] = i
	if i.isOpen() || i.job() != jobNone || i.isUncarried() {
		l.active[i.Key] = true
	} else {
		delete(l.active, i.Key)
	}
	l.signal()
}

// signal wakes the Dispatcher.
func (l *Incidents) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Flush writes the incidents that could not be written before, for example because the disk was full. Nil means that
// all incidents are on disk.
func (l *Incidents) Flush() error {
	l.mu.RLock()
	clean := len(l.unsaved) == 0
	l.mu.RUnlock()
	if clean {
		return nil // returns without waiting for a change in progress
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.flush()
}

// flush stops at the first failure, so that a disk that is still full is tried once, not once per incident.
func (l *Incidents) flush() error {
	l.mu.RLock()
	keys := slices.Sorted(maps.Keys(l.unsaved))
	l.mu.RUnlock()
	for _, key := range keys {
		i, _ := l.get(key)
		if err := l.save(i); err != nil {
			return err
		}
	}
	return nil
}

// Prune removes the incidents that were resolved longer ago than keep and returns their number.
func (l *Incidents) Prune(now time.Time, keep time.Duration) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.RLock()
	var old []string
	for key, i := range l.all {
		if i.State == rules.Resolved && now.Sub(i.ResolvedAt) > keep {
			old = append(old, key)
		}
	}
	l.mu.RUnlock()
	for n, key := range old {
		if err := os.Remove(filepath.Join(l.dir, key+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, fmt.Errorf("remove incident %s: %w", key, err)
		}
		l.mu.Lock()
		l.heads = nil
		delete(l.all, key)
		delete(l.active, key)
		delete(l.unsaved, key)
		l.mu.Unlock()
	}
	return len(old), nil
}
