// Package mailbox speaks protocol 003: the task queue, the agents' status and the mailboxes under .claude-orchestrator.
package mailbox

import (
	"path/filepath"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/ledger"
)

// Name is the adapter's name in config, status and metrics.
const Name = "mailbox"

// Base is the protocol's folder inside a project (protocol 003, File Locations).
const Base = ".claude-orchestrator"

// The places inside Base. What lies under own is steward's.
const (
	pidFile     = "orchestrator.pid"
	logsDir     = "logs"
	own         = "steward"
	attemptsDir = "steward/attempts"
)

// maxFile bounds what is read of one file, maxQueue of a queue with everything that was ever completed. A larger one
// is a Fault.
const (
	maxFile  = 4 << 20
	maxQueue = 32 << 20
)

// Options are the settings of one project's adapter.
type Options struct {
	Guard folder.Guard // may be nil
	// Lead, Developer and Review are how long an agent of that role may be silent while it works; Review stands for
	// a lead who reviews. 0 leaves it to the general limit. Developer is also how long everybody must have been silent
	// until work without an orchestrator counts as lost.
	Lead, Developer, Review time.Duration
}

// Project is one project's adapter. It is used by one goroutine at a time.
type Project struct {
	*folder.Folder
	dir     string
	opts    Options
	sites   [2]site // the two layouts: with the queue in Base, and in Base/tasks
	pid     jsonfile.Reading[int]
	ledger  *ledger.Ledger
	chief   orchestratorState
	history history
	quiet   map[string]quiet          // the roles, by name
	looked  bool                      // what is new from now on appeared in our sight
	odd     map[string]protocol.Fault // ids that cannot be used
}

var _ protocol.Adapter = (*Project)(nil)

// New makes the adapter for the project at dir (absolute). Nothing is read yet.
func New(dir string, opts Options) *Project {
	p := &Project{dir: dir, opts: opts}
	p.Folder = folder.New(folder.Options{Dir: dir, Base: Base, Own: own, Guard: opts.Guard,
		Sweep: []string{".", "messages", "tasks", "tasks/messages", attemptsDir, own}, Forget: p.forget})
	return p
}

// forget drops everything that was read, for a folder that was made anew.
func (p *Project) forget() {
	p.sites = [2]site{newSite(""), newSite("tasks")}
	p.pid = jsonfile.Reading[int]{}
	p.ledger = ledger.New(attemptsDir)
	p.chief, p.history = orchestratorState{}, newHistory()
	p.quiet = map[string]quiet{}
	p.looked = false
	p.odd = map[string]protocol.Fault{}
}

// Detect reports whether the project at dir speaks protocol 003. A link in the folder's place counts, so that its
// refusal comes to light as a Fault.
func Detect(dir string) bool { return folder.Is(dir, Base) }

// Dirs lists the folders to watch.
func (p *Project) Dirs() []string {
	return []string{Base, Base + "/messages", Base + "/tasks", Base + "/tasks/messages"}
}

// OwnDir is where steward keeps its own files of the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, Base, own) }
