// Package agentstatus speaks protocol 000: tasks, heartbeats, registry and log under tmp/agent_status.
package agentstatus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/livhana/steward/protocol"
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
	capacityDoc = "steward/capacity.json"
)

// maxFile bounds what is read of one file. A larger one is a Fault.
const maxFile = 1 << 20

// Options are the settings of one project's adapter.
type Options struct {
	// Guard takes the lock that all of our own processes take before they write; the returned func frees it.
	Guard func(ctx context.Context) (release func(), err error)
	// Sources are further files per agent, absolute or relative to the project, whose change is a sign of life.
	Sources map[string][]string
}

// Project is one project's adapter. It is used by one goroutine at a time.
type Project struct {
	dir  string
	opts Options
	root *jsonfile.Root    // at Base; nil while the folder is missing
	lost *jsonfile.Trouble // why Base cannot be opened

	now, since time.Time
	swept      time.Time // when drafts that a crash left were last removed
	desksAt    time.Time // when all agents' folders were last read

	folders
	patience            jsonfile.Patience
	oddTasks, oddAgents map[string]protocol.Fault // names that cannot be used
	tasks               map[string]*entry
	mostTasks           int // since the map of tasks was made
	settled             map[string]settled
	bench               bench
	log                 log
	lates               []*lateEdit

	// What Apply has touched since the last look: tasks, and anything of an agent's.
	dirty       map[string]bool
	dirtyAgents bool
}

var _ protocol.Adapter = (*Project)(nil)

// New makes the adapter for the project at dir (absolute). Nothing is read yet.
func New(dir string, opts Options) *Project {
	if opts.Guard == nil {
		opts.Guard = func(context.Context) (func(), error) { return func() {}, nil }
	}
	p := &Project{dir: dir, opts: opts}
	p.forget()
	return p
}

// forget drops everything that was read, for a folder that was made anew.
func (p *Project) forget() {
	p.folders = newFolders()
	p.patience.Forget()
	p.oddTasks, p.oddAgents = nil, nil
	p.tasks, p.settled = map[string]*entry{}, map[string]settled{}
	p.bench, p.log = newBench(), newLog()
	p.dirty, p.dirtyAgents, p.desksAt = map[string]bool{}, false, time.Time{}
	p.dropLates()
}

// Detect reports whether the project at dir speaks protocol 000. A link in the folder's place counts, so that its
// refusal comes to light as a Fault.
func Detect(dir string) bool {
	root, err := jsonfile.Open(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	st, err := root.Stat(Base)
	if errors.Is(err, jsonfile.ErrHostile) {
		at, err := os.Stat(filepath.Join(dir, filepath.FromSlash(Base)))
		return err == nil && at.IsDir()
	}
	return err == nil && st.Mode.IsDir()
}

// Dirs lists the folders to watch. The agents' own are not among them: a hundred agents that beat would wake steward
// all the time, and nothing that a beat says is more urgent than the next look.
func (p *Project) Dirs() []string {
	dirs := []string{Base}
	for _, d := range []string{tasksDir, archiveDir, sharedDir, agentsDir} {
		dirs = append(dirs, path.Join(Base, d))
	}
	return dirs
}

// Close lets go of what is open, after a last look at registries that were replaced a moment ago.
func (p *Project) Close() {
	if p.root != nil {
		p.mergeLate(context.Background())
	}
	p.dropLates()
	if p.root != nil {
		_ = p.root.Close()
		p.root = nil
	}
}

// open makes sure that the folder under the project's path is the one that is read. When the way there cannot be
// looked at just now, the folder that is open goes on serving: nobody is gone because the system is short of files.
func (p *Project) open() error {
	if p.root != nil && p.root.Alive() {
		p.lost = nil
		return nil
	}
	root, err := openBase(p.dir)
	if err == nil {
		p.leave()
		p.root, p.lost = root, nil
		return nil
	}
	if isMissing(err) || errors.Is(err, jsonfile.ErrHostile) {
		p.leave()
	}
	if isMissing(err) {
		p.lost = nil
		return err
	}
	p.lost = p.still(p.lost, "", err)
	if p.root != nil {
		return nil
	}
	return err
}

func openBase(dir string) (*jsonfile.Root, error) {
	top, err := jsonfile.Open(dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	return top.Sub(Base)
}

// leave closes the folder and forgets what it said.
func (p *Project) leave() {
	if p.root != nil {
		_ = p.root.Close()
		p.root = nil
	}
	p.forget()
}

// sweepEvery is how often drafts that a crash left behind are looked for.
const sweepEvery = 10 * time.Minute

// guarded runs f while no other process of ours writes in the folder.
func (p *Project) guarded(ctx context.Context, f func() error) error {
	if err := p.root.MkdirAll(attemptsDir, 0o755); err != nil {
		return err
	}
	release, err := p.opts.Guard(ctx)
	if err != nil {
		return fmt.Errorf("take steward's guard lock: %w", err)
	}
	defer release()
	if p.now.Sub(p.swept) >= sweepEvery {
		p.swept = p.now
		for _, dir := range []string{tasksDir, archiveDir, sharedDir, agentsDir, attemptsDir, own} {
			_, _ = p.root.Sweep(dir, p.now)
		}
	}
	return f()
}

// Publish writes the capacity document where agents may read it.
func (p *Project) Publish(doc []byte) error {
	if err := p.open(); err != nil {
		return err
	}
	if err := p.root.MkdirAll(own, 0o755); err != nil {
		return err
	}
	late, err := p.root.Replace(capacityDoc, doc, jsonfile.Any, jsonfile.Volatile)
	_ = late.Close()
	return err
}

// OwnDir is where steward keeps its own files of the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, filepath.FromSlash(Base), own) }

// conflict turns what the door to the files says into what the supervisor asks about. A document that cannot be
// parsed at this moment is being rewritten: the next look tells.
func conflict(err error) error {
	for _, sign := range []error{jsonfile.ErrConflict, jsonfile.ErrNotExist, jsonfile.ErrExist, jsonfile.ErrTorn, jsonfile.ErrBad} {
		if errors.Is(err, sign) && !errors.Is(err, protocol.ErrConflict) {
			return fmt.Errorf("%w: %w", protocol.ErrConflict, err)
		}
	}
	return err
}

func isMissing(err error) bool { return errors.Is(err, jsonfile.ErrNotExist) }
