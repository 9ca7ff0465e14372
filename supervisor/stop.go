package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// partingTime bounds how long steward releases tasks when it stops. It is less than the service managers allow for the
// whole stop: TimeoutStopSec=15s in the unit, ExitTimeOut 20 s in the property list.
const releaseTime = 12 * time.Second

// partingChunk is how many releases one order holds: so many may be under way when the time is over.
const releaseChunk = 200

// ErrStayHeld: steward has stopped, and could not release everything that it held.
var ErrStayHeld = errors.New("tasks stay held")

// beginStop begins to release everything that is held, so that no task waits for a steward that is not there (fail open). When
// another steward follows at once, the holds are prolonged instead: if it does not come, their leases run out.
func (s *loop) beginStop() {
	s.stopsAt = s.now().Add(releaseTime)
	s.handsOver, s.unreleased = s.deps.HandOver(), nil
	for _, name := range s.names() {
		d := s.projects[name]
		s.remove(d)
		if d.stuck(s.now()) { // a disk that has not answered for so long does not answer in this moment
			s.giveUpOn(d)
		}
	}
}

// over reports whether the loop has come to its end.
func (s *loop) done() bool { return !s.stopsAt.IsZero() && len(s.removed) == 0 }

// giveUp ends the release of tasks in time: orders under way may still be answered, then what is left stays held.
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

// giveUpIdle gives up once no order is under way.
func (s *loop) giveUpIdle() {
	if slices.ContainsFunc(s.removed, func(d *projectState) bool { return d.busy }) {
		return
	}
	for _, d := range slices.Clone(s.removed) {
		s.giveUpOn(d)
	}
}

// giveUpOn leaves a removed project with what it holds.
func (s *loop) giveUpOn(d *projectState) {
	s.listReleases(d)
	d.unreleased = append(append(d.unreleased, d.releasing...), d.releases...)
	s.finishRemoval(d)
}

// stayHeld saves the memory at the end, logs what could not be released, and gives it as an error.
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

// dismiss takes a project out of the loop. It leaves once nothing of it is held any more.
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

// leave orders the next releases of a removed project; when there are none left, the project is gone.
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

// listPartings lists once what is to be done for the holds of a removed project, by its last look. Nothing is judged or
// read again.
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

// sortOut keeps what could not be released: it is tried again, and then given up.
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

// finish ends a removed project.
func (s *loop) finishRemoval(d *projectState) {
	s.unreleased = append(s.unreleased, d.unreleased...)
	if d.gone = true; d.stop != nil {
		d.stop()
	}
	s.removed = slices.DeleteFunc(s.removed, func(other *projectState) bool { return other == d })
}

// stillHeld forgets that a task was released when it is steward that releases it for its own stop: what was in its way
// (a dependency, a security gate) is so again for the next steward.
func (s *loop) stillHeld(c protocol.Change) {
	if m, ok := s.memory.Tasks.Find(c.Subject); ok && m.Held && c.Verb == protocol.VerbRelease {
		m.Held = false
		s.memory.Tasks = s.memory.Tasks.With(c.Subject, m)
	}
}

// handOverTime is how long a hold lasts at least when the next steward is on its way.
const handOverTime = 30 * time.Second

// partings are what is left to do for a snapshot's holds before they are left alone.
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

// releases frees every held task of a snapshot.
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

// working reports whether a scanner is busy or has something to do.
func (s *loop) working() bool {
	for _, d := range s.projects {
		if d.busy || d.full || len(d.changes) > 0 {
			return true
		}
	}
	return false
}
