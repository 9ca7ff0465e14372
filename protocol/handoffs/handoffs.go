// Package handoffs speaks protocol 001: handoff messages and the shared state file under .claude.
package handoffs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/livhana/steward/protocol"
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
)

// maxFile bounds what is read of one file. A larger one is a Fault.
const maxFile = 1 << 20

// Options are the settings of one project's adapter.
type Options struct {
	// Guard takes the lock that all of our own processes take before they write; the returned func frees it. May be nil.
	Guard func(ctx context.Context) (release func(), err error)
}

// Project is one project's adapter. It is used by one goroutine at a time.
type Project struct {
	dir  string
	opts Options
	root *jsonfile.Root // at Base; nil while the folder is missing
	lost *protocol.Fault

	now, since time.Time
	began      time.Time // the first look at this folder; zero before it
	swept      time.Time // when drafts that a crash left were last removed

	patience jsonfile.Patience
	state    jsonfile.Reading[state]
	claimed  bool // an unreadable state file shows words of ours
	boxes
	ledger *ledger.Ledger
	log    record
	tombs  tombs
	story  story
	stands map[string]time.Time // since when a condition holds that must stand for a while
	lates  []*lateEdit
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
	p.patience.Forget()
	p.state, p.claimed, p.began = jsonfile.Reading[state]{}, false, time.Time{}
	p.boxes, p.ledger = newBoxes(), ledger.New(attemptsDir)
	p.log, p.tombs, p.story = newRecord(), newTombs(), newStory()
	p.stands = map[string]time.Time{}
	p.dropLates()
}

// OwnDir is where steward keeps its own files of the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, Base, own) }

// Detect reports whether the project at dir speaks protocol 001: there is a folder for handoffs, or a state file with
// locks or agents. A link in the folder's place counts, so that its refusal comes to light as a Fault.
func Detect(dir string) bool {
	root, err := openBase(dir)
	if errors.Is(err, jsonfile.ErrHostile) {
		at, err := os.Stat(filepath.Join(dir, Base, boxDir))
		return err == nil && at.IsDir()
	}
	if err != nil {
		return false
	}
	defer root.Close()
	st, err := root.Stat(boxDir)
	if err == nil && st.Mode.IsDir() {
		return true
	}
	if errors.Is(err, jsonfile.ErrHostile) {
		if at, err := os.Stat(filepath.Join(dir, Base, boxDir)); err == nil && at.IsDir() {
			return true
		}
	}
	o, _, err := root.Load(stateFile, maxFile)
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

// Close lets go of what is open, after a last look at state files that were replaced a moment ago.
func (p *Project) Close() {
	if p.root != nil {
		p.mergeLate(context.Background())
		p.dropLates()
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
	f := protocol.Fault{Path: Base, Since: p.now}
	if p.lost != nil {
		f.Since = p.lost.Since
	}
	f.Problem, f.Hint = jsonfile.Describe(err)
	p.lost = &f
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
		p.dropLates()
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
		for _, dir := range []string{".", boxDir, own, attemptsDir} {
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
