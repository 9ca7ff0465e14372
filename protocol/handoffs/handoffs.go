// Package handoffs speaks protocol 001: handoff messages and the shared state file under .claude.
package handoffs

import (
	"path/filepath"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/ledger"
)

// Name is the adapter's name in config, status and metrics.
const Name = "handoffs"

// Base is the protocol's folder inside a project (protocol 001, Handoff Storage). Other tools keep files there too.
const Base = ".claude"

// The places inside Base. What lies under own is steward's. The document names no place for its events log.
const (
	boxDir      = "handoffs"
	stateFile   = "state.json"
	logFile     = "agent_events.jsonl"
	own         = "steward"
	attemptsDir = "steward/attempts"
	tombFile    = "steward/tombstones.jsonl"
	oldTombFile = "steward/tombstones.1.jsonl"
)

// maxFile bounds what is read of one file. A larger one is a Fault.
const maxFile = 1 << 20

// Options are the settings of one project's adapter.
type Options struct {
	Guard folder.Guard // may be nil
	// Granted tells of the lock that steward itself has granted on a resource: its newest Fence, and of that holding the
	// Holder, Acquired, Expires (its whole time, however often the entry is prolonged) and Process, whoever holds it now.
	// Kernel: somebody holds it still, or nobody can say. nil: steward grants none.
	Granted func(resource string) (l protocol.Lock, ok bool)
}

// Project is one project's adapter. It is used by one goroutine at a time.
type Project struct {
	*folder.Folder
	began   time.Time // the first look at this folder; zero before it
	state   jsonfile.Reading[state]
	claimed bool // an unreadable state file shows words of ours
	boxes
	ledger *ledger.Ledger
	log    record
	tombs  tombs
	story  events
	stands map[string]time.Time // since when a condition holds that must stand for a while
	grants func(string) (protocol.Lock, bool)
}

var _ protocol.Adapter = (*Project)(nil)

// New makes the adapter for the project at dir (absolute). Nothing is read yet.
func New(dir string, opts Options) *Project {
	p := &Project{grants: opts.Granted}
	p.Folder = folder.New(folder.Options{Dir: dir, Base: Base, Own: own, Guard: opts.Guard,
		Sweep: []string{".", boxDir, own, attemptsDir}, Forget: p.forget})
	return p
}

// forget drops everything that was read, for a folder that was made anew.
func (p *Project) forget() {
	p.state, p.claimed, p.began = jsonfile.Reading[state]{}, false, time.Time{}
	p.boxes, p.ledger = newBoxes(), ledger.New(attemptsDir)
	p.log, p.tombs, p.story = newRecord(), newTombs(), newStory()
	p.stands = map[string]time.Time{}
}

// OwnDir is where steward keeps its own files of the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, Base, own) }

// Detect reports whether the project at dir speaks protocol 001: there is a folder for handoffs, or a state file with
// locks or agents. A link in the folder's place counts, so that its refusal comes to light as a Fault.
func Detect(dir string) bool {
	if folder.Is(dir, Base+"/"+boxDir) {
		return true
	}
	root, err := jsonfile.Open(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	o, _, err := root.Load(Base+"/"+stateFile, maxFile)
	return err == nil && isOurs(o)
}

// Dirs lists the folders to watch.
func (p *Project) Dirs() []string {
	dirs := []string{Base}
	for _, at := range places {
		dirs = append(dirs, Base+"/"+at.dir())
	}
	return dirs
}
