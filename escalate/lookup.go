package escalate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
)

// List returns the unresolved incidents, most severe first, then newest first.
func (l *Ledger) List() []Incident {
	return l.pick(l.open, func(a, b Incident) int {
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
func (l *Ledger) Standing(popup string) (Notice, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if i, ok := l.all[popup]; ok {
		return noticeOf(i), i.State == rules.Raised && i.showsPopup(popup)
	}
	var on []Incident
	for key := range l.open {
		if i := l.all[key]; i.State == rules.Raised && i.showsPopup(popup) {
			on = append(on, i)
		}
	}
	if len(on) == 0 {
		return Notice{}, false
	}
	slices.SortFunc(on, func(a, b Incident) int { return cmp.Or(a.First.Compare(b.First), strings.Compare(a.Key, b.Key)) })
	return summaryOf(popup, on, nil), true
}

// Shows reports whether the popup with that key is for an open incident.
func (l *Ledger) Shows(popup string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for key := range l.open {
		if i := l.all[key]; i.State == rules.Raised && (i.showsPopup(popup) || key == popup) {
			return true
		}
	}
	return false
}

// owed lists the incidents with a job, in the order of processing.
func (l *Ledger) owed() []Incident {
	return l.pick(l.jobs, func(a, b Incident) int {
		return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), a.Last.Compare(b.Last), strings.Compare(a.Key, b.Key))
	})
}

// causes lists the open incidents that may explain others.
func (l *Ledger) causes() []Incident {
	return slices.DeleteFunc(l.pick(l.open, nil), func(i Incident) bool { return consequences[i.Kind] == nil })
}

func (l *Ledger) pick(keys map[string]bool, order func(a, b Incident) int) []Incident {
	l.mu.RLock()
	list := make([]Incident, 0, len(keys))
	for key := range keys {
		list = append(list, l.all[key])
	}
	l.mu.RUnlock()
	if order != nil {
		slices.SortFunc(list, order)
	}
	return list
}

// Find returns the incident whose key starts with prefix. An open incident takes precedence over resolved ones.
// Errors: ErrUnknown, ErrAmbiguous.
func (l *Ledger) Find(prefix string) (Incident, error) {
	if i, ok := l.get(prefix); ok {
		return i, nil
	}
	if prefix == "" {
		return Incident{}, ErrUnknown
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	found := withPrefix(maps.Keys(l.open), prefix)
	if len(found) == 0 {
		found = withPrefix(maps.Keys(l.all), prefix)
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

func withPrefix(keys func(func(string) bool), prefix string) []string {
	var found []string
	for key := range keys {
		if strings.HasPrefix(key, prefix) {
			found = append(found, key)
		}
	}
	return found
}

// Heads returns the head of every incident, including resolved ones. The map must not be modified. It never changes,
// and the same map is returned until a head changes.
func (l *Ledger) Heads() map[string]rules.Head {
	l.mu.RLock()
	view := l.view
	l.mu.RUnlock()
	if view != nil {
		return view
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.view == nil {
		l.view = maps.Clone(l.heads)
	}
	return l.view
}

func (l *Ledger) get(key string) (Incident, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i, ok := l.all[key]
	return i, ok
}

func (l *Ledger) isUnsaved(key string) bool {
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
