package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// projectState is what the loop knows of one project. Its scanner works on one order at a time.
type projectState struct {
	project Project
	orders  chan order
	stop    func() // ends the scanner; nil before it was started
	folder  Folder // the folder that the path leads to; Path is "" before the first scan
	// unidentified is why the folder is not known.
	unidentified error
	next         queue
	busy         bool
	since        time.Time // when the order under way was given
	inRound      bool      // the order under way is a full scan that was due by time alone

	// The last scan.
	scannedAt time.Time
	snapshots []protocol.Snapshot
	speaks    []Spoken
	again     time.Time       // when the adapter wants the next scan
	problem   *protocol.Fault // the scanner panicked or does not answer
	unwatched *decide.Trouble // why its folders cannot be watched

	processes processWatch
	efforts   efforts
	unread    unreadable
	published time.Time // when capacity.json was last written
	removal   *removal  // nil unless the project was removed
}

// projects are the supervised projects by name.
type projects map[string]*projectState

// inOrder iterates over the projects in the order of their names.
func (all projects) inOrder() iter.Seq2[string, *projectState] {
	return func(yield func(string, *projectState) bool) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !yield(name, all[name]) {
				return
			}
		}
	}
}

// scanned iterates over the snapshots of all projects, in the order of their names.
func (all projects) scanned() iter.Seq[*protocol.Snapshot] {
	return func(yield func(*protocol.Snapshot) bool) {
		for _, d := range all.inOrder() {
			for i := range d.snapshots {
				if !yield(&d.snapshots[i]) {
					return
				}
			}
		}
	}
}

// any reports whether something is true of a project.
func (all projects) any(is func(*projectState) bool) bool {
	for _, d := range all {
		if is(d) {
			return true
		}
	}
	return false
}

// queue is what the scanner of a project is to do next.
type queue struct {
	full     bool // scan everything
	byClock  bool // the full scan is due by time alone
	rescan   bool // scan without a hint, because the adapter asked for it
	reopen   bool // reopen the adapters first
	hints    map[string]bool
	commands []command // changes that a person asked for
	changes  []protocol.Change
}

// removal is the work left to do for a removed project.
type removal struct {
	listed  bool              // due is complete
	due     []protocol.Change // still to be ordered
	ordered []protocol.Change // in the order under way
	failed  []protocol.Change // for good
	over    bool              // reports of its scanner are ignored
}

func newProjectState(p Project) *projectState {
	return &projectState{project: p, next: queue{full: true}, orders: make(chan order, 1), efforts: efforts{}}
}

// order returns the next order, if there is work. After changes the scanner rescans by hints only: an adapter knows
// what it changed itself (protocol.Adapter), and a full scan is expensive where much history lies.
// See docs/decisions.md, "After a change only hints are read".
func (d *projectState) order(now time.Time) (order, bool) {
	q := &d.next
	o := order{changes: q.changes, commands: q.commands, full: q.full || q.reopen, release: d.removal != nil && d.removal.listed}
	if d.busy || !o.full && !q.rescan && len(q.hints)+len(q.changes)+len(q.commands) == 0 {
		return order{}, false
	}
	if q.reopen {
		o.project = &d.project
	}
	if !o.full {
		o.hints = slices.Sorted(maps.Keys(q.hints))
	}
	d.inRound = q.byClock && !q.reopen && len(q.hints)+len(q.changes)+len(q.commands) == 0
	d.next, d.busy, d.since = queue{}, true, now
	return o, true
}

// hint asks for a scan of one path, relative to the project.
func (q *queue) hint(path string) {
	if q.hints == nil {
		q.hints = map[string]bool{}
	}
	q.hints[path] = true
}

// manages reports whether the last scan showed the task, and its protocol leaves it to steward (protocol 000).
func (d *projectState) manages(task protocol.Subject) bool {
	return slices.ContainsFunc(d.snapshots, func(s protocol.Snapshot) bool {
		return s.Protocol == task.Protocol && slices.ContainsFunc(s.Tasks, func(t protocol.Task) bool { return t.ID == task.ID && !t.Foreign })
	})
}

// hasWork reports whether the last scan showed a task without a result.
func (d *projectState) hasWork() bool {
	for i := range d.snapshots {
		if slices.ContainsFunc(d.snapshots[i].Tasks, func(t protocol.Task) bool { return t.Outcome == nil }) {
			return true
		}
	}
	return false
}

// working reports whether the scanner is busy or has work.
func (d *projectState) working() bool { return d.busy || d.next.full || len(d.next.changes) > 0 }

// stuckAfter is how long an order may take before the project is reported as not answering. Other projects are not
// affected.
const stuckAfter = 30 * time.Second

// stuck reports whether the scanner has worked on one order for too long.
func (d *projectState) stuck(now time.Time) bool { return d.busy && now.Sub(d.since) >= stuckAfter }

// isTemporary reports whether the name is that of a temporary file, which its writer (steward included) renames into
// place. The rename causes a hint of its own.
func isTemporary(name string) bool {
	return strings.HasPrefix(name, ".steward-") || strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, "~")
}

// setWatch records whether the project's folders can be watched. Without a watch, changes are seen at the next full
// scan. It reports whether that is news.
func (d *projectState) setWatch(err error, now time.Time, every time.Duration) (news bool) {
	if err == nil {
		d.unwatched = nil
		return false
	}
	old := d.unwatched
	d.unwatched = &decide.Trouble{Project: d.project.Name, Code: decide.CodeWatch, Title: "folders cannot be watched, so changes are seen late",
		Fault: protocol.Fault{Path: d.project.Path, Problem: fmt.Sprintf("folders cannot be watched, so changes are seen late, at a look every %v: %v", every, err),
			Hint: "see: steward doctor", Since: now, Severity: protocol.Low}}
	if old != nil {
		d.unwatched.Fault.Since = old.Fault.Since
	}
	return old == nil
}

// toKeep lists by protocol the agents that steward writes heartbeats for, with their uptime: those that leave it to steward
// and whose process is known to live. A heartbeat is written again early enough for the next full scan to be too late; a
// heartbeat that steward writes must not cause the next scan.
func (d *projectState) toKeep(cfg *decide.Config, now time.Time) map[string]map[string]time.Duration {
	keep := map[string]map[string]time.Duration{}
	for i := range d.snapshots {
		snap := &d.snapshots[i]
		for j := range snap.Agents {
			a := &snap.Agents[j]
			pace := cfg.Heartbeat.Of(snap.Protocol, a).Pace()
			if !a.Kept || !snap.Act || now.Sub(a.Beat.Last()).Abs() < max(pace-cfg.LookEvery, pace/2) || !d.processes.lives(a.Process) {
				continue
			}
			if keep[snap.Protocol] == nil {
				keep[snap.Protocol] = map[string]time.Duration{}
			}
			keep[snap.Protocol][a.Name] = 0
			if !a.Registered.IsZero() {
				keep[snap.Protocol][a.Name] = max(0, now.Sub(a.Registered))
			}
		}
	}
	return keep
}

// identified records which folder a full scan found.
func (d *projectState) identified(f Folder, err error) {
	switch {
	case err == nil:
		d.folder, d.unidentified = f, nil
	case errors.Is(err, fs.ErrNotExist):
		d.unidentified = nil // steward does not act on a missing folder
	case d.folder.Path == "":
		d.unidentified = err
	} // else keep the folder that was known
}

// place is the folder of a project; before the first scan only its path is known.
func (d *projectState) place() Folder {
	if d.folder.Path == "" {
		return Folder{Path: d.project.Path}
	}
	return d.folder
}

// failing lists the changes that failed and are still wanted, and a failed watch. every is the interval of full scans.
func (d *projectState) failing(now time.Time, every time.Duration) []decide.Trouble {
	list := d.efforts.failing(now, every)
	if d.unwatched != nil {
		list = append(list, *d.unwatched)
	}
	slices.SortFunc(list, func(a, b decide.Trouble) int { return strings.Compare(a.Fault.Problem, b.Fault.Problem) })
	return list
}

// troubles lists the faults that no snapshot shows.
func (d *projectState) troubles(now time.Time, every time.Duration) []decide.Trouble {
	list := d.failing(now, every)
	if p := d.problem; p != nil {
		t := decide.Trouble{Project: d.project.Name, Fault: *p}
		if d.stuck(now) {
			t.Code, t.Fault.Severity = decide.CodeStuck, protocol.High
		}
		list = append([]decide.Trouble{t}, list...)
	}
	return list
}
