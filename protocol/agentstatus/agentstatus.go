// Package agentstatus speaks protocol 000: tasks, heartbeats, registry and log under tmp/agent_status.
package agentstatus

import (
	"path"
	"path/filepath"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Name is the adapter's name in config, status and metrics.
const Name = "agentstatus"

// Base is the protocol's folder inside a project (protocol 000, File Locations).
const Base = "tmp/agent_status"

// The places inside Base. What lies under own is steward's.
const (
	tasksDir    = "codex_tasks"
	archiveDir  = "codex_tasks/.processed" // where some clients' loops move what ended
	sharedDir   = "shared"
	registry    = "shared/agent_registry.json"
	logFile     = "shared/coordination_log.jsonl"
	own         = "steward"
	attemptsDir = "steward/attempts"
	agentsDir   = "steward/agents"
	capacityDoc = "steward/" + folder.CapacityFile
)

// maxFile bounds what is read of one file. A larger one is a Fault.
const maxFile = 1 << 20

// Options are the settings of one project's adapter.
type Options struct {
	Guard folder.Guard // may be nil
	// Sources are further files per agent, absolute or relative to the project, whose change is a sign of life.
	Sources map[string][]string
}

// Project is one project's adapter. It is used by one goroutine at a time.
type Project struct {
	*folder.Folder
	dir     string
	opts    Options
	desksAt time.Time // when all agents' folders were last read

	folders
	oddTasks, oddAgents map[string]protocol.Fault // names that cannot be used
	tasks               map[string]*entry
	mostTasks           int // since the map of tasks was made
	settled             map[string]*settled
	rounds              map[string]*listing // of the two folders of tasks
	bench               agentDirs
	pruning             pruning
	log                 log

	// What Apply has touched since the last look: tasks, and anything of an agent's.
	dirty       map[string]bool
	dirtyAgents bool
	waits       []jsonfile.Option // Volatile while changes that wait for the disk together are made
}

var _ protocol.Adapter = (*Project)(nil)

// New makes the adapter for the project at dir (absolute). Nothing is read yet.
func New(dir string, opts Options) *Project {
	p := &Project{dir: dir, opts: opts}
	p.Folder = folder.New(folder.Options{Dir: dir, Base: Base, Own: own, Rooms: []string{attemptsDir}, Guard: opts.Guard,
		Sweep: []string{sharedDir, agentsDir, attemptsDir, claimsDir, own}, Tidy: p.prune, Forget: p.forget})
	return p
}

// forget drops everything that was read, for a folder that was made anew.
func (p *Project) forget() {
	p.folders = newFolders()
	p.oddTasks, p.oddAgents = nil, nil
	p.tasks, p.settled = map[string]*entry{}, map[string]*settled{}
	p.rounds = map[string]*listing{tasksDir: newRound(), archiveDir: newRound()}
	p.bench, p.log, p.pruning = newBench(), newLog(), pruning{}
	p.dirty, p.dirtyAgents, p.desksAt = map[string]bool{}, false, time.Time{}
}

// Detect reports whether the project at dir speaks protocol 000. A link in the folder's place counts, so that its
// refusal comes to light as a Fault.
func Detect(dir string) bool { return folder.Is(dir, Base) }

// Dirs lists the folders to watch. The agents' own are not among them: a hundred agents that beat would wake steward
// all the time, and nothing that a beat says is more urgent than the next look.
func (p *Project) Dirs() []string {
	dirs := []string{Base}
	for _, d := range []string{tasksDir, archiveDir, claimsDir, sharedDir, agentsDir} {
		dirs = append(dirs, path.Join(Base, d))
	}
	return dirs
}

// Publish writes the capacity document where agents may read it.
func (p *Project) Publish(doc []byte) error {
	if err := p.Open(); err != nil {
		return err
	}
	if _, err := p.MakeOwn(); err != nil {
		return err
	}
	late, err := p.Root.Replace(capacityDoc, doc, jsonfile.Any, jsonfile.Volatile)
	_ = late.Close()
	return err
}

// OwnDir is where steward keeps its own files of the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, filepath.FromSlash(Base), own) }
