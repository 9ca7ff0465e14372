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

// wall is the time as it will be read back from disk: a monotonic clock stands still while the machine sleeps, and
// is gone after a restart.
func wall(t time.Time) time.Time { return t.UTC().Round(0) }

// save writes one incident, or remembers that it is still to be written.
func (l *Ledger) save(i Incident) error {
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
func (l *Ledger) publish(i Incident) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[i.Key] = i
	if head := i.head(); l.heads[i.Key] != head {
		l.heads[i.Key], l.view = head, nil // a delivery alone leaves the view as it is
	}
	mark(l.open, i.Key, i.State != rules.Resolved)
	mark(l.errands, i.Key, i.errand() != errandNone)
	mark(l.uncarried, i.Key, i.Answer != nil && i.Answer.Carried.IsZero())
	l.signal()
}

// signal has the Dispatcher look again.
func (l *Ledger) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func mark(set map[string]bool, key string, in bool) {
	if in {
		set[key] = true
		return
	}
	delete(set, key)
}

// Flush writes what a full disk kept from being written. Nil: all is on disk.
func (l *Ledger) Flush() error {
	l.mu.RLock()
	clean := len(l.unsaved) == 0
	l.mu.RUnlock()
	if clean {
		return nil // without waiting for a change that is being written
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	return l.flush()
}

// flush stops at the first failure: a disk that is still full is asked once, not once for each incident.
func (l *Ledger) flush() error {
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

// Prune removes what was resolved longer ago than keep, and says how many that were.
func (l *Ledger) Prune(now time.Time, keep time.Duration) (int, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
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
		l.forget(key)
	}
	return len(old), nil
}

func (l *Ledger) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view = nil
	delete(l.all, key)
	delete(l.heads, key)
	delete(l.errands, key)
	delete(l.uncarried, key)
	delete(l.unsaved, key)
}
