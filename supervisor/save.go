package supervisor

import (
	"fmt"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// saver writes the memory to disk, and raises an incident while that fails.
type saver struct {
	deps *Deps
	// onDisk is the memory as last saved, at.
	onDisk decide.Memory
	at     time.Time
	// fault says why the last save failed; nil: it did not.
	fault *protocol.Fault
	// mended is since when saves succeed again while the incident is still open.
	mended time.Time
}

// save stores the memory now. The first failure raises an incident.
func (w *saver) save(m decide.Memory, now time.Time) error {
	w.at = now
	err := w.deps.Save(m)
	if err == nil {
		w.onDisk = m
	}
	switch {
	case err == nil && w.fault != nil:
		w.fault, w.mended = nil, w.at
	case err == nil && !w.mended.IsZero() && w.at.Sub(w.mended) >= mendedAfter:
		w.mended = time.Time{}
		w.tellSaved()
	case err == nil:
	case w.fault == nil:
		alert := unsavedAlert()
		alert.Detail = err.Error() + ". Nothing is changed in any project until it can be saved: no task is held, none retried. Make room, or see to the folder."
		_ = w.deps.Tell(alert) // delivered even if the incident cannot be written either
		w.fault = &protocol.Fault{Path: "memory.json", Problem: fmt.Sprintf("save memory: %v", err), Since: w.at,
			Hint: "nothing is changed until it can be saved"}
	}
	return err
}

// tellSaved resolves the incident about a memory that could not be saved, from this run or an earlier one.
func (w *saver) tellSaved() {
	over := unsavedAlert()
	over.Key = decide.KeyOf(over)
	if _, stands := w.deps.Incidents()[over.Key]; !stands {
		return
	}
	over.Resolve, over.Detail = true, "it can be saved again"
	_ = w.deps.Tell(over)
}

// mendedAfter is how long saves must succeed before the incident is resolved: when descriptors or disk space run short,
// a single save may succeed by chance.
const mendedAfter = 30 * time.Second

// adopt takes over the incident that an earlier run left open. Only successful saves end it.
func (w *saver) adopt(started time.Time) {
	for _, head := range w.deps.Incidents() {
		if head.Subject == unsavedAlert().Subject && head.State != rules.Resolved {
			w.mended = started
		}
	}
}

// unsavedAlert is the incident that steward cannot save its memory.
func unsavedAlert() rules.Alert {
	return rules.Alert{Kind: "memory_unsaved", Severity: protocol.High, Foreign: true, Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "memory"},
		Summary: "steward cannot save its memory, so it changes nothing", Spoken: "Steward cannot save its memory, so it changes nothing."}
}
