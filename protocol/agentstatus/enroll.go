package agentstatus

import (
	"errors"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// enroll merges the agent into the registry.
func (p *Project) enroll(b protocol.Boot) error {
	stamp := jsonfile.FormatTime(b.Now)
	err := p.createRegistry(b, stamp)
	if !errors.Is(err, jsonfile.ErrExist) {
		return err
	}
	_, err = p.editRegistry(func(o jsonfile.Object) ([]jsonfile.Set, error) { return entryEdits(o, b, stamp), nil })
	return err
}

// registryFile and registryEntry are the registry as the boot script writes it.
type registryFile struct {
	UpdatedAt string                   `json:"updated_at"`
	Agents    map[string]registryEntry `json:"agents"`
}

type registryEntry struct {
	Type         string   `json:"type"`
	Environment  string   `json:"environment"`
	PID          *int     `json:"pid"`
	Status       string   `json:"status"`
	LastSeen     *string  `json:"last_seen"`
	Capabilities []string `json:"capabilities"`
}

func entryOf(agent, status string) registryEntry {
	pr := profileOf(agent)
	return registryEntry{Type: pr.kind, Environment: pr.environment, Status: status, Capabilities: pr.capabilities}
}

// createRegistry writes the registry of a project in which no agent has booted yet. Like the boot script of livhana,
// it also lists codex as unknown when livhana boots.
func (p *Project) createRegistry(b protocol.Boot, stamp string) error {
	if p.has(registry) {
		return jsonfile.ErrExist
	}
	me := entryOf(b.Agent, "active")
	me.LastSeen = &stamp
	if b.PID > 0 {
		me.PID = &b.PID
	}
	agent := func(name string, entry registryEntry) jsonfile.Set {
		return jsonfile.Set{Path: []string{"agents", name}, Value: entry}
	}
	order := []jsonfile.Set{agent(b.Agent, me)} // a map would sort codex-cursor before livhana-layer1.1
	if b.Agent == livhana {
		order = append(order, agent(codex, entryOf(codex, "unknown")))
	}
	doc, err := jsonfile.Encode(registryFile{UpdatedAt: stamp, Agents: map[string]registryEntry{}})
	if err == nil {
		doc, err = jsonfile.Edit(doc, order...)
	}
	if err != nil {
		return err
	}
	return p.Root.Create(registry, doc, 0o644)
}

// entryEdits sets the fields that a boot states about its agent. Values that others have written into the remaining
// fields stay.
func entryEdits(o jsonfile.Object, b protocol.Boot, stamp string) []jsonfile.Set {
	pr := profileOf(b.Agent)
	var pid any
	if b.PID > 0 {
		pid = b.PID
	}
	at := func(key string) []string { return []string{"agents", b.Agent, key} }
	agents, _ := o.Object("agents")
	entry, _ := agents.Object(b.Agent)
	var sets []jsonfile.Set
	add := func(key string, value any, keep bool) {
		if !keep || !entry.Has(key) {
			sets = append(sets, jsonfile.Set{Path: at(key), Value: value})
		}
	}
	add("type", pr.kind, true)
	add("environment", pr.environment, true)
	add("pid", pid, false)
	add("status", "active", false)
	add("last_seen", stamp, false)
	add("capabilities", pr.capabilities, true)
	return append(sets, jsonfile.Set{Path: []string{"updated_at"}, Value: stamp})
}

// heartbeatFile is the heartbeat as the boot scripts write it (protocol 000, Heartbeat Schema).
type heartbeatFile struct {
	Name   string   `json:"agent_name"`
	Status string   `json:"status"`
	Last   string   `json:"last_heartbeat"`
	Uptime int      `json:"uptime_seconds"`
	Free   float64  `json:"current_capacity"`
	Tasks  []string `json:"active_tasks"`
	Health struct {
		CPU    bool    `json:"cpu_ok"`
		Memory bool    `json:"memory_ok"`
		Disk   bool    `json:"disk_ok"`
		Error  *string `json:"last_error"`
	} `json:"health"`
}

// firstBeat writes the heartbeat of the boot script. Before that it records the heartbeat's checksum on the agent's
// card, so that this heartbeat does not count as the agent's own sign of life.
func (p *Project) firstBeat(b protocol.Boot) error {
	dir := p.deskOf(b.Agent)
	if err := p.Root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	beat := heartbeatFile{Name: b.Agent, Status: "active", Last: jsonfile.FormatTime(b.Now), Free: profileOf(b.Agent).free, Tasks: []string{}}
	beat.Health.CPU, beat.Health.Memory, beat.Health.Disk = true, true, true
	doc, err := jsonfile.Encode(beat)
	if err == nil {
		doc, err = jsonfile.Edit(doc, p.healthEdits(nil, b.Now)...)
	}
	if err != nil {
		return err
	}
	late, err := p.Root.Update(beatFile(dir), maxFile, func(old []byte) ([]byte, error) {
		next := doc
		if _, err := jsonfile.Parse(old); err == nil { // otherwise it is torn and is replaced: its writer is gone
			if next, err = jsonfile.Edit(old, append(p.healthEdits(old, b.Now), beatEdits(beat)...)...); err != nil {
				return nil, err
			}
		}
		return next, p.bootCard(b, jsonfile.SumOf(next))
	})
	_ = late.Close()
	return err
}

func beatEdits(b heartbeatFile) []jsonfile.Set {
	set := func(value any, path ...string) jsonfile.Set { return jsonfile.Set{Path: path, Value: value} }
	return []jsonfile.Set{
		set(b.Name, "agent_name"), set(b.Status, "status"), set(b.Last, "last_heartbeat"), set(b.Uptime, "uptime_seconds"),
		set(b.Free, "current_capacity"), set(b.Tasks, "active_tasks"),
		set(nil, "health", "last_error"),
		jsonfile.Remove(keptBy),
	}
}
