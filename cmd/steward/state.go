package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
)

const memoryFile = "memory.json"

// maxMemory bounds what is read back.
const maxMemory = 64 << 20

// save stores the loop's memory durably.
func (h *house) save(m supervisor.Memory) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	late, err := h.state.Replace(memoryFile, data, jsonfile.Any)
	_ = late.Close()
	return err
}

// recall reads what the last run saved; none is an empty memory.
func (h *house) recall() (supervisor.Memory, error) {
	var m supervisor.Memory
	blob, err := h.state.Read(memoryFile, maxMemory)
	if errors.Is(err, jsonfile.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(blob.Data, &m)
}

// recalled is recall for a command that only looks.
func (h *house) recalled() supervisor.Memory {
	m, err := h.recall()
	if err != nil {
		return supervisor.Memory{}
	}
	return m
}

// remembered is recall for the daemon. A file that cannot be read is set aside: silences start anew, and nothing that
// lies in the projects' files is lost.
func (h *house) remembered() supervisor.Memory {
	m, err := h.recall()
	if err != nil {
		h.log.Error("memory set aside", "error", err)
		_ = h.state.Remove(memoryFile + ".bad")
		_ = h.state.Rename(memoryFile, memoryFile+".bad")
		return supervisor.Memory{}
	}
	return m
}

// snapshotEvery is how old status.json may become.
const snapshotEvery = 30 * time.Second

// keepSnapshot writes the status where it can be read when no daemon runs.
func (h *house) keepSnapshot(ctx context.Context) error {
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

func (h *house) snapshot() {
	p := h.loop.Picture()
	if p == nil {
		return
	}
	doc := status.Compose(p, openIncidents(h.ledger), h.herald.channels(), h.self())
	doc.Kept = append(doc.Kept, h.keptAgents()...)
	if err := status.WriteSnapshot(filepath.Join(h.paths.State, "status.json"), doc); err != nil {
		h.log.Error("write status.json", "error", err)
	}
}

// pruneEvery is how often resolved incidents of long ago are cleared away.
const pruneEvery = time.Hour

func (h *house) prune(ctx context.Context) error {
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

// openIncidents lists what is not resolved.
func openIncidents(l *escalate.Ledger) []escalate.Incident {
	return slices.DeleteFunc(l.List(), func(i escalate.Incident) bool { return i.State == escalate.Resolved })
}
