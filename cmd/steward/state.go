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

const (
	memoryFile = "memory.json"
	learntFile = "learnt.json"
)

// maxMemory bounds what is read back.
const maxMemory = 64 << 20

// save stores the loop's memory durably. What work costs lies in a file of its own: it changes seldom, and outlives a
// memory that has to be set aside.
func (h *house) save(m supervisor.Memory) error {
	learnt := m.Gate.Learnt
	m.Gate.Learnt = nil
	data, err := m.Encode()
	if err != nil {
		return err
	}
	if err := h.put(memoryFile, data); err != nil {
		return err
	}
	if mark := learnt.Mark(); mark != h.learnt {
		if err := h.store(learntFile, learnt); err != nil {
			return err
		}
		h.learnt = mark
	}
	return nil
}

func (h *house) store(name string, what any) error {
	data, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return h.put(name, data)
}

func (h *house) put(name string, data []byte) error {
	late, err := h.state.Replace(name, data, jsonfile.Any)
	_ = late.Close()
	return err
}

// recall reads what the last run saved; none is an empty memory.
func (h *house) recall() (supervisor.Memory, error) {
	var m supervisor.Memory
	err := h.fetch(memoryFile, &m)
	if err == nil {
		err = h.fetch(learntFile, &m.Gate.Learnt)
	}
	return m, err
}

func (h *house) fetch(name string, into any) error {
	blob, err := h.state.Read(name, maxMemory)
	if errors.Is(err, jsonfile.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(blob.Data, into); err != nil {
		return &badState{name, err}
	}
	return nil
}

// badState is a file of the state folder that makes no sense.
type badState struct {
	name string
	err  error
}

func (b *badState) Error() string { return "read " + b.name + ": " + b.err.Error() }

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
		name := memoryFile
		if bad := (*badState)(nil); errors.As(err, &bad) {
			name = bad.name
		}
		h.log.Error("memory set aside", "file", name, "error", err)
		_ = h.state.Remove(name + ".bad")
		_ = h.state.Rename(name, name+".bad")
		if name == memoryFile {
			m = supervisor.Memory{}
			_ = h.fetch(learntFile, &m.Gate.Learnt)
		} else {
			m.Gate.Learnt = nil
		}
	}
	h.learnt = m.Gate.Learnt.Mark()
	m.Gate.Learnt = m.Gate.Learnt.Sound()
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
	doc.Locks = status.WithGranted(doc.Locks, h.grants.list(p))
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
