// Package envelope speaks protocol 004: JSON messages between agents, one per file or one per line of a log.
package envelope

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
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
const maxFile = 1 << 20

// Options are the settings of one project's adapter.
type Options struct {
	// Guard takes the lock that all of our own processes take before they write; the returned func frees it.
	Guard func(ctx context.Context) (release func(), err error)
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
}

// Project is one project's adapter. It is used by one goroutine at a time.
type Project struct {
	dir  string
	opts Options
	root *jsonfile.Root // at the project; nil while it cannot be opened
	lost *protocol.Fault

	now, since time.Time
	swept      time.Time // when drafts that a crash left were last removed
	patience   jsonfile.Patience

	shelf   shelf
	journal journal
	audit   audit
	book
}

var _ protocol.Adapter = (*Project)(nil)

// New makes the adapter for the project at dir (absolute). Nothing is read yet.
func New(dir string, opts Options) *Project {
	if opts.Guard == nil {
		opts.Guard = func(context.Context) (func(), error) { return func() {}, nil }
	}
	opts.Messages, opts.Log = path.Clean(opts.Messages), path.Clean(opts.Log)
	p := &Project{dir: dir, opts: opts}
	p.forget()
	return p
}

// forget drops everything that was read, for a folder that was made anew.
func (p *Project) forget() {
	p.patience.Forget()
	p.shelf, p.journal, p.audit, p.book = newShelf(), journal{}, newAudit(), newBook()
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

// Close lets go of what is open.
func (p *Project) Close() {
	if p.root != nil {
		_ = p.root.Close()
		p.root = nil
	}
}

// open makes sure that the folder under the project's path is the one that is read. When the way there cannot be
// looked at just now, the folder that is open goes on serving.
func (p *Project) open() error {
	if p.root != nil && p.root.Alive() {
		p.lost = nil
		return nil
	}
	root, err := jsonfile.Open(p.dir)
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
	since := p.now
	if p.lost != nil {
		since = p.lost.Since
	}
	p.lost = &protocol.Fault{Path: ".", Since: since}
	p.lost.Problem, p.lost.Hint = jsonfile.Describe(err)
	if p.root != nil {
		return nil
	}
	return err
}

// leave closes the project and forgets what it said.
func (p *Project) leave() {
	p.Close()
	p.forget()
}

// sweepEvery is how often drafts that a crash left behind are looked for.
const sweepEvery = 10 * time.Minute

// guarded runs f while no other process of ours writes in the project.
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
		for _, dir := range []string{p.opts.Messages, own, holdsDir} {
			_, _ = p.root.Sweep(dir, p.now)
		}
	}
	return f()
}

// Prepare creates the folder of messages and steward's own (boot). It writes no message: a message is an agent's.
func (p *Project) Prepare(ctx context.Context, b protocol.Boot) error {
	p.now = b.Now
	if !plain(b.Agent) {
		return fmt.Errorf("boot: %q is no name for an agent: it cannot be used as a file name", b.Agent)
	}
	if err := p.open(); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	return p.guarded(ctx, func() error {
		if err := p.root.MkdirAll(p.opts.Messages, 0o755); err != nil {
			return fmt.Errorf("boot: %w", err)
		}
		return nil
	})
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

func isMissing(err error) bool { return errors.Is(err, jsonfile.ErrNotExist) }
