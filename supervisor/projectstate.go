package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/supervisor/decide"
)

// project is what the loop knows of one project. Its scanner works on one order at a time.
type projectState struct {
	project Project
	folder  Folder // which one the path leads to; Path is "" until it was looked at
	// unidentified is why that is not known.
	unidentified error
	orders       chan order
	stop         func()
	busy         bool
	since        time.Time // when the order under way was given
	scannedAt    time.Time // end of the last look
	fullScanAt   time.Time // end of the last full one: hints may come so often that they must not put it off
	full         bool
	hintScan     bool // look without a hint: the adapter asked for it
	byClock      bool // the full look was asked for by the clock alone
	inTurn       bool // the order under way is such a look
	hintScans    int  // of that kind since the last full look
	hints        map[string]bool
	commands     []command // operator's orders that wait for the scanner
	changes      []protocol.Change
	snapshots    []protocol.Snapshot
	processes    map[protocol.Identity]heartbeat.ProcessState
	checked      time.Time                 // when all of them were last looked at
	trusts       bool                      // who was alive then counts as alive until his exit is told
	claims       map[int]protocol.Identity // who carries a pid that a file names; the bare pid when nobody does
	speaks       []Spoken
	again        time.Time // the adapter's own wish
	efforts      map[effortKey]*efforts
	failed       time.Time       // until when the last change rests that could not be made; zero: none yet
	problem      *protocol.Fault // the scanner's own trouble
	unwatched    *decide.Trouble // its folders cannot be watched
	hintsLostAt  time.Time       // when it was last said that the kernel had lost hints
	published    time.Time
	reopen       bool // open the adapters anew at the next look
	once         bool
	gone         bool // nobody listens to its scanner any more
	// Of a project that was removed: parts, once its releases are listed; partings, those to be ordered; underWay, those of
	// the order under way; kept, those that failed for good.
	listed                          bool
	releases, releasing, unreleased []protocol.Change
}

// Spoken says how a project's protocol is treated.
type Spoken struct {
	Protocol string
	Act      bool
	Why      string
}

func newProjectState(p Project) *projectState {
	return &projectState{project: p, full: true, hints: map[string]bool{}, orders: make(chan order, 1), efforts: map[effortKey]*efforts{}}
}

// order takes what is to be done next, if anything. After changes the scanner looks again, by hints alone: an adapter
// knows what it has changed itself (protocol.Adapter), and a full look may be dear where much history lies.
func (d *projectState) order(now time.Time) (order, bool) {
	if d.busy || d.gone {
		return order{}, false
	}
	o := order{changes: d.changes, commands: d.commands, full: d.full}
	if d.listed {
		o.release, d.releasing = true, d.changes
	}
	if d.reopen {
		o.project, o.full, d.reopen = &d.project, true, false
	}
	if !o.full {
		for h := range d.hints {
			o.hints = append(o.hints, h)
		}
		slices.Sort(o.hints)
		if len(o.hints)+len(o.changes)+len(o.commands) == 0 && !d.hintScan {
			return order{}, false
		}
	}
	switch {
	case o.full:
		d.hintScans = 0
	case d.hintScan:
		d.hintScans++
	}
	d.inTurn = d.byClock && len(o.changes)+len(o.commands)+len(d.hints) == 0 && o.project == nil
	d.changes, d.commands, d.full, d.hintScan, d.byClock = nil, nil, false, false, false
	clear(d.hints)
	d.busy, d.since = true, now
	return o, true
}

// hasWork reports whether a task without a result was seen.
func (d *projectState) hasWork() bool {
	for i := range d.snapshots {
		for j := range d.snapshots[i].Tasks {
			if d.snapshots[i].Tasks[j].Outcome == nil {
				return true
			}
		}
	}
	return false
}

// stuck reports whether the scanner has been at one order for too long.
func (d *projectState) stuck(now time.Time) bool { return d.busy && now.Sub(d.since) >= stuckAfter }

// hint takes note of a path that may have changed.
func (s *loop) addHint(h Hint) {
	d, ok := s.projects[h.Project]
	if !ok {
		return
	}
	if h.Lost {
		s.hintsLost(d)
	}
	path := h.Path
	if filepath.IsAbs(path) {
		rel, err := filepath.Rel(d.project.Path, path)
		if err != nil || strings.HasPrefix(rel, "..") {
			rel = ""
		}
		path = rel
	}
	switch {
	case path == "":
		d.full = true
	case isTemporary(filepath.Base(path)):
	default:
		d.hints[filepath.ToSlash(path)] = true
	}
}

// overflowed says in passing that the kernel has lost hints of a project; the full look that follows finds what they were
// about. Each is counted, but a folder in which a storm goes on is spoken of now and then only.
func (s *loop) hintsLost(d *projectState) {
	s.metrics.overflow()
	now := s.now()
	if !d.hintsLostAt.IsZero() && now.Sub(d.hintsLostAt) < hintsLostEvery && !now.Before(d.hintsLostAt) {
		return
	}
	d.hintsLostAt = now
	s.log.Warn("more changes than the kernel keeps; looking at everything instead", "project", d.project.Name)
	s.deps.Note(Entry{At: now, Kind: "note", Subject: decide.ProjectOf(d.project.Name),
		Text: "more changes came at once than the kernel keeps (fs.inotify.max_queued_events): everything is looked at instead"})
}

// overflowSaid is how often it is said of a project at most.
const hintsLostEvery = time.Minute

// inTheMaking reports whether the name is one that writers, ourselves included, give a file before they rename it into
// its place: the rename will be heard of, and a look before it would see nothing.
func isTemporary(name string) bool {
	return strings.HasPrefix(name, ".steward-") || strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, "~")
}

// effort is one thing to do to one subject; two different log lines are two efforts.
type effortKey struct {
	subject protocol.Subject
	verb    protocol.Verb
	event   string
}

func effortKeyOf(c protocol.Change) effortKey { return effortKey{c.Subject, c.Verb, c.Event} }

// tries remembers how often an effort was made in a row without lasting.
type efforts struct {
	n       int
	at      time.Time
	rest    time.Time       // not before
	failure *decide.Trouble // what the last one met with, unless the files had only moved on
}

// How soon after its rest the same change must come again to count as one that does not last, and how many such are
// made at once.
const (
	effortWithin = 10 * time.Second
	effortsFree  = 2
)

// tried counts a change that was made. One that fails, or succeeds and is asked for again at once (a read-only folder,
// a file that somebody rewrites all the time), rests for longer and longer, so that it cannot make the loop spin.
func (d *projectState) recordTry(c protocol.Change, err error, now time.Time) (again bool) {
	failed := err != nil
	e := effortKeyOf(c)
	t := d.efforts[e]
	if t == nil || !failed && now.Sub(t.at) > effortWithin && now.Sub(t.rest) > effortWithin {
		t = &efforts{}
		d.efforts[e] = t
	}
	t.n, t.at, t.failure = t.n+1, now, failure(c, err, t.failure, now)
	if over := t.n - effortsFree; over > 0 {
		longest := time.Minute
		if errors.Is(err, protocol.ErrConflict) {
			longest = 16 * time.Second // somebody else is at work there, and will be done
		}
		t.rest = now.Add(min(time.Second<<min(over-1, 6), longest))
	}
	if t.failure != nil {
		d.failed = latest(d.failed, t.at, t.rest)
	}
	return t.n <= effortsFree
}

// latest is the last of some moments.
func latest(moments ...time.Time) time.Time { return slices.MaxFunc(moments, time.Time.Compare) }

// failure is a change that cannot be made, as a Fault for the status page: the operator must learn of a full disk.
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

// watching applies whether the folders can be watched. Without, changes are seen at the pace of the looks.
func (d *projectState) setWatch(err error, now time.Time, pace time.Duration, log *slog.Logger) {
	if err == nil {
		d.unwatched = nil
		return
	}
	f := protocol.Fault{Path: d.project.Path, Problem: fmt.Sprintf("folders cannot be watched, so changes are seen late, at a look every %v: %v", pace, err),
		Hint: "see: steward doctor", Since: now, Severity: protocol.Low}
	if d.unwatched == nil {
		log.Warn("watch folders; looking every few seconds instead", "project", d.project.Name, "every", pace, "error", err)
	} else {
		f.Since = d.unwatched.Fault.Since
	}
	d.unwatched = &decide.Trouble{Project: d.project.Name, Code: decide.CodeWatch, Title: "folders cannot be watched, so changes are seen late", Fault: f}
}

// failing lists what the kernel refuses, and the changes that could not be made and are still wanted: one that is not tried again soon after its
// rest is no longer wanted.
func (d *projectState) failures(now time.Time, every time.Duration) []decide.Trouble {
	var list []decide.Trouble
	if now.Before(d.failed.Add(2 * every)) { // mostly none has: a thousand that went well need not be gone through
		for _, t := range d.efforts {
			if t.failure != nil && now.Before(latest(t.at, t.rest).Add(2*every)) {
				list = append(list, *t.failure)
			}
		}
	}
	if d.unwatched != nil {
		list = append(list, *d.unwatched)
	}
	slices.SortFunc(list, func(a, b decide.Trouble) int { return strings.Compare(a.Fault.Problem, b.Fault.Problem) })
	return list
}

// troubles are the faults that no snapshot shows.
func (d *projectState) troubles(now time.Time, every time.Duration) []decide.Trouble {
	list := d.failures(now, every)
	if p := d.problem; p != nil {
		t := decide.Trouble{Project: d.project.Name, Fault: *p}
		if d.stuck(now) {
			t.Code, t.Fault.Severity = decide.CodeStuck, protocol.High
		}
		list = append([]decide.Trouble{t}, list...)
	}
	return list
}

// resting reports whether a change was tried too often lately.
func (d *projectState) backsOff(c protocol.Change, now time.Time) bool {
	t := d.efforts[effortKeyOf(c)]
	return t != nil && now.Before(t.rest)
}

// forgetTries drops what has not been tried for long.
func (d *projectState) forgetEfforts(now time.Time) {
	for e, t := range d.efforts {
		if now.Sub(t.at) > 5*time.Minute {
			delete(d.efforts, e)
		}
	}
}
