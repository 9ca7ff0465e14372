package supervisor

import (
	"context"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// partingTime bounds how long steward works at letting go when it stops.
const partingTime = 3 * time.Second

// letGo releases whatever is held, so that nothing waits for a steward that is not there (fail open). When another
// one follows at once, the holds are prolonged instead: if it does not come, they run out by themselves.
func (s *Supervisor) letGo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, partingTime)
	defer cancel()
	s.handsOver = s.doors.HandOver()
	for _, name := range s.names() {
		s.dismiss(s.desks[name])
	}
	for s.dispatch(); len(s.leaving) > 0; s.dispatch() {
		select {
		case <-ctx.Done():
			s.log.Error("some held tasks could not be let go in time; their leases run out by themselves")
			s.leaving = nil
		case r := <-s.reports:
			if r.desk.gone {
				continue
			}
			s.takeIn(r.desk, r, s.now())
			s.leave(r.desk)
		}
	}
	if err := s.save(); err != nil {
		s.log.Error("save memory", "error", err)
	}
}

// dismiss takes a desk out of the loop. It leaves once nothing of it is held any more.
func (s *Supervisor) dismiss(d *desk) {
	delete(s.desks, d.project.Name)
	s.processes = nil
	s.own.forget(d.project.Name)
	for _, c := range d.commands {
		c.reply <- ErrStopped
	}
	d.commands, d.changes = nil, nil
	s.leaving = append(s.leaving, d)
	if !d.busy {
		s.leave(d)
	}
}

// leave lets go of what a dismissed desk still holds, as far as that is possible; then the desk is gone.
func (s *Supervisor) leave(d *desk) {
	clear(d.hints)
	d.full, d.reopen, d.changes = false, false, nil
	now := s.now()
	for i := range d.snapshots {
		for _, c := range s.partings(&d.snapshots[i], now) {
			s.stillHeld(c)
			if t := d.tries[effortOf(c)]; t == nil || t.n <= triesFree || now.Sub(t.at) > triesWithin {
				d.changes = append(d.changes, c)
			}
		}
	}
	if len(d.changes) > 0 {
		return
	}
	d.gone = true
	d.stop()
	s.leaving = slices.DeleteFunc(s.leaving, func(other *desk) bool { return other == d })
}

// stillHeld forgets that a task was let go when it is steward that lets it go for its own stop: what was in its way
// (a dependency, a security gate) is so again for the next steward.
func (s *Supervisor) stillHeld(c protocol.Change) {
	if m, ok := s.memory.Tasks.Find(c.Subject); ok && m.Held && c.Verb == protocol.VerbRelease {
		m.Held = false
		s.memory.Tasks = s.memory.Tasks.With(c.Subject, m)
	}
}

// handOverTime is how long a hold lasts at least when the next steward is on its way.
const handOverTime = 30 * time.Second

// partings are what is left to do for a snapshot's holds before they are left alone.
func (s *Supervisor) partings(snap *protocol.Snapshot, now time.Time) []protocol.Change {
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

// working reports whether a looker is busy or has something to do.
func (s *Supervisor) working() bool {
	for _, d := range s.desks {
		if d.busy || d.full || len(d.changes) > 0 {
			return true
		}
	}
	return false
}
