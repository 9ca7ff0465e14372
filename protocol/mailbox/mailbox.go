// Package mailbox speaks protocol 003: the task queue, the agents' status and the mailboxes under .claude-orchestrator.
package mailbox

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
	// Guard takes the lock that all of our own processes take before they write; the returned func frees it.
	Guard func(ctx context.Context) (release func(), err error)
	// Lead, Developer and Review are how long an agent of that role may be silent while it works; Review stands for
	// a lead who reviews. 0 leaves it to the general limit. Developer is also how long everybody must have been silent
	// until work without an orchestrator counts as lost.
	Lead, Developer, Review time.Duration
}

// Project is one project's adapter. It is used by one goroutine at a time.
type Project struct {
	dir  string
	opts Options
	root *jsonfile.Root // at Base; nil while the folder is missing

	now, since time.Time
	swept      time.Time // when drafts that a crash left were last removed

	lost     jsonfile.Patience // why Base cannot be opened
	patience jsonfile.Patience
	sites    [2]site // the two layouts: with the queue in Base, and in Base/tasks
	pid      jsonfile.Reading[int]
	ledger   *ledger.Ledger
	chief    chief
	history  history
	odd      map[string]protocol.Fault // ids that cannot be used
	lates    []*lateEdit
}

var _ protocol.Adapter = (*Project)(nil)

// New makes the adapter for the project at dir (absolute). Nothing is read yet.
func New(dir string, opts Options) *Project {
	if opts.Guard == nil {
		opts.Guard = func(context.Context) (func(), error) { return func() {}, nil }
	}
	p := &Project{dir: dir, opts: opts}
	p.lost.Forget()
	p.forget()
	return p
}

// forget drops everything that was read, for a folder that was made anew.
func (p *Project) forget() {
	p.patience.Forget()
	p.sites = [2]site{newSite(""), newSite("tasks")}
	p.pid = jsonfile.Reading[int]{}
	p.ledger = ledger.New(attemptsDir)
	p.chief, p.history = chief{}, newHistory()
	p.odd = map[string]protocol.Fault{}
	p.dropLates()
}

// Detect reports whether the project at dir speaks protocol 003. A link in the folder's place counts, so that its
// refusal comes to light as a Fault.
func Detect(dir string) bool {
	root, err := jsonfile.Open(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	st, err := root.Stat(Base)
	if errors.Is(err, jsonfile.ErrHostile) {
		at, err := os.Stat(filepath.Join(dir, Base))
		return err == nil && at.IsDir()
	}
	return err == nil && st.Mode.IsDir()
}

// Dirs lists the folders to watch.
func (p *Project) Dirs() []string {
	return []string{Base, Base + "/messages", Base + "/tasks", Base + "/tasks/messages"}
}

// OwnDir is where steward keeps its own files of the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, Base, own) }

// Close lets go of what is open, after a last look at files that were replaced a moment ago.
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
		p.lost.Clear(Base)
		return nil
	}
	root, err := openBase(p.dir)
	if err == nil {
		p.leave()
		p.root = root
		p.lost.Clear(Base)
		return nil
	}
	if isMissing(err) || errors.Is(err, jsonfile.ErrHostile) {
		p.leave()
	}
	if isMissing(err) {
		p.lost.Clear(Base)
		return err
	}
	problem, hint := jsonfile.Describe(err)
	p.lost.Refuse(Base, problem, hint)
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
	if err := p.root.MkdirAll(own, 0o755); err != nil {
		return err
	}
	release, err := p.opts.Guard(ctx)
	if err != nil {
		return fmt.Errorf("take steward's guard lock: %w", err)
	}
	defer release()
	if p.now.Sub(p.swept) >= sweepEvery {
		p.swept = p.now
		for _, dir := range []string{".", "messages", "tasks", "tasks/messages", attemptsDir, own} {
			_, _ = p.root.Sweep(dir, p.now)
		}
	}
	return f()
}

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

// moved is the conflict that says what has changed.
func moved(format string, args ...any) error {
	return fmt.Errorf("%w: %s", protocol.ErrConflict, fmt.Sprintf(format, args...))
}

func isMissing(err error) bool { return errors.Is(err, jsonfile.ErrNotExist) }

// shownPath is a path as the snapshot shows it: relative to the project.
func shownPath(rel string) string { return path.Join(Base, rel) }
