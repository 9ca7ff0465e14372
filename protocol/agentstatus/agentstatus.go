// Package agentstatus implements protocol 000: tasks, heartbeats, registry and log under tmp/agent_status.
package agentstatus

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Name is the adapter's name in config, status and metrics.
const Name = "agentstatus"

// Options are the settings of one project's adapter.
type Options struct {
	Guard folder.Guard // may be nil
	// Sources lists further files per agent, absolute or relative to the project. A change to such a file is a sign
	// of life.
	Sources map[string][]string
}

var (
	_ protocol.Adapter = (*Project)(nil)
	_ protocol.Batcher = (*Project)(nil)
)

// New returns the adapter for the project at dir (absolute). It reads nothing yet.
func New(dir string, opts Options) *Project {
	f := &statusFiles{}
	p := &Project{statusFiles: f, dir: dir, attempts: &attempts{statusFiles: f}, log: &sharedLog{statusFiles: f}, agents: &agentDirs{statusFiles: f, sources: opts.Sources}}
	p.tasks = &taskTable{statusFiles: f, attempts: p.attempts, log: p.log, project: dir}
	f.Folder = folder.New(folder.Options{Dir: dir, Base: Base, Own: own, Rooms: []string{attemptsDir}, Guard: opts.Guard,
		Sweep: []string{sharedDir, agentsDir, attemptsDir, claimsDir, own}, Forget: p.forget, Tidy: p.attempts.prune})
	return p
}

// Detect reports whether the project at dir speaks protocol 000. A symbolic link in place of the folder counts, so
// that its rejection is reported as a Fault.
func Detect(dir string) bool { return folder.Is(dir, Base) }

// Dirs lists the folders to watch. It leaves out the agents' own folders: a hundred agents that write heartbeats
// would wake steward all the time, and no heartbeat is more urgent than the next scan. See docs/decisions.md, "Agents' own folders are not watched".
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
	return p.Replace(capacityDoc, doc, jsonfile.Any, jsonfile.Volatile)
}

// OwnDir returns the folder of steward's own files for the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, filepath.FromSlash(Base), own) }

// Reads reports whether the last scan read the file (relative to the project), and returns the findings about its own
// fields.
func (p *Project) Reads(file string) (fields []protocol.Finding, read bool) {
	rel, inside := strings.CutPrefix(file, Base+"/")
	if !inside {
		return nil, false
	}
	if id, _, ok := parseTaskFile(path.Base(rel)); ok && p.tasks.open[id] != nil {
		e := p.tasks.open[id]
		issues, ok := map[string][]protocol.Finding{e.request.path: e.request.Value.issues, e.held.path: e.held.Value.issues,
			e.archived.path: e.archived.Value.issues, e.result.path: e.result.Value.issues, e.archivedResult.path: e.archivedResult.Value.issues,
			e.progress.path: e.progress.Value.issues, e.notice.path: nil}[rel]
		return findingsAbout(protocol.Subject{Kind: protocol.KindTask, ID: id}, file, issues), ok
	}
	return nil, p.agents.reads(rel) || rel == registry || rel == logFile
}
