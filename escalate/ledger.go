// Package escalate keeps the incidents, and carries the call to a human.
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

// Errors that callers tell apart.
var (
	ErrUnknown   = errors.New("no incident")
	ErrAmbiguous = errors.New("several incidents begin like this")
	ErrResolved  = errors.New("the incident is resolved already")
)

// Ledger keeps the incidents: in memory for reading, one fsynced file each for good. A change is on disk before
// the call that made it returns. It is safe for concurrent use within one process.
type Ledger struct {
	dir string
	put func(dir, name string, b []byte) error
	// changed has a token whenever a Dispatcher may have something to do.
	changed chan struct{}

	// turn lets one change happen at a time and is held while it is written; mu guards the maps, is taken
	// inside turn, and is never held over I/O: a reader does not wait for a disk.
	turn    sync.Mutex
	mu      sync.RWMutex
	all     map[string]Incident
	heads   map[string]rules.Head
	view    map[string]rules.Head // a copy of heads that was handed out; nil once it is outdated
	open    map[string]bool
	errands map[string]bool
	unsaved map[string]bool
	// uncarried have an answer that the agent cannot read yet.
	uncarried map[string]bool
}

// Open reads the ledger in dir and makes the folder if need be. A file that cannot be used is a Fault, and stays
// there under another name ("….bad").
func Open(dir string) (*Ledger, []protocol.Fault, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the folder of the incident ledger: %w", err)
	}
	incidents, faults, err := load(dir)
	if err != nil {
		return nil, nil, err
	}
	l := newLedger(dir)
	for _, i := range incidents {
		l.publish(i)
	}
	return l, faults, nil
}

func newLedger(dir string) *Ledger {
	return &Ledger{dir: dir, put: put, changed: make(chan struct{}, 1), all: map[string]Incident{}, heads: map[string]rules.Head{},
		open: map[string]bool{}, errands: map[string]bool{}, unsaved: map[string]bool{}, uncarried: map[string]bool{}}
}

// Raise enters an alert. When the error is not nil, the incident could not be written: it stands in memory, and
// every later change, and Flush, tries again to write it.
func (l *Ledger) Raise(a rules.Alert, now time.Time) (Incident, rules.Outcome, error) {
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

// raiseOver enters an alert that ends its incident. One that is over, or was never raised, is no error.
func (l *Ledger) raiseOver(a rules.Alert, now time.Time) (Incident, rules.Outcome, error) {
	i, err := l.Resolve(a.Key, rules.ByFiles, a.Detail, now)
	if errors.Is(err, ErrResolved) || errors.Is(err, ErrUnknown) {
		return i, rules.OutcomeSame, nil
	}
	return i, rules.OutcomeResolved, err
}

// Resolve ends an incident. Errors: ErrUnknown, ErrResolved, or that it could not be written (see Raise).
func (l *Ledger) Resolve(key string, by rules.By, why string, now time.Time) (Incident, error) {
	return l.end(key, "resolve", func(i Incident) (Incident, bool) { return resolve(i, by, why, wall(now)) })
}

// Ack records that a human has seen the incident: nobody is told of it until that lapses. Errors as for Resolve.
func (l *Ledger) Ack(key string, cfg Config, now time.Time) (Incident, error) {
	return l.end(key, "acknowledge", func(i Incident) (Incident, bool) { return acknowledge(i, wall(now).Add(cfg.peace(i))) })
}

func (l *Ledger) end(key, what string, f func(Incident) (Incident, bool)) (Incident, error) {
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

// Record enters an attempt to deliver an incident's notice; settled: the notice needs no further attempt.
func (l *Ledger) Record(key string, d Delivery, settled bool) error {
	d.At = wall(d.At)
	_, err := l.change(key, func(i Incident) (Incident, bool, error) {
		if i.Rev == 0 {
			return i, false, fmt.Errorf("record a delivery: %w %.64s", ErrUnknown, key)
		}
		return deliver(i, d, settled), true, nil
	})
	return err
}

// settle records that a notice needs no further attempt, unless a newer one has taken its place.
func (l *Ledger) settle(m member) error {
	_, err := l.change(m.key, func(i Incident) (Incident, bool, error) {
		owed := i.Notice == m.rev && i.Notified < m.rev
		if owed {
			i.Notified = m.rev
		}
		return i, owed, nil
	})
	return err
}

// advance opens the incidents whose acknowledgement is over, has the others climb their ladders, and says when there
// will be more to do (zero: nothing by time alone).
func (l *Ledger) advance(cfg Config, channels []string, now time.Time) (next time.Time, err error) {
	step := func(i Incident, soon time.Time) (Incident, time.Time) {
		if i.rests() {
			up, _ := lapse(i, wall(now))
			return up, i.AckedUntil
		}
		return climb(i, cfg.ladder(i), channels, wall(soon))
	}
	list, soon := l.pick(l.open, nil), now
	if slices.ContainsFunc(list, func(i Incident) bool { up, _ := step(i, now); return up.Rev != i.Rev }) {
		soon = now.Add(burstWithin) // those that are due in a moment go along: one reminder of many
	}
	for _, i := range list {
		up, due := step(i, soon)
		if up.Rev == i.Rev {
			next = earlier(next, due)
			continue
		}
		_, e := l.change(i.Key, func(i Incident) (Incident, bool, error) { // it may be another one by now
			up, _ := step(i, soon)
			return up, up.Rev != i.Rev, nil
		})
		err = cmp.Or(err, e)
	}
	return next, err
}

// change is the one way to alter an incident. A key that is not known gives f the zero Incident.
func (l *Ledger) change(key string, f func(Incident) (Incident, bool, error)) (Incident, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
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
