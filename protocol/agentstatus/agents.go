package agentstatus

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// agentDirs holds what was read of the agents: their heartbeats, steward's records of them, and the registry.
type agentDirs struct {
	*statusFiles
	sources map[string][]string // further files per agent (Options.Sources)

	beats    map[string]*heartbeat        // by entry of Base: a folder (codex_status) or a single file (planner.status.json)
	records  map[string]*doc[agentRecord] // by agent
	registry doc[registryContent]
	signs    map[string]*signs         // by agent
	odd      map[string]protocol.Fault // names that cannot be file names
}

// heartbeat is what was read of one agent's folder, or of its single status file.
type heartbeat struct {
	fallback string // the agent that the name of the folder or file stands for
	single   bool
	beat     doc[beat]
	current  doc[current] // never there beside a single status file
}

// label is the agent's name: the name inside the file, else the name of its folder or file.
func (h *heartbeat) label() string { return cmp.Or(h.beat.Value.name, h.fallback) }

func (a *agentDirs) forget() {
	*a = agentDirs{statusFiles: a.statusFiles, sources: a.sources, beats: map[string]*heartbeat{},
		records: map[string]*doc[agentRecord]{}, registry: doc[registryContent]{path: registry}, signs: map[string]*signs{}}
}

// read refreshes heartbeats, registry and records.
func (a *agentDirs) read() {
	a.probe(".", sharedDir)
	if entries, fresh := a.List(a.Folder, "."); fresh {
		a.discover(entries)
	}
	load(a.statusFiles, &a.registry, decodeRegistry)
	for name, h := range a.beats {
		if h.single {
			load(a.statusFiles, &h.beat, decodeStatusFile)
			continue
		}
		a.probe(name)
		load(a.statusFiles, &h.beat, decodeBeat)
		load(a.statusFiles, &h.current, decodeCurrent)
		a.Through(a.Folder, name)
	}
	a.Through(a.Folder, sharedDir)
	a.readRecords()
}

// readRecords reads steward's own records of the agents. A boot writes the record before the heartbeat, and this reads the
// record after the heartbeat: no scan finds a boot heartbeat without its record.
func (a *agentDirs) readRecords() {
	a.probe(agentsDir)
	if names, fresh := a.List(a.Folder, agentsDir); fresh {
		for _, name := range names {
			if agent, ok := strings.CutSuffix(name, ".json"); ok && a.records[agent] == nil {
				a.records[agent] = &doc[agentRecord]{path: recordPath(agent)}
			}
		}
	}
	for agent, d := range a.records {
		if load(a.statusFiles, d, decodeRecord); !d.There {
			delete(a.records, agent)
		}
	}
}

// discover adds the agents' folders and single status files among the entries of Base, and drops those that are gone.
func (a *agentDirs) discover(entries []string) {
	for _, name := range entries {
		if a.beats[name] != nil {
			continue
		}
		if agent, ok := strings.CutSuffix(name, "_status"); ok {
			a.beats[name] = &heartbeat{fallback: agent, beat: doc[beat]{path: beatFile(name)}, current: doc[current]{path: currentFile(name)}}
		} else if agent, ok := strings.CutSuffix(name, ".status.json"); ok {
			a.beats[name] = &heartbeat{fallback: agent, single: true, beat: doc[beat]{path: name}}
		}
	}
	for name, h := range a.beats {
		if !slices.Contains(entries, name) {
			delete(a.beats, name)
			a.Patience.Clear(name)
			a.Patience.Clear(h.beat.path)
			a.Patience.Clear(h.current.path)
		}
	}
}

// reads reports whether the file or folder of Base shows an agent.
func (a *agentDirs) reads(rel string) bool {
	h := a.beats[path.Dir(rel)]
	return h != nil && (rel == h.beat.path || rel == h.current.path) || a.beats[rel] != nil
}

// dirOf returns the folder for an agent's heartbeat: the folder that already holds a heartbeat of that name, else
// the default folder for that name. It never returns another agent's folder.
func (a *agentDirs) dirOf(name string) string {
	for _, dir := range sortedKeys(a.beats) {
		if h := a.beats[dir]; !h.single && h.beat.Good && h.beat.Value.name == name {
			return dir
		}
	}
	switch name {
	case livhana:
		return livhanaDir
	case codex:
		return codexDir
	}
	dir := name + "_status"
	for a.isOthers(dir, name) {
		dir = strings.TrimSuffix(dir, "_status") + "_agent_status"
	}
	return dir
}

func (a *agentDirs) isOthers(dir, name string) bool {
	h := a.beats[dir]
	return dir == livhanaDir || dir == codexDir || h != nil && h.beat.Good && h.beat.Value.name != "" && h.beat.Value.name != name
}

// agentFacts is everything that the files say about one agent.
type agentFacts struct {
	agent  protocol.Agent
	file   string // the file that named the agent first
	issues []protocol.Finding
	beats  []*heartbeat
	named  map[string]time.Time // by task: when the newest file that names the task was written
}

// all builds the agents from all files, by name.
func (a *agentDirs) all() (directory, map[string]*agentFacts) {
	known, found := directory{}, map[string]*agentFacts{}
	facts := func(name, file string) *agentFacts {
		known[name] = true
		if found[name] == nil {
			found[name] = &agentFacts{agent: protocol.Agent{Name: name}, file: file}
		}
		return found[name]
	}
	if a.registry.Good {
		for name, m := range a.registry.Value.agents {
			agent := &facts(name, registry).agent
			agent.Recorded, agent.PID, agent.Registered = m.status, m.pid, m.seen
			agent.Ref = protocol.Ref{Path: registry, Sum: m.status}
		}
	}
	for name, r := range a.records {
		if r.Good {
			r.Value.describe(&facts(name, r.path).agent)
		}
	}
	var list []*heartbeat
	labels := map[string]bool{}
	for _, name := range sortedKeys(a.beats) {
		if h := a.beats[name]; h.beat.Good || h.current.Good { // an empty folder is not an agent yet
			list, labels[h.label()] = append(list, h), true
		}
	}
	for _, h := range list {
		label := h.label()
		name := known.canonical(label)
		if name != label && labels[name] && aliases[fold(label)] != name {
			name = label // both spellings have a heartbeat: treat them as two agents
		}
		f := facts(name, h.beat.path)
		f.beats = append(f.beats, h)
	}
	for name, f := range found {
		f.merge(a.Now)
		if r := a.records[name]; r != nil && r.Good && r.Value.Booted != "" {
			f.agent.Beat.Booted = strings.HasPrefix(f.agent.Beat.Mark, r.Value.Booted+"-")
		}
	}
	return known, found
}

// merge merges an agent's heartbeats. If there are several, the newest counts.
func (f *agentFacts) merge(now time.Time) {
	a := &f.agent
	f.named = map[string]time.Time{}
	note := func(task string, written time.Time) {
		if f.named[task].Before(written) {
			f.named[task] = written
		}
		if !slices.Contains(a.Tasks, task) {
			a.Tasks = append(a.Tasks, task)
		}
	}
	var newest *doc[beat]
	for _, h := range f.beats {
		if !h.beat.Good {
			continue
		}
		f.issues = append(f.issues, h.beat.Value.issues...)
		if b := described(&h.beat, now); newest == nil || b.Last().After(a.Beat.Last()) {
			newest, a.Beat = &h.beat, b
		}
	}
	if newest != nil {
		v := &newest.Value
		a.Status, a.Complaint, a.Used = v.status, v.complaint, v.used
		for _, task := range v.tasks {
			note(task, newest.Stamp.ModTime())
		}
	}
	for _, h := range f.beats {
		if h.current.Good && h.current.Value.task != "" {
			note(h.current.Value.task, h.current.Stamp.ModTime())
		}
	}
	// An error entry's time was set by the process that marked it, not by the agent.
	if a.Recorded == "error" || a.Registered.After(now) || a.Beat.Mark != "" && a.Registered.Sub(a.Beat.Last()) < registeredLate {
		a.Registered = time.Time{}
	}
}

// registeredLate is how much newer than the heartbeat a registration must be to mean a new start: clients refresh
// both within moments of each other. A registration in the future does not count: it would mean a new start at every
// scan.
const registeredLate = time.Minute

// described is a heartbeat as policies read it.
func described(d *doc[beat], now time.Time) protocol.Beat {
	v := &d.Value
	return protocol.Beat{Mark: fmt.Sprintf("%s-%d", d.Sum, d.Stamp.Inode), Touched: capped(d.Stamp.ModTime().UTC(), now), At: capped(v.stated.Latest(), now),
		Stated: v.stated.At, Zoneless: v.stated.Zoneless, Kept: v.kept, Fresh: v.fresh}
}

// describe appends the agents to the snapshot, with their findings. It leaves out one-shot programs that left long ago.
func (a *agentDirs) describe(s *protocol.Snapshot, agents map[string]*agentFacts) {
	odd := map[string]protocol.Fault{}
	s.Agents = make([]protocol.Agent, 0, len(agents))
	for _, name := range sortedKeys(agents) {
		f := agents[name]
		if !plainID(name) {
			a.oddName(a.odd, odd, path.Join(Base, f.file), "\""+folder.Line(name, 60)+"\" is not a valid agent name: it cannot be used as a file name",
				"use a plain name for the agent")
			continue
		}
		if r := a.records[name]; r != nil && r.Good && r.Value.over(a.Now) {
			continue
		}
		s.Agents = append(s.Agents, f.agent)
		s.Findings = append(s.Findings, findingsAbout(protocol.Subject{Kind: protocol.KindAgent, ID: name}, f.file, f.issues)...)
	}
	a.odd = odd
}

// fold normalizes a name: spellings that differ only in case and separators become equal.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == ' ' {
			return '-'
		}
		return r
	}, strings.ToLower(strings.TrimSpace(name)))
}

// directory is the set of known agent names. Files spell them slightly differently. Two agents are never taken for
// one, not even if one name begins with the other (worker, worker-1).
type directory map[string]bool

// canonical returns the agent name that a spelling means: the exact name, the only name that differs just in case and
// separators, or the agent of protocol 000 with that short name. Otherwise it returns the spelling itself.
func (d directory) canonical(spelling string) string {
	if d[spelling] || spelling == "" {
		return spelling
	}
	want, alike := fold(spelling), ""
	for name := range d {
		if fold(name) != want {
			continue
		}
		if alike != "" {
			return spelling
		}
		alike = name
	}
	if alike != "" {
		return alike
	}
	if long := aliases[want]; d[long] {
		return long
	}
	return spelling
}

// editBeat edits or creates an agent's heartbeat file. Fields that others have written stay.
func (a *agentDirs) editBeat(agent string, edits func(old jsonfile.Object) []jsonfile.Set) error {
	return a.Update(beatFile(a.dirOf(agent)), maxFile, func(old []byte) ([]byte, error) { return editedBeat(old, edits) }, jsonfile.Volatile)
}

// beat writes an agent's own heartbeat.
func (a *agentDirs) beat(agent string, b Beat, tasks []string) error {
	a.read()
	return a.editBeat(agent, func(old jsonfile.Object) []jsonfile.Set { return a.beatEdits(old, agent, b, tasks) })
}

// markKept marks an agent's first heartbeat as written by steward.
func (a *agentDirs) markKept(agent string) error {
	return a.editBeat(agent, func(old jsonfile.Object) []jsonfile.Set {
		if len(old.Keys()) == 0 {
			return nil
		}
		return []jsonfile.Set{set(ourName, keptBy)}
	})
}
