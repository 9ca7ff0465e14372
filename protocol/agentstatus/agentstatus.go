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

// The paths inside Base. Files under own belong to steward.
const (
	tasksDir    = "codex_tasks"
	archiveDir  = "codex_tasks/.processed" // some clients move ended tasks here
	sharedDir   = "shared"
	registry    = "shared/agent_registry.json"
	logFile     = "shared/coordination_log.jsonl"
	own         = "steward"
	attemptsDir = "steward/attempts"
	agentsDir   = "steward/agents"
	capacityDoc = "steward/" + folder.CapacityFile
)

// maxFile is the size limit for reading a file. A larger file is a Fault.
const maxFile = 1 << 20

// Options are the settings of one project's adapter.
type Options struct {
	Guard folder.Guard // may be nil
	// Sources lists further files per agent, absolute or relative to the project. A change to such a file is a sign
	// of life.
	Sources map[string][]string
}

// Project is one project's adapter. It is used by one goroutine at a time.
type Project struct {
	*folder.Folder
	dir     string
	opts    Options
	desksAt time.Time // when all agents' folders were last read

	folders
	oddTasks, oddAgents map[string]protocol.Fault // names that cannot be file names
	tasks               map[string]*entry
	mostTasks           int // the largest len(tasks) since the map was allocated
	settled             map[string]*settled
	rounds              map[string]*listing // listings of the two task folders
	bench               agentDirs
	pruning             pruning
	log                 log

	// What Apply has changed since the last scan: tasks, and whether it changed any agent's files.
	dirty       map[string]bool
	dirtyAgents bool
	waits       []jsonfile.Option // Volatile while a batch is applied: the batch waits for the disk once, at its end
}

var _ protocol.Adapter = (*Project)(nil)

// New returns the adapter for the project at dir (absolute). It reads nothing yet.
func New(dir string, opts Options) *Project {
	p := &Project{dir: dir, opts: opts}
	p.Folder = folder.New(folder.Options{Dir: dir, Base: Base, Own: own, Rooms: []string{attemptsDir}, Guard: opts.Guard,
		Sweep: []string{sharedDir, agentsDir, attemptsDir, claimsDir, own}, Tidy: p.prune, Forget: p.forget})
	return p
}

// forget drops all cached state. Folder calls it when the protocol's folder was recreated.
func (p *Project) forget() {
	p.folders = newFolders()
	p.oddTasks, p.oddAgents = nil, nil
	p.tasks, p.settled = map[string]*entry{}, map[string]*settled{}
	p.rounds = map[string]*listing{tasksDir: newRound(), archiveDir: newRound()}
	p.bench, p.log, p.pruning = newBench(), newLog(), pruning{}
	p.dirty, p.dirtyAgents, p.desksAt = map[string]bool{}, false, time.Time{}
}

// Detect reports whether the project at dir speaks protocol 000. A symbolic link in place of the folder counts, so
// that its rejection is reported as a Fault.
func Detect(dir string) bool { return folder.Is(dir, Base) }

// Dirs lists the folders to watch. It leaves out the agents' own folders: a hundred agents that write heartbeats
// would wake steward all the time, and no heartbeat is more urgent than the next scan.
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

// OwnDir returns the folder of steward's own files for the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, filepath.FromSlash(Base), own) }
