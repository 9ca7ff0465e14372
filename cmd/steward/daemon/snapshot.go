package daemon

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/status"
)

// snapshotEvery is the interval between writes of status.json, which can be read when no daemon runs.
const snapshotEvery = 30 * time.Second

// every calls do at the interval until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			do()
		}
	}
}

// snapshot writes the status to a file.
func (h *Daemon) snapshot() {
	p := h.loop.State()
	if p == nil {
		return
	}
	doc := status.Compose(p, openIncidents(h.ledger), h.channels.list(), h.run.self())
	doc.Daemon = nil // holds for the live status, not for the file
	doc.Kept = append(doc.Kept, h.agents.list()...)
	doc.Locks = status.WithGranted(doc.Locks, h.grants.list(p))
	if err := status.WriteSnapshot(filepath.Join(h.paths.State, SnapshotFile), doc); err != nil {
		h.log.Error("write status.json", "error", err)
	}
}

// pruneEvery is the interval between removals of incidents that were resolved long ago.
const pruneEvery = time.Hour

func (h *Daemon) prune(ctx context.Context) error {
	prune := func() {
		if _, err := h.ledger.Prune(time.Now(), h.settings.escalation().Keep); err != nil {
			h.log.Error("prune incidents", "error", err)
		}
	}
	prune()
	return every(ctx, pruneEvery, prune)
}

// openIncidents lists the incidents that are not resolved.
func openIncidents(l *escalate.Incidents) []escalate.Incident {
	return slices.DeleteFunc(l.List(), func(i escalate.Incident) bool { return i.State == rules.Resolved })
}
