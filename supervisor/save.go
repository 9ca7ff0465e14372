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
	onDisk decide.Memory   // the memory as last saved
	at     time.Time       // the last attempt
	fault  *protocol.Fault // why the last attempt failed; nil: it did not
	mended time.Time       // since when saves succeed again while the incident is still open
}

// mendedAfter is how long saves must succeed before the incident is resolved: when descriptors or disk space run short,
// a single save may succeed by chance.
const mendedAfter = 30 * time.Second

// adopt starts with what the last run saved, and takes over the incident that it left open. Only successful saves end it.
func (w *saver) adopt(m decide.Memory, incidents map[string]rules.Head, now time.Time) {
	w.onDisk = m
	if head, known := incidents[unsavedAlert().Key]; known && head.State != rules.Resolved {
		w.mended = now
	}
}

// save stores the memory now. The first failure raises an incident, which is delivered even if it cannot be written either.
func (w *saver) save(deps *Deps, m decide.Memory, now time.Time) error {
	w.at = now
	err := deps.Save(m)
	if err != nil {
		if w.fault == nil {
			alert := unsavedAlert()
			alert.Detail = err.Error() + ". Nothing is changed in any project until it can be saved: no task is held, none retried. Make room, or see to the folder."
			_ = deps.Tell(alert)
			w.fault = &protocol.Fault{Path: "memory.json", Problem: fmt.Sprintf("save memory: %v", err), Since: now, Hint: "nothing is changed until it can be saved"}
		}
		return err
	}
	w.onDisk = m
	switch {
	case w.fault != nil:
		w.fault, w.mended = nil, now
	case !w.mended.IsZero() && now.Sub(w.mended) >= mendedAfter:
		w.mended = time.Time{}
		over := unsavedAlert()
		over.Resolve, over.Detail = true, "it can be saved again"
		_ = deps.Tell(over)
	}
	return nil
}

// unsavedAlert is the incident that steward cannot save its memory.
func unsavedAlert() rules.Alert {
	a := rules.Alert{Kind: "memory_unsaved", Severity: protocol.High, Foreign: true, Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "memory"},
		Summary: "steward cannot save its memory, so it changes nothing", Spoken: "Steward cannot save its memory, so it changes nothing."}
	a.Key = decide.KeyOf(a)
	return a
}
