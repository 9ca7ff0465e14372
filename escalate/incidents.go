// Package escalate stores incidents and delivers them to the operator.
package escalate

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// Errors that callers distinguish.
var (
	ErrUnknown   = errors.New("no incident")
	ErrAmbiguous = errors.New("several incidents begin like this")
	ErrResolved  = errors.New("the incident is resolved already")
)

// Incidents stores the incidents in memory for reading and durably in one fsynced file each. A change is on disk before
// the call that made it returns. It is safe for concurrent use within one process.
type Incidents struct {
	dir string
	put func(dir, name string, b []byte) error
	// changed receives a token whenever a Dispatcher may have work.
	changed chan struct{}

	// writing serializes changes and is held while a change is written. mu guards the maps, is locked inside turn and is
	// never held during I/O, so readers do not wait for the disk.
	writing sync.Mutex
	mu      sync.RWMutex
	all     map[string]Incident
	active  map[string]bool       // the incidents that are not over or still need work: few of all that are kept
	heads   map[string]rules.Head // of all incidents, as last handed out; nil once it is outdated
	unsaved map[string]bool
}

// Open reads the incidents in dir and creates the folder if needed. A file that cannot be used is reported as a Fault
// and kept under another name ("….bad").
func Open(dir string) (*Incidents, []protocol.Fault, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the folder of the incidents: %w", err)
	}
	incidents, faults, err := load(dir)
	if err != nil {
		return nil, nil, err
	}
	l := newIncidents(dir)
	for _, i := range incidents {
		l.publish(i)
	}
	return l, faults, nil
}

func newIncidents(dir string) *Incidents {
	return &Incidents{dir: dir, put: put, changed: make(chan struct{}, 1), all: map[string]Incident{}, active: map[string]bool{}, unsaved: map[string]bool{}}
}

// Raise enters an alert. If it returns a write error, the incident is kept in memory; every later change and Flush
// retry the write.
func (l *Incidents) Raise(a rules.Alert, now time.Time) (Incident, rules.Outcome, error) {
	a = a.Tidy()
	if !keyFits(a.Key) {
		return Incident{}, "", fmt.Errorf("raise an incident: %.40q is not a key", a.Key)
	}
	if a.Resolve {
		return l.raiseOver(a, now)
	}
	var out rules.Outcome
	i, err := l.change(a.Key, func(i Incident) (Incident, bool, error) {
		i, out = raise(i, a, wall(now))
		return i, out != rules.OutcomeSame, nil
	})
	return i, out, err
}

// raiseOver enters an alert that resolves its incident. An incident that is already resolved or unknown is not an
// error.
func (l *Incidents) raiseOver(a rules.Alert, now time.Time) (Incident, rules.Outcome, error) {
	i, err := l.Resolve(a.Key, rules.ByFiles, a.Detail, now)
	if errors.Is(err, ErrResolved) || errors.Is(err, ErrUnknown) {
		return i, rules.OutcomeSame, nil
	}
	return i, rules.OutcomeResolved, err
}

// Resolve ends an incident. Errors: ErrUnknown, ErrResolved, or a write error (see Raise).
func (l *Incidents) Resolve(key string, by rules.By, why string, now time.Time) (Incident, error) {
	return l.end(key, "resolve", func(i Incident) (Incident, bool) { return resolve(i, by, why, wall(now)) })
}

// Ack acknowledges an incident: no notices are sent until the acknowledgement lapses. Errors as for Resolve.
func (l *Incidents) Ack(key string, cfg Config, now time.Time) (Incident, error) {
	return l.end(key, "acknowledge", func(i Incident) (Incident, bool) { return acknowledge(i, wall(now).Add(cfg.ackTime(i))) })
}

func (l *Incidents) end(key, what string, f func(Incident) (Incident, bool)) (Incident, error) {
	return l.change(key, func(i Incident) (Incident, bool, error) {
		if i.Rev == 0 {
			return i, false, fmt.Errorf("%s: %w %.64s", what, ErrUnknown, key)
		}
		i, ok := f(i)
		if !ok {
			return i, false, fmt.Errorf("%s incident %s: %w", what, key, ErrResolved)
		}
		return i, true, nil
	})
}

// Record stores an attempt to deliver an incident's notice; settled means that the notice needs no further attempt.
func (l *Incidents) Record(key string, d Delivery, settled bool) error {
	d.At = wall(d.At)
	_, err := l.change(key, func(i Incident) (Incident, bool, error) {
		if i.Rev == 0 {
			return i, false, fmt.Errorf("record a delivery: %w %.64s", ErrUnknown, key)
		}
		return deliver(i, d, settled), true, nil
	})
	return err
}

// settle records that a notice needs no further attempt, unless a newer notice has replaced it.
func (l *Incidents) settle(m burstMember) error {
	_, err := l.change(m.key, func(i Incident) (Incident, bool, error) {
		owed := i.Notice == m.rev && i.Notified < m.rev
		if owed {
			i.Notified = m.rev
		}
		return i, owed, nil
	})
	return err
}

// advance reopens the incidents whose acknowledgement has lapsed, advances the others on their ladders, and returns
// when it has more to do (zero: nothing is scheduled).
func (l *Incidents) advance(cfg Config, channels []string, now time.Time) (next time.Time, err error) {
	step := func(i Incident, soon time.Time) (Incident, time.Time) {
		if i.isSilenced() {
			up, _ := reopenLapsed(i, wall(now))
			return up, i.AckedUntil
		}
		return climb(i, cfg.ladder(i), channels, wall(soon))
	}
	list, soon := l.pick(Incident.isOpen, nil), now
	if slices.ContainsFunc(list, func(i Incident) bool { up, _ := step(i, now); return up.Rev != i.Rev }) {
		soon = now.Add(burstWithin) // include incidents that are due shortly: they share one reminder
	}
	for _, i := range list {
		up, due := step(i, soon)
		if up.Rev == i.Rev {
			next = earlier(next, due)
			continue
		}
		_, e := l.change(i.Key, func(i Incident) (Incident, bool, error) { // the incident may have changed since pick
			up, _ := step(i, soon)
			return up, up.Rev != i.Rev, nil
		})
		err = cmp.Or(err, e)
	}
	return next, err
}

// change is the only way to alter an incident. For an unknown key, f gets the zero Incident.
func (l *Incidents) change(key string, f func(Incident) (Incident, bool, error)) (Incident, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	flushed := l.flush()
	old, _ := l.get(key)
	i, changed, err := f(old)
	if err != nil {
		return old, err
	}
	if !changed {
		if l.isUnsaved(key) {
			err = flushed
		}
		return old, err
	}
	err = l.save(i)
	l.publish(i)
	return i, err
}
