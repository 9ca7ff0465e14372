// Package envelope speaks protocol 004: JSON messages between agents, one per file or one per line of a log.
package envelope

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Name is the adapter's name in config, status and metrics.
const Name = "envelope"

// The places that are steward's own.
const (
	own      = ".agents/steward"
	holdsDir = own + "/holds"
	auditLog = own + "/audit.jsonl"
)

// maxFile bounds what is read of one message. A larger one is a Fault.
const maxFile = 8 << 20

// Options are the settings of one project's adapter.
type Options struct {
	Guard folder.Guard // may be nil
	// Messages is the folder with one message per file, Log the file with one message per line; both relative to the
	// project, with slashes. The document names no place.
	Messages, Log string
	// Acknowledge is how long an assignment may go without a TASK_ACKNOWLEDGMENT; 0: for ever.
	Acknowledge time.Duration
	// Clarify is how long others have to answer a clarification, Escalate to settle a blocker that is not for a
	// human, before the human hears of it.
	Clarify, Escalate time.Duration
	// CallsPerDay is how many escalations to a human a day are no failure by the project's own measure; 0: any number.
	CallsPerDay int
	// Deployers are the agents whose every task is a deployment.
	Deployers []string
}

// Project is one project's adapter. It is used by one goroutine at a time.
type Project struct {
	*folder.Folder
	opts    Options
	shelf   messageFiles
	journal journal
	audit   audit
	looked  bool // what is new from now on appeared in our sight
	book
}

var _ protocol.Adapter = (*Project)(nil)

// New makes the adapter for the project at dir (absolute). Nothing is read yet.
func New(dir string, opts Options) *Project {
	opts.Messages, opts.Log = path.Clean(opts.Messages), path.Clean(opts.Log)
	p := &Project{opts: opts}
	p.Folder = folder.New(folder.Options{Dir: dir, Own: own, Home: homeOf(opts), Guard: opts.Guard, Sweep: []string{opts.Messages, own, holdsDir}, Forget: p.forget})
	return p
}

// homeOf is the folder without which steward makes none of its own: the protocol's.
func homeOf(opts Options) string {
	if ours := path.Dir(own); opts.Messages != ours && !strings.HasPrefix(opts.Messages, ours+"/") {
		return opts.Messages
	}
	return path.Dir(own)
}

// forget drops everything that was read, for a folder that was made anew.
func (p *Project) forget() {
	p.shelf, p.journal, p.audit, p.book = newShelf(), p.newJournal(), newAudit(), newBook()
	p.looked = false
}

// Detect reports whether the project at dir has the folder of messages or the log (both relative to it). A link in
// their place counts, so that its refusal comes to light as a Fault.
func Detect(dir, messages, log string) bool {
	root, err := jsonfile.Open(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	if st, err := root.Stat(messages); errors.Is(err, jsonfile.ErrHostile) || err == nil && st.Mode.IsDir() {
		return true
	}
	st, err := root.Stat(log)
	return errors.Is(err, jsonfile.ErrHostile) || err == nil && !st.Mode.IsDir()
}

// OwnDir is where steward keeps its own files of the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, filepath.FromSlash(own)) }

// Dirs lists the folders to watch.
func (p *Project) Dirs() []string {
	dirs := []string{p.opts.Messages, path.Dir(p.opts.Log), holdsDir}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// Prepare creates the folder of messages and steward's own (boot). It writes no message: a message is an agent's.
func (p *Project) Prepare(ctx context.Context, b protocol.Boot) error {
	p.Begin(b.Now)
	if !plain(b.Agent) {
		return fmt.Errorf("boot: %q is not a name for an agent: it cannot be used as a file name", b.Agent)
	}
	if err := p.Open(); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	if err := p.Root.MkdirAll(p.opts.Messages, 0o755); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	if err := p.Guarded(ctx, func() error { return nil }); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	return nil
}
