package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor/decide"
)

const (
	MemoryFile   = "memory.json"
	learntFile   = "learnt.json"
	SnapshotFile = "status.json"
)

// lessons is learnt.json. A file without a version predates versions: its costs are at the top level.
type lessons struct {
	Version int             `json:"version"`
	Costs   capacity.Learnt `json:"costs"`
}

func (l *lessons) UnmarshalJSON(data []byte) error {
	type plain lessons
	if err := json.Unmarshal(data, (*plain)(l)); err != nil {
		return err
	}
	if l.Version > 0 {
		return nil
	}
	return json.Unmarshal(data, &l.Costs)
}

// save stores the loop's memory durably. The costs of work go to a file of their own: they change rarely, and outlive a
// memory that has to be set aside.
func (h *Daemon) save(m decide.Memory) error {
	learnt := m.Gate.Learnt
	m.Gate.Learnt, m.Version = nil, stateVersion
	data, err := m.Encode()
	if err != nil {
		return err
	}
	if err := h.put(MemoryFile, data); err != nil {
		return err
	}
	if mark := learnt.Mark(); mark != h.learnt {
		if err := h.store(learntFile, lessons{stateVersion, learnt}); err != nil {
			return err
		}
		h.learnt = mark
	}
	return nil
}

// remembered reads what the last run saved; a missing file means an empty memory.
func (h *Daemon) remembered() (decide.Memory, error) {
	m, err := takeUp[decide.Memory](h, MemoryFile)
	if err != nil {
		return m, err
	}
	l, err := takeUp[lessons](h, learntFile)
	if err != nil {
		return m, err
	}
	h.learnt = l.Costs.Mark()
	m.Gate.Learnt = l.Costs.Sound()
	return m, nil
}

// Recall reads the same for a read-only command: it changes nothing, and reports an unusable memory on warn.
func Recall(state *jsonfile.Root, warn io.Writer) decide.Memory {
	m, err := readState[decide.Memory](state, MemoryFile)
	if err != nil {
		fmt.Fprintf(warn, "steward: judged without the memory of the last run: %s\n", terminal.OneWord(terminal.ErrorText(err)))
	}
	l, _ := readState[lessons](state, learntFile)
	m.Gate.Learnt = l.Costs.Sound()
	return m
}

// snapshotEvery is the interval between writes of status.json.
const snapshotEvery = 30 * time.Second

// keepSnapshot writes the status to a file, which can be read when no daemon runs.
func (h *Daemon) keepSnapshot(ctx context.Context) error {
	ticker := time.NewTicker(snapshotEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			h.snapshot()
		}
	}
}

func (h *Daemon) snapshot() {
	p := h.loop.State()
	if p == nil {
		return
	}
	doc := status.Compose(p, openIncidents(h.ledger), h.channels.channels(), h.self())
	doc.Daemon = nil // holds for the live status, not for the file
	doc.Kept = append(doc.Kept, h.keptAgents()...)
	doc.Locks = status.WithGranted(doc.Locks, h.grants.list(p))
	if err := status.WriteSnapshot(filepath.Join(h.paths.State, SnapshotFile), doc); err != nil {
		h.log.Error("write status.json", "error", err)
	}
}

// pruneEvery is the interval between removals of incidents that were resolved long ago.
const pruneEvery = time.Hour

func (h *Daemon) prune(ctx context.Context) error {
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	for {
		if _, err := h.ledger.Prune(time.Now(), h.escalation().Keep); err != nil {
			h.log.Error("prune incidents", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// openIncidents lists the incidents that are not resolved.
func openIncidents(l *escalate.Ledger) []escalate.Incident {
	return slices.DeleteFunc(l.List(), func(i escalate.Incident) bool { return i.State == rules.Resolved })
}
