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
const releaseTime = 12 * time.Second

// releaseChunk is the number of releases in one order. At most that many are under way when the time is over.
const releaseChunk = 200

// ErrStayHeld: steward stopped and could not release every hold.
var ErrStayHeld = errors.New("tasks stay held")

// beginStop starts to release all holds, so that no task waits for a steward that is gone (fail open). When another
// steward follows at once, the leases are renewed instead: they expire if it does not come.
func (s *loop) beginStop() {
	s.stopsAt = s.now().Add(releaseTime)
	s.handsOver, s.unreleased = s.deps.HandOver(), nil
	for _, name := range s.names() {
		d := s.projects[name]
		s.remove(d)
		if d.stuck(s.now()) { // its disk has not answered for long, so do not wait for it
			s.giveUpOn(d)
		}
	}
}

// done reports whether the stop is complete.
func (s *loop) done() bool { return !s.stopsAt.IsZero() && len(s.removed) == 0 }

// giveUp ends the releases at their deadline. It waits a moment for orders under way; the remaining tasks stay held.
func (s *loop) giveUp(now time.Time) {
	switch {
	case now.Before(s.stopsAt):
		return
	case !s.givenUp:
		s.givenUp, s.stopsAt = true, now.Add(scannerGrace)
		for _, d := range s.removed {
			d.changes, d.releases = nil, append(d.changes, d.releases...)
		}
		s.giveUpIdle()
	default:
		for _, d := range slices.Clone(s.removed) {
			s.giveUpOn(d)
		}
	}
}

// giveUpIdle gives up on all projects once no order is under way.
func (s *loop) giveUpIdle() {
	if slices.ContainsFunc(s.removed, func(d *projectState) bool { return d.busy }) {
		return
	}
	for _, d := range slices.Clone(s.removed) {
		s.giveUpOn(d)
	}
}

// giveUpOn leaves a removed project with its remaining holds.
func (s *loop) giveUpOn(d *projectState) {
	s.listReleases(d)
	d.unreleased = append(append(d.unreleased, d.releasing...), d.releases...)
	s.finishRemoval(d)
}

// stayHeld saves the memory at the end, and logs and returns what could not be released.
func (s *loop) stayHeld() error {
	if err := s.save(); err != nil {
		s.log.Error("save memory", "error", err)
	}
	n := len(s.unreleased)
	if n == 0 || s.handsOver {
		return nil
	}
	const named = 5
	names := make([]string, 0, named)
	for _, c := range s.unreleased[:min(named, n)] {
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
	d.commands, d.changes = nil, nil
	s.removed = append(s.removed, d)
	if !d.busy {
		s.releaseMore(d)
	}
}

// releaseMore orders the next releases of a removed project, or ends the project when there are none.
func (s *loop) releaseMore(d *projectState) {
	clear(d.hints)
	d.full, d.reopen = false, false
	s.listReleases(d)
	n := min(releaseChunk, len(d.releases))
	if n == 0 {
		s.finishRemoval(d)
		return
	}
	d.changes, d.releases = d.releases[:n:n], d.releases[n:]
}

// listReleases lists the releases of a removed project once, from its last scan. Nothing is judged or read again.
func (s *loop) listReleases(d *projectState) {
	if d.listed {
		return
	}
	d.listed = true
	now := s.now()
	for i := range d.snapshots {
		for _, c := range s.lastChanges(&d.snapshots[i], now) {
			s.stillHeld(c)
			d.releases = append(d.releases, c)
		}
	}
}

// retryReleases queues failed releases again, and gives up on those that failed too often.
func (s *loop) retryReleases(d *projectState, r report) {
	d.releasing = nil
	if !r.released {
		return
	}
	for _, res := range r.results {
		switch t := d.efforts[effortKeyOf(res.change)]; {
		case res.err == nil:
		case t == nil || t.n <= effortsFree:
			d.releases = append(d.releases, res.change)
		default:
			d.unreleased = append(d.unreleased, res.change)
		}
	}
}

// finishRemoval ends a removed project.
func (s *loop) finishRemoval(d *projectState) {
	s.unreleased = append(s.unreleased, d.unreleased...)
	if d.gone = true; d.stop != nil {
		d.stop()
	}
	s.removed = slices.DeleteFunc(s.removed, func(other *projectState) bool { return other == d })
}

// stillHeld keeps a task marked as held when steward releases it only because it stops. The next steward then holds it
// again for the same reason (a dependency, a security gate).
func (s *loop) stillHeld(c protocol.Change) {
	if m, ok := s.memory.Tasks.Find(c.Subject); ok && m.Held && c.Verb == protocol.VerbRelease {
		m.Held = false
		s.memory.Tasks = s.memory.Tasks.With(c.Subject, m)
	}
}

// handOverTime is the least time that a hold must last when the next steward is on its way.
const handOverTime = 30 * time.Second

// lastChanges are the changes to a snapshot's holds before steward leaves them.
func (s *loop) lastChanges(snap *protocol.Snapshot, now time.Time) []protocol.Change {
	if !s.handsOver {
		return releases(snap)
	}
	var changes []protocol.Change
	for i := range snap.Tasks {
		t := &snap.Tasks[i]
		if t.Hold == nil || t.Hold.Half || !snap.Act || !t.Hold.ReleaseBy.Before(now.Add(handOverTime)) {
			continue
		}
		changes = append(changes, protocol.Change{Verb: protocol.VerbRenew, Subject: snap.Subject(protocol.KindTask, t.ID),
			Reason: protocol.ReasonLease, Why: "the next steward follows at once", Ref: t.Ref, Agent: t.Agent,
			ReleaseBy: now.Add(max(s.cfg.Tasks.Lease, 2*handOverTime))})
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
			Reason: protocol.ReasonStopping, Why: "steward stops; nothing stays held", Ref: t.Ref, Agent: t.Agent})
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
