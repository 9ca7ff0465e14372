package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// releaseTime limits how long steward releases tasks when it stops. It is less than what the service managers allow:
// TimeoutStopSec=15s in the unit, ExitTimeOut 20 s in the property list.
// See docs/decisions.md, "A stop releases for up to 12 s and does not read the tasks again".
const releaseTime = 12 * time.Second

// releaseChunk is the number of releases in one order. At most that many are under way when the time is over.
const releaseChunk = 200

// scannerGrace is how long the scanners may take to return at the end.
const scannerGrace = time.Second

// ErrStayHeld: steward stopped and could not release every hold.
var ErrStayHeld = errors.New("tasks stay held")

// removals are the projects that left the loop (at a stop, or from the configuration) and still release their holds.
type removals struct {
	projects []*projectState
	failed   []protocol.Change // the releases that failed for good, since the stop began
	// deadline is for the releases of a stop; zero while steward runs. givenUp: it has passed, and only orders under way are
	// awaited.
	deadline  time.Time
	givenUp   bool
	handsOver bool // another steward follows, so the holds are renewed instead
}

// stopping reports whether steward stops, and done whether the stop is complete.
func (r *removals) stopping() bool { return !r.deadline.IsZero() }
func (r *removals) done() bool     { return r.stopping() && len(r.projects) == 0 }

// begin starts a stop. When another steward follows at once, the leases are renewed instead: they expire if it does not
// come.
func (r *removals) begin(handsOver bool, now time.Time) {
	r.deadline, r.handsOver, r.failed = now.Add(releaseTime), handsOver, nil
}

// add takes over a project from the loop. Its scanner ends once all its holds are released.
func (r *removals) add(d *projectState, now time.Time, lease time.Duration) {
	for _, c := range d.next.commands {
		c.reply <- ErrStopped
	}
	d.next, d.removal = queue{}, &removal{}
	r.projects = append(r.projects, d)
	switch {
	case !d.busy:
		r.next(d, now, lease)
	case r.stopping() && d.stuck(now): // its disk has not answered for long, so do not wait for it
		r.leave(d, now, lease)
	}
}

// next orders the next releases of a removed project, or ends the project when there are none.
func (r *removals) next(d *projectState, now time.Time, lease time.Duration) {
	r.list(d, now, lease)
	m := d.removal
	n := min(releaseChunk, len(m.due))
	if n == 0 || r.givenUp {
		r.leave(d, now, lease)
		return
	}
	d.next = queue{changes: m.due[:n:n]}
	m.ordered, m.due = d.next.changes, m.due[n:]
}

// list lists the releases of a removed project once, from its last scan. Nothing is judged or read again.
func (r *removals) list(d *projectState, now time.Time, lease time.Duration) {
	m := d.removal
	if m.listed {
		return
	}
	m.listed = true
	for i := range d.snapshots {
		if r.handsOver {
			m.due = append(m.due, renewals(&d.snapshots[i], now, lease)...)
		} else {
			m.due = append(m.due, releases(&d.snapshots[i])...)
		}
	}
}

// reported takes the outcome of an order to a removed project. Failed releases are ordered again, unless they failed too
// often.
func (r *removals) reported(d *projectState, results []result, now time.Time, lease time.Duration) {
	m := d.removal
	if m.listed { // else it was an order from before the removal
		m.ordered = nil
		for _, res := range results {
			switch {
			case res.err == nil:
			case d.efforts.spent(res.change):
				m.failed = append(m.failed, res.change)
			default:
				m.due = append(m.due, res.change)
			}
		}
	}
	r.next(d, now, lease)
}

// giveUp ends the releases at their deadline. It waits a moment for orders under way; the remaining tasks stay held.
func (r *removals) giveUp(now time.Time, lease time.Duration) {
	if now.Before(r.deadline) {
		return
	}
	last := r.givenUp
	r.givenUp, r.deadline = true, now.Add(scannerGrace)
	for _, d := range slices.Clone(r.projects) {
		if last || !d.busy {
			r.leave(d, now, lease)
		}
	}
}

// leave ends a removed project. What is not released yet stays held.
func (r *removals) leave(d *projectState, now time.Time, lease time.Duration) {
	r.list(d, now, lease)
	m := d.removal
	r.failed = slices.Concat(r.failed, m.failed, m.ordered, m.due)
	d.next, m.over = queue{}, true
	if d.stop != nil {
		d.stop()
	}
	r.projects = slices.DeleteFunc(r.projects, func(other *projectState) bool { return other == d })
}

// stayHeld is the error that names what could not be released; nil if nothing stays held without a successor.
func (r *removals) stayHeld(lease time.Duration) error {
	const named = 5
	n := len(r.failed)
	if n == 0 || r.handsOver {
		return nil
	}
	var names []string
	for _, c := range r.failed[:min(named, n)] {
		names = append(names, c.Subject.String())
	}
	text := strings.Join(names, ", ")
	if n > named {
		text += fmt.Sprintf(" and %d more", n-named)
	}
	return fmt.Errorf("%d %w: %s; start steward again, or run any steward command in %v", n, ErrStayHeld, text, lease)
}

// keepHeld keeps a task marked as held when steward releases it only because it stops. The next steward then holds it
// again for the same reason (a dependency, a security gate). See docs/decisions.md, "Chained requests are released when steward stops".
func keepHeld(memory *decide.Memory, c protocol.Change) {
	if m, ok := memory.Tasks.Find(c.Subject); ok && m.Held && c.Verb == protocol.VerbRelease {
		m.Held = false
		memory.Tasks = memory.Tasks.With(c.Subject, m)
	}
}

// handOverTime is the least time that a hold must last when the next steward is on its way.
const handOverTime = 30 * time.Second

// renewals prolong the holds of a snapshot until the next steward has started.
func renewals(snap *protocol.Snapshot, now time.Time, lease time.Duration) []protocol.Change {
	changes := changeHolds(snap, func(t *protocol.Task) bool { return !t.Hold.Half && t.Hold.ReleaseBy.Before(now.Add(handOverTime)) },
		protocol.Change{Verb: protocol.VerbRenew, Reason: protocol.ReasonLease, Why: "the next steward follows at once"})
	for i := range changes {
		changes[i].ReleaseBy = now.Add(max(lease, 2*handOverTime))
	}
	return changes
}

// releases releases every held task of a snapshot.
func releases(snap *protocol.Snapshot) []protocol.Change {
	return changeHolds(snap, func(*protocol.Task) bool { return true },
		protocol.Change{Verb: protocol.VerbRelease, Reason: protocol.ReasonStopping, Why: "steward stops; nothing stays held"})
}

// changeHolds makes the same change to the held tasks of a snapshot.
func changeHolds(snap *protocol.Snapshot, wanted func(*protocol.Task) bool, c protocol.Change) (changes []protocol.Change) {
	for i := range snap.Tasks {
		if t := &snap.Tasks[i]; t.Hold != nil && snap.Act && wanted(t) {
			c.Subject, c.Ref, c.Agent = snap.Subject(protocol.KindTask, t.ID), t.Ref, t.Agent
			changes = append(changes, c)
		}
	}
	return changes
}

// failOpen releases holds in a project that is only observed from now on: it was paused while a hold was on its way, or
// its mode changed since the scan before.
func failOpen(d *projectState, before []protocol.Snapshot, paused bool, now time.Time) (changes []protocol.Change) {
	for i := range d.snapshots {
		snap := d.snapshots[i]
		observed := !snap.Act && slices.ContainsFunc(before, func(old protocol.Snapshot) bool { return old.Protocol == snap.Protocol && old.Act })
		if !(paused && snap.Act) && !observed {
			continue
		}
		snap.Act = true
		for _, c := range byOperator(releases(&snap), "steward only observes here now; nothing stays held") {
			if !d.efforts.backsOff(c, now) {
				changes = append(changes, c)
			}
		}
	}
	return changes
}

// byOperator makes changes those that a person asked for.
func byOperator(changes []protocol.Change, why string) []protocol.Change {
	for i := range changes {
		changes[i].Reason, changes[i].Why = protocol.ReasonOperator, why
	}
	return changes
}
