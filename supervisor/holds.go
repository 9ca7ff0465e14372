package supervisor

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

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
