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

// projectState is what the loop knows of one project. Its scanner works on one order at a time.
type projectState struct {
	project Project
	folder  Folder // the folder that the path leads to; Path is "" before the first scan
	// unidentified is why the folder is not known.
	unidentified error
	orders       chan order
	stop         func()
	busy         bool
	since        time.Time // when the order under way was given
	scannedAt    time.Time // end of the last scan
	fullScanAt   time.Time // end of the last full scan; frequent hints do not postpone the next one
	full         bool
	hintScan     bool // scan without a hint, because the adapter asked for it
	byClock      bool // the full scan is due by time alone
	inTurn       bool // the order under way is such a scan
	hintScans    int  // number of scans since the last full one that only the adapter asked for
	hints        map[string]bool
	commands     []command // changes that a person asked for
	changes      []protocol.Change
	snapshots    []protocol.Snapshot
	processes    map[protocol.Identity]heartbeat.ProcessState
	checked      time.Time                 // when all processes were last checked
	trusts       bool                      // processes that were alive then count as alive until their exit is reported
	claims       map[int]protocol.Identity // the process behind a pid that only a file names; the bare pid if there is none
	speaks       []Spoken
	again        time.Time // when the adapter wants the next scan
	efforts      map[effortKey]*efforts
	failed       time.Time       // end of the pause after the last failed change; zero: none failed
	problem      *protocol.Fault // the scanner panicked or does not answer
	unwatched    *decide.Trouble // why its folders cannot be watched
	hintsLostAt  time.Time       // when lost hints were last reported
	published    time.Time
	reopen       bool // reopen the adapters at the next scan
	once         bool
	gone         bool     // reports of its scanner are ignored
	removal      *removal // nil unless the project was removed
}

// Spoken says whether steward acts on a protocol of a project or only observes it, and why.
type Spoken struct {
	Protocol string
	Act      bool
	Why      string
}

func newProjectState(p Project) *projectState {
	return &projectState{project: p, full: true, hints: map[string]bool{}, orders: make(chan order, 1), efforts: map[effortKey]*efforts{}}
}

// order returns the next order, if there is work. After changes the scanner rescans by hints only: an adapter knows
// what it changed itself (protocol.Adapter), and a full scan is expensive where much history lies.
// See docs/decisions.md, "After a change only hints are read".
func (d *projectState) order(now time.Time) (order, bool) {
	if d.busy || d.gone {
		return order{}, false
	}
	o := order{changes: d.changes, commands: d.commands, full: d.full}
	if d.removal != nil && d.removal.listed {
		o.release, d.removal.ordered = true, d.changes
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

// hasWork reports whether the last scan showed a task without a result.
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

// stuck reports whether the scanner has worked on one order for too long.
func (d *projectState) stuck(now time.Time) bool { return d.busy && now.Sub(d.since) >= stuckAfter }

// addHint records a path that may have changed.
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

// hintsLost reports that the kernel dropped hints of a project; the full scan that follows replaces them. Every
// overflow is counted, but reported at most once per hintsLostEvery.
func (s *loop) hintsLost(d *projectState) {
	s.metrics.overflow()
	now := s.now()
	if !d.hintsLostAt.IsZero() && now.Sub(d.hintsLostAt) < hintsLostEvery && !now.Before(d.hintsLostAt) {
		return
	}
	d.hintsLostAt = now
	s.log.Warn("more changes than the kernel keeps; looking at everything instead", "project", d.project.Name)
	s.deps.Note(Entry{At: now, Kind: "note", Subject: decide.ProjectOf(d.project.Name),
		Text: "more changes came at once than the kernel keeps (fs.inotify.max_queued_events): the whole project is scanned instead"})
}

// hintsLostEvery limits how often lost hints of one project are reported.
const hintsLostEvery = time.Minute

// isTemporary reports whether the name is that of a temporary file, which its writer (steward included) renames into
// place. The rename causes a hint of its own.
func isTemporary(name string) bool {
	return strings.HasPrefix(name, ".steward-") || strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, "~")
}

// effortKey identifies one kind of change to one subject. Different log lines are different efforts.
type effortKey struct {
	subject protocol.Subject
	verb    protocol.Verb
	event   string
}

func effortKeyOf(c protocol.Change) effortKey { return effortKey{c.Subject, c.Verb, c.Event} }

// efforts counts consecutive changes of one kind that failed or did not last.
type efforts struct {
	n       int
	at      time.Time
	rest    time.Time       // earliest next attempt
	failure *decide.Trouble // why the last attempt failed; nil if only the files had changed
}

// A change counts as not lasting if it is planned again within effortWithin after its rest. The first effortsFree
// repetitions are made at once.
const (
	effortWithin = 10 * time.Second
	effortsFree  = 2
)

// recordTry counts an applied change. A change that fails, or that succeeds and is planned again at once (a read-only
// folder, a file that another program keeps rewriting), is retried with growing pauses, so that the loop cannot spin.
// again: the first repetitions need no pause.
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
			longest = 16 * time.Second // another program is changing the file and will finish soon
		}
		t.rest = now.Add(min(time.Second<<min(over-1, 6), longest))
	}
	if t.failure != nil {
		d.failed = latest(d.failed, t.at, t.rest)
	}
	return t.n <= effortsFree
}

// latest returns the last of some moments.
func latest(moments ...time.Time) time.Time { return slices.MaxFunc(moments, time.Time.Compare) }

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

// setWatch records whether the project's folders can be watched. Without a watch, changes are seen at the next full
// scan.
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

// failures lists the changes that failed and are still wanted, and a failed watch. A change that is not tried again
// soon after its pause is no longer wanted.
func (d *projectState) failures(now time.Time, every time.Duration) []decide.Trouble {
	var list []decide.Trouble
	if now.Before(d.failed.Add(2 * every)) { // usually nothing failed, so do not go through all efforts
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

// troubles lists the faults that no snapshot shows.
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

// backsOff reports whether a change waits before its next attempt.
func (d *projectState) backsOff(c protocol.Change, now time.Time) bool {
	t := d.efforts[effortKeyOf(c)]
	return t != nil && now.Before(t.rest)
}

// forgetEfforts drops efforts older than five minutes.
func (d *projectState) forgetEfforts(now time.Time) {
	for e, t := range d.efforts {
		if now.Sub(t.at) > 5*time.Minute {
			delete(d.efforts, e)
		}
	}
}
