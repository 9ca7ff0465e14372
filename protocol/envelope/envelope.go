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

// Steward's own folders and files.
const (
	own      = ".agents/steward"
	holdsDir = own + "/holds"
	auditLog = own + "/audit.jsonl"
)

// maxFile bounds the size of one message. A larger file is a Fault.
const maxFile = 8 << 20

// Options are the settings of one project's adapter.
type Options struct {
	Guard folder.Guard // may be nil
	// Messages is the folder with one message per file. Log is the file with one message per line. Both are relative
	// to the project and use slashes. The document names no location for either.
	Messages, Log string
	// Acknowledge is how long an assignment may go without a TASK_ACKNOWLEDGMENT; 0 means no limit.
	Acknowledge time.Duration
	// Clarify is how long other agents have to answer a clarification. Escalate is how long they have to resolve a
	// blocker that is not addressed to a human. After that the operator is asked.
	Clarify, Escalate time.Duration
	// CallsPerDay is how many escalations to a human a day the project's own rules accept; 0 means no limit.
	CallsPerDay int
	// Deployers are the agents whose tasks are all deployments.
	Deployers []string
}

// Project is one project's adapter. Only one goroutine may use it at a time.
type Project struct {
	*folder.Folder
	opts    Options
	shelf   messageFiles
	journal journal
	audit   audit
	looked  bool // the first scan is done: steward sees every later message arrive
	book
}

var _ protocol.Adapter = (*Project)(nil)

// New returns the adapter for the project at dir (absolute). It reads nothing yet.
func New(dir string, opts Options) *Project {
	opts.Messages, opts.Log = path.Clean(opts.Messages), path.Clean(opts.Log)
	p := &Project{opts: opts}
	p.Folder = folder.New(folder.Options{Dir: dir, Own: own, Home: homeOf(opts), Guard: opts.Guard, Sweep: []string{opts.Messages, own, holdsDir}, Forget: p.forget})
	return p
}

// homeOf returns the protocol's folder. Steward creates none of its own folders while that folder is missing.
func homeOf(opts Options) string {
	if ours := path.Dir(own); opts.Messages != ours && !strings.HasPrefix(opts.Messages, ours+"/") {
		return opts.Messages
	}
	return path.Dir(own)
}

// forget drops everything read so far, after the folder was replaced.
func (p *Project) forget() {
	p.shelf, p.journal, p.audit, p.book = newShelf(), p.newJournal(), newAudit(), newBook()
	p.looked = false
}

// Detect reports whether the project at dir has the message folder or the log (both relative to dir). A symbolic link
// in either place also counts, so that its rejection is reported as a Fault.
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

// OwnDir returns the folder for steward's own files in the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, filepath.FromSlash(own)) }

// Dirs lists the folders to watch.
func (p *Project) Dirs() []string {
	dirs := []string{p.opts.Messages, path.Dir(p.opts.Log), holdsDir}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// Prepare creates the message folder and steward's own folders (boot). It writes no message: agents write messages.
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
