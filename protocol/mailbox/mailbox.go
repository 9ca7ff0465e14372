// Package mailbox speaks protocol 003: the task queue, the agents' status and the mailboxes under .claude-orchestrator.
package mailbox

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
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

// Project is one project's adapter: a reader that turns files into values, and a writer that carries out changes. It is
// used by one goroutine at a time.
type Project struct {
	*reader
	verbs map[protocol.Verb]func(protocol.Change) error
}

var _ protocol.Adapter = (*Project)(nil)

// New returns the adapter for the project at dir (absolute). It reads nothing yet.
func New(dir string, opts Options) *Project {
	r := newReader(dir, opts)
	w := writer{r}
	return &Project{reader: r, verbs: map[protocol.Verb]func(protocol.Change) error{
		protocol.VerbRequeue: w.requeue,
		protocol.VerbMark:    w.correctRunning,
		protocol.VerbFile:    w.clearMessages,
		protocol.VerbAnswer:  w.answer,
	}}
}

// Detect reports whether the project at dir speaks protocol 003. A symbolic link in place of the folder counts too, so
// that its rejection is reported as a fault.
func Detect(dir string) bool { return folder.Is(dir, Base) }

// OwnDir is the folder of steward's own files about the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, Base, own) }

// Dirs lists the folders to watch.
func (p *Project) Dirs() []string {
	return []string{Base, Base + "/messages", Base + "/tasks", Base + "/tasks/messages"}
}

// Observe returns what the files show now. It needs no hints: an unchanged file costs one stat, and there are few files.
func (p *Project) Observe(ctx context.Context, order protocol.ScanOrder) protocol.Snapshot {
	s, there := p.Scan(ctx, order)
	if !there {
		return s
	}
	p.read()
	p.orchestrator.findChildren(p.Folder, p.dir)
	v := p.view()
	s.Yield = p.orchestrator.yield()
	s.Agents = v.agents()
	s.Tasks = v.tasks()
	s.Questions = v.questions()
	s.Due = v.due()
	s.Findings = v.findings(s.Tasks)
	s.Measures = v.measures()
	s.Faults = slices.Concat(s.Faults, p.Faults(), p.unusableIDs(v.queue.strange))
	p.history.prune(v.shown)
	s.Locate(Base)
	s.Again = p.Patience.Again()
	return s
}

// Reads reports whether the last scan read the file (relative to the project). It returns no findings, because the
// snapshot contains them all.
func (p *Project) Reads(file string) (fields []protocol.Finding, read bool) {
	rel, inside := strings.CutPrefix(file, Base+"/")
	for i := range p.layouts {
		l := &p.layouts[i]
		read = read || rel == l.queueFile() || rel == l.boardFile() || path.Dir(rel) == l.mailDir() && l.boxes[path.Base(rel)] != nil
	}
	return nil, inside && (read || rel == pidFile)
}

// Apply carries out one change. All changes but an answer require that no orchestrator lives, because the orchestrator
// writes these files without checking for other writers. Apply compares every file with the version that was judged. If
// the same change is applied again after a crash, the resulting files are the same.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	act := p.verbs[c.Verb]
	switch {
	case act == nil:
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	case c.Subject.Kind == protocol.KindTask && !plainID(c.Subject.ID):
		return fmt.Errorf("%s: %q is not a task id", c.Verb, c.Subject.ID)
	case c.Verb == protocol.VerbAnswer:
		return p.Change(ctx, now, func() error { return act(c) })
	}
	p.Begin(now)
	if err := p.Open(); err != nil {
		return folder.Conflict(err)
	}
	if err := p.yield(); err != nil {
		return err
	}
	return folder.Conflict(p.Guarded(ctx, func() error {
		if err := p.yield(); err != nil { // the orchestrator may have started during the wait for the lock
			return err
		}
		return act(c)
	}))
}

// yield checks again whether the orchestrator lives, and returns a conflict if it does.
func (p *Project) yield() error {
	p.read()
	if why := p.orchestrator.yield(); why != "" {
		return folder.Moved("%s", why)
	}
	return nil
}
