package escalate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
)

// List returns the unresolved incidents, most severe first, then newest first.
func (l *Incidents) List() []Incident {
	return l.pick(Incident.isOpen, func(a, b Incident) int {
		return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), b.Last.Compare(a.Last), strings.Compare(a.Key, b.Key))
	})
}

// Popups returns the keys of the incidents' popups that are on screen, or were when the last run ended.
func Popups(open []Incident) []string {
	var keys []string
	for _, i := range open {
		for _, d := range i.popupsShown() {
			if i.State == rules.Raised && !slices.Contains(keys, d.Popup) {
				keys = append(keys, d.Popup)
			}
		}
	}
	return keys
}

// Standing returns the notice for a popup that is on screen, or was when its server exited: that of an open incident,
// or the summary of several. It returns false if no open incident has that popup.
func (l *Incidents) Standing(popup string) (Notice, bool) {
	if i, ok := l.get(popup); ok {
		return noticeOf(i), i.State == rules.Raised && i.showsPopup(popup)
	}
	on := l.pick(func(i Incident) bool { return i.State == rules.Raised && i.showsPopup(popup) },
		func(a, b Incident) int { return cmp.Or(a.First.Compare(b.First), strings.Compare(a.Key, b.Key)) })
	if len(on) == 0 {
		return Notice{}, false
	}
	return summaryOf(popup, on, nil), true
}

// Shows reports whether the popup with that key is for an open incident.
func (l *Incidents) Shows(popup string) bool {
	return len(l.pick(func(i Incident) bool { return i.State == rules.Raised && (i.showsPopup(popup) || i.Key == popup) }, nil)) > 0
}

// owed lists the incidents with a job, in the order of processing.
func (l *Incidents) owed() []Incident {
	return l.pick(func(i Incident) bool { return i.job() != jobNone }, func(a, b Incident) int {
		return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), a.Last.Compare(b.Last), strings.Compare(a.Key, b.Key))
	})
}

// causes lists the open incidents that may explain others.
func (l *Incidents) causes() []Incident {
	return l.pick(func(i Incident) bool { return i.isOpen() && consequences[i.Kind] != nil }, nil)
}

// pick lists the active incidents for which is reports true.
func (l *Incidents) pick(is func(Incident) bool, order func(a, b Incident) int) (list []Incident) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for key := range l.active {
		if i := l.all[key]; is(i) {
			list = append(list, i)
		}
	}
	if order != nil {
		slices.SortFunc(list, order)
	}
	return list
}

// Find returns the incident whose key starts with prefix. An open incident takes precedence over resolved ones.
// Errors: ErrUnknown, ErrAmbiguous.
func (l *Incidents) Find(prefix string) (Incident, error) {
	if i, ok := l.get(prefix); ok {
		return i, nil
	}
	if prefix == "" {
		return Incident{}, ErrUnknown
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	var found, open []string
	for key, i := range l.all {
		if strings.HasPrefix(key, prefix) {
			found = append(found, key)
			if i.isOpen() {
				open = append(open, key)
			}
		}
	}
	if len(open) > 0 {
		found = open
	}
	switch len(found) {
	case 0:
		return Incident{}, fmt.Errorf("%w %.64s", ErrUnknown, prefix)
	case 1:
		return l.all[found[0]], nil
	}
	slices.Sort(found)
	return Incident{}, fmt.Errorf("%s: %w: %s", prefix, ErrAmbiguous, strings.Join(found[:min(len(found), 5)], ", "))
}

// Heads returns the head of every incident, including resolved ones. The map must not be modified. It never changes,
// and the same map is returned until a head changes.
func (l *Incidents) Heads() map[string]rules.Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heads == nil {
		l.heads = make(map[string]rules.Head, len(l.all))
		for key, i := range l.all {
			l.heads[key] = i.head()
		}
	}
	return l.heads
}

func (l *Incidents) get(key string) (Incident, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i, ok := l.all[key]
	return i, ok
}

func (l *Incidents) isUnsaved(key string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.unsaved[key]
}

// earlier returns the earlier of two times; a zero time means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
