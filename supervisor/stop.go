package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// releaseTime limits how long steward releases tasks when it stops. It is less than what the service managers allow:
// TimeoutStopSec=15s in the unit, ExitTimeOut 20 s in the property list.
// See docs/decisions.md, "A stop releases for up to 12 s and does not read the tasks again".
const releaseTime = 12 * time.Second

// releaseChunk is the number of releases in one order. At most that many are under way when the time is over.
const releaseChunk = 200

// ErrStayHeld: steward stopped and could not release every hold.
var ErrStayHeld = errors.New("tasks stay held")

// removals are the projects that left the loop (at a stop, or from the configuration) and still release their holds.
type removals struct {
	projects []*projectState
	// failed are the releases that failed for good.
	failed []protocol.Change
	// deadline is for the releases of a stop; zero while steward runs. givenUp: it has passed, and only orders under way are
	// awaited.
	deadline time.Time
	givenUp  bool
	// handsOver: another steward follows, so the holds are renewed instead.
	handsOver bool
	// notHeld is called with each release before it is ordered.
	notHeld func(protocol.Change)
}

// removal is the work left to do for a removed project.
type removal struct {
	listed    bool              // due is complete
	due       []protocol.Change // still to be ordered
	ordered   []protocol.Change // in the order under way
	abandoned []protocol.Change // failed for good
}

// beginStop starts to release all holds, so that no task waits for a steward that is gone (fail open). When another
// steward follows at once, the leases are renewed instead: they expire if it does not come.
func (s *loop) beginStop() {
	now := s.now()
	s.removed.deadline, s.removed.handsOver, s.removed.failed = now.Add(releaseTime), s.deps.HandOver(), nil
	for _, name := range s.names() {
		d := s.projects[name]
		s.remove(d)
		if d.stuck(now) { // its disk has not answered for long, so do not wait for it
			s.removed.giveUpOn(d, now, s.cfg.Tasks.Lease)
		}
	}
}

// done reports whether the stop is complete.
func (s *loop) done() bool { return !s.removed.deadline.IsZero() && len(s.removed.projects) == 0 }

// giveUp ends the releases at their deadline. It waits a moment for orders under way; the remaining tasks stay held.
func (r *removals) giveUp(now time.Time, lease time.Duration) {
	switch {
	case now.Before(r.deadline):
		return
	case !r.givenUp:
		r.givenUp, r.deadline = true, now.Add(scannerGrace)
		for _, d := range r.projects {
			d.changes, d.removal.due = nil, append(d.changes, d.removal.due...)
		}
		r.giveUpIdle(now, lease)
	default:
		for _, d := range slices.Clone(r.projects) {
			r.giveUpOn(d, now, lease)
		}
	}
}

// giveUpIdle gives up on all projects once no order is under way.
func (r *removals) giveUpIdle(now time.Time, lease time.Duration) {
	if slices.ContainsFunc(r.projects, func(d *projectState) bool { return d.busy }) {
		return
	}
	for _, d := range slices.Clone(r.projects) {
		r.giveUpOn(d, now, lease)
	}
}

// giveUpOn leaves a removed project with its remaining holds.
func (r *removals) giveUpOn(d *projectState, now time.Time, lease time.Duration) {
	r.list(d, now, lease)
	m := d.removal
	m.abandoned = append(append(m.abandoned, m.ordered...), m.due...)
	r.finish(d)
}

// stayHeld saves the memory at the end, and logs and returns what could not be released.
func (s *loop) stayHeld() error {
	if err := s.save(); err != nil {
		s.log.Error("save memory", "error", err)
	}
	n := len(s.removed.failed)
	if n == 0 || s.removed.handsOver {
		return nil
	}
	const named = 5
	names := make([]string, 0, named)
	for _, c := range s.removed.failed[:min(named, n)] {
		names = append(names, c.Subject.String())
	}
	text := strings.Join(names, ", ")
	if n > named {
		text += fmt.Sprintf(" and %d more", n-named)
	}
	s.log.Error("tasks stay held: steward stops before it could release them; the next start of steward releases them, and any steward command once their lease has ended",
		"count", n, "tasks", text, "lease", s.cfg.Tasks.Lease)
	return fmt.Errorf("%d %w: %s; start steward again, or run any steward command in %v", n, ErrStayHeld, text, s.cfg.Tasks.Lease)
}

// remove takes a project out of the loop. Its scanner ends once all its holds are released.
func (s *loop) remove(d *projectState) {
	delete(s.projects, d.project.Name)
	s.processes = nil
	s.own.forget(d.project.Name)
	for _, c := range d.commands {
		c.reply <- ErrStopped
	}
	d.commands, d.changes, d.removal = nil, nil, &removal{}
	s.removed.projects = append(s.removed.projects, d)
	if !d.busy {
		s.removed.next(d, s.now(), s.cfg.Tasks.Lease)
	}
}

// next orders the next releases of a removed project, or ends the project when there are none.
func (r *removals) next(d *projectState, now time.Time, lease time.Duration) {
	clear(d.hints)
	d.full, d.reopen = false, false
	r.list(d, now, lease)
	m := d.removal
	n := min(releaseChunk, len(m.due))
	if n == 0 {
		r.finish(d)
		return
	}
	d.changes, m.due = m.due[:n:n], m.due[n:]
}

// list lists the releases of a removed project once, from its last scan. Nothing is judged or read again.
func (r *removals) list(d *projectState, now time.Time, lease time.Duration) {
	m := d.removal
	if m.listed {
		return
	}
	m.listed = true
	for i := range d.snapshots {
		changes := releases(&d.snapshots[i])
		if r.handsOver {
			changes = renewals(&d.snapshots[i], now, lease)
		}
		for _, c := range changes {
			r.notHeld(c)
			m.due = append(m.due, c)
		}
	}
}

// reported takes the outcome of an order to a removed project. Failed releases are ordered again, unless they failed too
// often.
func (r *removals) reported(d *projectState, rep report, now time.Time, lease time.Duration) {
	m := d.removal
	m.ordered = nil
	if rep.released {
		for _, res := range rep.results {
			switch t := d.efforts[effortKeyOf(res.change)]; {
			case res.err == nil:
			case t == nil || t.n <= effortsFree:
				m.due = append(m.due, res.change)
			default:
				m.abandoned = append(m.abandoned, res.change)
			}
		}
	}
	if r.givenUp {
		r.list(d, now, lease)
		r.giveUpIdle(now, lease)
		return
	}
	r.next(d, now, lease)
}

// finish ends a removed project.
func (r *removals) finish(d *projectState) {
	r.failed = append(r.failed, d.removal.abandoned...)
	if d.gone = true; d.stop != nil {
		d.stop()
	}
	r.projects = slices.DeleteFunc(r.projects, func(other *projectState) bool { return other == d })
}

// stillHeld keeps a task marked as held when steward releases it only because it stops. The next steward then holds it
// again for the same reason (a dependency, a security gate). See docs/decisions.md, "Chained requests are released when steward stops".
func (s *loop) stillHeld(c protocol.Change) {
	if m, ok := s.memory.Tasks.Find(c.Subject); ok && m.Held && c.Verb == protocol.VerbRelease {
		m.Held = false
		s.memory.Tasks = s.memory.Tasks.With(c.Subject, m)
	}
}

// handOverTime is the least time that a hold must last when the next steward is on its way.
const handOverTime = 30 * time.Second

// renewals prolong the holds of a snapshot until the next steward has started.
func renewals(snap *protocol.Snapshot, now time.Time, lease time.Duration) []protocol.Change {
	var changes []protocol.Change
	for i := range snap.Tasks {
		t := &snap.Tasks[i]
		if t.Hold == nil || t.Hold.Half || !snap.Act || !t.Hold.ReleaseBy.Before(now.Add(handOverTime)) {
			continue
		}
		changes = append(changes, protocol.Change{Verb: protocol.VerbRenew, Subject: snap.Subject(protocol.KindTask, t.ID),
			Reason: protocol.ReasonLease, Why: "the next steward follows at once", Judged: protocol.Judged{Ref: t.Ref}, Agent: t.Agent,
			ReleaseBy: now.Add(max(lease, 2*handOverTime))})
	}
	return changes
}

// releases releases every held task of a snapshot.
func releases(snap *protocol.Snapshot) []protocol.Change {
	var changes []protocol.Change
	for i := range snap.Tasks {
		t := &snap.Tasks[i]
		if t.Hold == nil || !snap.Act {
			continue
		}
		changes = append(changes, protocol.Change{Verb: protocol.VerbRelease, Subject: snap.Subject(protocol.KindTask, t.ID),
			Reason: protocol.ReasonStopping, Why: "steward stops; nothing stays held", Judged: protocol.Judged{Ref: t.Ref}, Agent: t.Agent})
	}
	return changes
}

// working reports whether a scanner is busy or has work.
func (s *loop) working() bool {
	for _, d := range s.projects {
		if d.busy || d.full || len(d.changes) > 0 {
			return true
		}
	}
	return false
}
