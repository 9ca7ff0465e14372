// Package mailbox speaks protocol 003: the task queue, the agents' status and the mailboxes under .claude-orchestrator.
package mailbox

import (
	"path/filepath"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Name is the adapter's name in config, status and metrics.
const Name = "mailbox"

// Base is the protocol's folder inside a project (protocol 003, File Locations).
const Base = ".claude-orchestrator"

// Paths inside Base. The folder own belongs to steward.
const (
	pidFile     = "orchestrator.pid"
	logsDir     = "logs"
	own         = "steward"
	attemptsDir = "steward/attempts"
)

// maxFile limits the bytes read of one file; maxQueue limits a queue, which contains every task that was ever completed. A
// larger file is a fault.
const (
	maxFile  = 4 << 20
	maxQueue = 32 << 20
)

// Options are the settings of one project's adapter.
type Options struct {
	Guard folder.Guard // may be nil
	// Lead, Developer and Review are how long an agent of that role may be silent while it works; Review applies to a lead
	// that is reviewing. 0 means the general limit. Developer is also how long all agents must have been silent before
	// work without an orchestrator counts as lost.
	Lead, Developer, Review time.Duration
}

// Project is one project's adapter. It is used by one goroutine at a time.
type Project struct {
	*folder.Folder
	dir     string
	opts    Options
	sites   [2]site // the two layouts: queue in Base, and queue in Base/tasks
	pid     jsonfile.Reading[int]
	ledger  *folder.Attempts
	chief   orchestratorState
	history history
	quiet   map[string]quiet          // by role name
	looked  bool                      // the first scan is over: anything new has appeared since then
	odd     map[string]protocol.Fault // ids that cannot be used
}

var _ protocol.Adapter = (*Project)(nil)

// New returns the adapter for the project at dir (absolute). It reads nothing yet.
func New(dir string, opts Options) *Project {
	p := &Project{dir: dir, opts: opts}
	p.Folder = folder.New(folder.Options{Dir: dir, Base: Base, Own: own, Guard: opts.Guard,
		Sweep: []string{".", "messages", "tasks", "tasks/messages", attemptsDir, own}, Forget: p.forget})
	return p
}

// forget discards all readings, because the folder was recreated.
func (p *Project) forget() {
	p.sites = [2]site{newSite(""), newSite("tasks")}
	p.pid = jsonfile.Reading[int]{}
	p.ledger = folder.NewAttempts(attemptsDir)
	p.chief, p.history = orchestratorState{}, newHistory()
	p.quiet = map[string]quiet{}
	p.looked = false
	p.odd = map[string]protocol.Fault{}
}

// Detect reports whether the project at dir speaks protocol 003. A symbolic link in place of the folder counts too, so
// that its rejection is reported as a fault.
func Detect(dir string) bool { return folder.Is(dir, Base) }

// Dirs lists the folders to watch.
func (p *Project) Dirs() []string {
	return []string{Base, Base + "/messages", Base + "/tasks", Base + "/tasks/messages"}
}

// OwnDir is the folder of steward's own files about the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, Base, own) }
