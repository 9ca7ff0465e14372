package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/supervisor/decide"
)

// effortKey identifies one kind of change to one subject. Different log lines are different efforts.
type effortKey struct {
	subject protocol.Subject
	verb    protocol.Verb
	event   string
}

func effortKeyOf(c protocol.Change) effortKey { return effortKey{c.Subject, c.Verb, c.Event} }

// efforts counts, for each kind of change, the consecutive attempts that failed or did not last.
type efforts map[effortKey]*effort

type effort struct {
	n       int
	at      time.Time
	rest    time.Time       // earliest next attempt
	failure *decide.Trouble // why the last attempt failed; nil if only the files had changed
}

// A change counts as not lasting if it is planned again within effortWithin after its rest. The first effortsFree
// repetitions are made at once. An effort is forgotten after effortsKept.
const (
	effortWithin = 10 * time.Second
	effortsFree  = 2
	effortsKept  = 5 * time.Minute
)

// record counts an applied change. A change that fails, or that succeeds and is planned again at once (a read-only
// folder, a file that another program keeps rewriting), is retried with growing pauses, so that the loop cannot spin.
// again: the next attempt needs no pause.
func (all efforts) record(c protocol.Change, err error, now time.Time) (again bool) {
	maps.DeleteFunc(all, func(_ effortKey, e *effort) bool { return now.Sub(e.at) > effortsKept })
	key := effortKeyOf(c)
	e := all[key]
	if e == nil || err == nil && now.Sub(e.at) > effortWithin && now.Sub(e.rest) > effortWithin {
		e = &effort{}
		all[key] = e
	}
	e.n, e.at, e.failure = e.n+1, now, failure(c, err, e.failure, now)
	if over := e.n - effortsFree; over > 0 {
		longest := time.Minute
		if errors.Is(err, protocol.ErrConflict) {
			longest = 16 * time.Second // another program is changing the file and will finish soon
		}
		e.rest = now.Add(min(time.Second<<min(over-1, 6), longest))
	}
	return e.n <= effortsFree
}

// backsOff reports whether a change waits before its next attempt.
func (all efforts) backsOff(c protocol.Change, now time.Time) bool {
	e := all[effortKeyOf(c)]
	return e != nil && now.Before(e.rest)
}

// spent reports whether a change was attempted more often than effortsFree.
func (all efforts) spent(c protocol.Change) bool {
	e := all[effortKeyOf(c)]
	return e != nil && e.n > effortsFree
}

// failing lists the changes that failed and are still wanted. A change that is not tried again within two full scans after
// its pause is no longer wanted.
func (all efforts) failing(now time.Time, every time.Duration) (list []decide.Trouble) {
	for _, e := range all {
		if e.failure != nil && (now.Before(e.at.Add(2*every)) || now.Before(e.rest.Add(2*every))) {
			list = append(list, *e.failure)
		}
	}
	return list
}

// failure describes a change that cannot be made as a fault for the status page.
func failure(c protocol.Change, err error, last *decide.Trouble, now time.Time) *decide.Trouble {
	if err == nil || errors.Is(err, protocol.ErrConflict) {
		return nil
	}
	t := &decide.Trouble{Project: c.Subject.Project, Code: cmp.Or(c.Ref.Path, c.Subject.String()),
		Fault: protocol.Fault{Path: c.Ref.Path, Problem: fmt.Sprintf("%s %s: %v", c.Verb, c.Subject, err), Since: now}}
	switch {
	case errors.Is(err, jsonfile.ErrNoSpace):
		t.Code, t.Title, t.Fault.Severity = decide.CodeDisk, "the disk is full, so nothing can be changed", protocol.High
	case errors.Is(err, jsonfile.ErrManyFiles):
		t.TooManyFiles()
	case errors.Is(err, jsonfile.ErrReadOnly):
		t.Code, t.Title, t.Fault.Severity = decide.CodeDisk, "the disk is read-only, so nothing can be changed", protocol.High
	}
	if last != nil {
		t.Fault.Since = last.Fault.Since
	}
	return t
}
