package agentstatus

import (
	"path"
	"strings"

	"github.com/livhana/steward/protocol/jsonfile"
)

// agentDirs holds what was read of the agents: a folder per agent (codex_status/) or a single status file, steward's
// cards, and the registry.
type agentDirs struct {
	desks    map[string]*place                         // by folder, e.g. "codex_status"
	singles  map[string]*jsonfile.Reading[beat]        // by file, e.g. "planner.status.json"
	cards    map[string]*jsonfile.Reading[agentRecord] // by file in steward/agents
	registry jsonfile.Reading[registryContent]
	signs    map[string]*signs // by agent
}

// place is what was read of one agent's folder.
type place struct {
	beat    jsonfile.Reading[beat]
	current jsonfile.Reading[current]
}

func newBench() agentDirs {
	return agentDirs{desks: map[string]*place{}, singles: map[string]*jsonfile.Reading[beat]{}, cards: map[string]*jsonfile.Reading[agentRecord]{}, signs: map[string]*signs{}}
}

func beatFile(desk string) string    { return desk + "/heartbeat.json" }
func currentFile(desk string) string { return desk + "/current_task.json" }

// readAgents refreshes heartbeats, registry and cards. It reads the given folders, or all folders if desks is nil.
func (p *Project) readAgents(desks []string) {
	if entries, fresh := p.list("."); fresh {
		p.seat(entries)
	}
	load(p, &p.bench.registry, registry, decodeRoll)
	for file, r := range p.bench.singles {
		load(p, r, file, decodeRelative)
	}
	full := desks == nil
	if full {
		desks = sortedKeys(p.bench.desks)
	}
	p.probe(desks...)
	booted := false
	for _, dir := range desks {
		d := p.bench.desks[dir]
		booted = load(p, &d.beat, beatFile(dir), decodeBeat) && d.beat.Value.fresh || booted
		load(p, &d.current, currentFile(dir), decodeCurrent)
	}
	p.through(desks...)
	if full || booted {
		p.readCards()
	}
}

// readCards reads steward's own cards of the agents. Only steward writes them, so a read on each full scan and after
// each new boot heartbeat is enough. A boot writes the card before the heartbeat, and this reads the card after the
// heartbeat: no scan finds a boot heartbeat without its card.
func (p *Project) readCards() {
	p.probe(agentsDir)
	if files, fresh := p.list(agentsDir); fresh {
		for _, f := range files {
			if file := path.Join(agentsDir, f); strings.HasSuffix(f, ".json") && p.bench.cards[file] == nil {
				p.bench.cards[file] = &jsonfile.Reading[agentRecord]{}
			}
		}
	}
	for file, r := range p.bench.cards {
		load(p, r, file, decodeCard)
		if !r.There {
			delete(p.bench.cards, file)
		}
	}
}

// seat registers the agents' folders and single status files among the entries of Base, and drops those that are
// gone.
func (p *Project) seat(entries []string) {
	seen := make(map[string]bool, len(entries))
	for _, name := range entries {
		switch {
		case strings.HasSuffix(name, "_status"):
			seen[name] = true
			if p.bench.desks[name] == nil {
				p.bench.desks[name] = &place{}
				p.changed[name] = true
			}
		case strings.HasSuffix(name, ".status.json"):
			seen[name] = true
			if p.bench.singles[name] == nil {
				p.bench.singles[name] = &jsonfile.Reading[beat]{}
			}
		}
	}
	for name := range p.bench.desks {
		if !seen[name] {
			delete(p.bench.desks, name)
			p.Patience.Clear(beatFile(name))
			p.Patience.Clear(currentFile(name))
			p.Patience.Clear(name)
		}
	}
	for name := range p.bench.singles {
		if !seen[name] {
			delete(p.bench.singles, name)
			p.Patience.Clear(name)
		}
	}
}

// sitters lists every heartbeat with its agent's name: the name inside the file, else the name of its folder or file.
func (p *Project) sitters() []sitter {
	var list []sitter
	for _, dir := range sortedKeys(p.bench.desks) {
		d := p.bench.desks[dir]
		if !d.beat.Good && !d.current.Good {
			continue // an empty folder is not an agent yet
		}
		name := d.beat.Value.name
		if name == "" {
			name = strings.TrimSuffix(dir, "_status")
		}
		list = append(list, sitter{label: name, file: beatFile(dir), beat: &d.beat, current: &d.current})
	}
	for _, file := range sortedKeys(p.bench.singles) {
		if r := p.bench.singles[file]; r.Good {
			name := r.Value.name
			if name == "" {
				name = strings.TrimSuffix(file, ".status.json")
			}
			list = append(list, sitter{label: name, file: file, beat: r})
		}
	}
	return list
}

// sitter is one heartbeat file with the agent name that it stands for.
type sitter struct {
	label, file string
	beat        *jsonfile.Reading[beat]
	current     *jsonfile.Reading[current]
}

// deskOf returns the folder for an agent's heartbeat: the folder that already holds a heartbeat of that name, else
// the default folder for that name. It never returns another agent's folder.
func (p *Project) deskOf(name string) string {
	for _, dir := range sortedKeys(p.bench.desks) {
		if d := p.bench.desks[dir]; d.beat.Good && d.beat.Value.name == name {
			return dir
		}
	}
	switch name {
	case livhana:
		return "livhana_status"
	case codex:
		return "codex_status"
	}
	dir := name + "_status"
	for p.othersDesk(dir, name) {
		dir = strings.TrimSuffix(dir, "_status") + "_agent_status"
	}
	return dir
}

func (p *Project) othersDesk(dir, name string) bool {
	if dir == "livhana_status" || dir == "codex_status" {
		return true
	}
	d := p.bench.desks[dir]
	return d != nil && d.beat.Good && d.beat.Value.name != "" && d.beat.Value.name != name
}
