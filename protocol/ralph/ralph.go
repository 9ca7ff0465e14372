// Package ralph speaks protocol 002: the kanban, workers, results and logs of Chief Wiggum under .ralph.
package ralph

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
const Name = "ralph"

// Base is the protocol's folder inside a project.
const Base = ".ralph"

// The places inside Base. What lies under own is steward's.
const (
	kanbanFile      = "kanban.md"
	workersDir      = "workers"
	logsDir         = "logs"
	orchestratorDir = "orchestrator"
	own             = "steward"
)

// Limits of what is read of one file, and of what one look shows.
const (
	maxKanban  = 16 << 20
	maxFile    = 1 << 20
	maxSmall   = 64 << 10
	maxEnded   = 500 // ended tasks
	maxWatched = 64  // folders of workers
)

// Options are the settings of one project's adapter.
type Options struct {
	// Guard takes the lock that all of our own processes take before they write; the returned func frees it.
	Guard func(ctx context.Context) (release func(), err error)
	// Flock takes flock(2), exclusively, on the file at path (absolute; it exists) and waits for it until ctx ends; the
	// returned func lets go and leaves the file where it is. Without it nothing writes the kanban.
	Flock func(ctx context.Context, path string) (release func(), err error)
	// NoWatch turns off steward's own search for workspace violations (Linux only; protocol 002, Violation Detection).
	NoWatch bool
}

// Project is one project's adapter. It is used by one goroutine at a time.
type Project struct {
	dir  string
	real string // dir without links, as the kernel names open files
	opts Options
	sys  system
	root *jsonfile.Root // at Base; nil while the folder is missing
	top  *jsonfile.Root // at the project, for the main repository's HEAD
	lost *protocol.Fault

	now, since time.Time
	patience   jsonfile.Patience

	folders map[string]*folder
	board   board
	workers map[string]*worker
	newest  map[string]*worker // of each task, planning runs left out
	young   map[string]*worker // folders that changed lately
	manned  map[string]*worker // folders with a pid file
	live    map[string]*worker // active ones
	dirty   bool               // Apply changed something: the next look sees all
	chief   chief
	log     journal
	breach  breaches
	told    violationLog
}

var _ protocol.Adapter = (*Project)(nil)

// New makes the adapter for the project at dir (absolute). Nothing is read yet.
func New(dir string, opts Options) *Project {
	if opts.Guard == nil {
		opts.Guard = func(context.Context) (func(), error) { return func() {}, nil }
	}
	p := &Project{dir: dir, opts: opts, sys: machine()}
	p.forget()
	return p
}

// forget drops everything that was read, for a folder that was made anew.
func (p *Project) forget() {
	p.patience.Forget()
	p.folders = map[string]*folder{}
	p.workers, p.newest, p.young = map[string]*worker{}, map[string]*worker{}, map[string]*worker{}
	p.manned, p.live = map[string]*worker{}, map[string]*worker{}
	p.board, p.chief, p.log, p.breach, p.told = board{}, chief{}, newJournal(), breaches{}, violationLog{}
}

// Detect reports whether the project at dir speaks protocol 002.
func Detect(dir string) bool {
	root, err := jsonfile.Open(filepath.Join(dir, Base))
	if err != nil {
		return false
	}
	defer root.Close()
	if st, err := root.Stat(kanbanFile); err == nil && st.Mode.IsRegular() {
		return true
	}
	st, err := root.Stat(workersDir)
	return err == nil && st.Mode.IsDir()
}

// OwnDir is where steward keeps its own files of the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, Base, own) }

// Dirs lists the folders to watch: the protocol's own, and those of workers that are at work.
func (p *Project) Dirs() []string {
	dirs := []string{Base}
	for _, d := range []string{workersDir, logsDir, orchestratorDir} {
		dirs = append(dirs, path.Join(Base, d))
	}
	for _, name := range sortedKeys(p.live) {
		if w := p.live[name]; len(dirs) < maxWatched {
			dirs = append(dirs, path.Join(Base, w.dir()), path.Join(Base, w.dir(), "results"))
		}
	}
	return dirs
}

// Close lets go of what is open.
func (p *Project) Close() { p.leave() }

// open makes sure that the folder under the project's path is the one that is read. When the way there cannot be
// looked at just now, the folder that is open goes on serving.
func (p *Project) open() error {
	if p.root != nil && p.root.Alive() {
		p.lost = nil
		return nil
	}
	top, root, err := openBase(p.dir)
	if err == nil {
		p.leave()
		p.top, p.root, p.lost = top, root, nil
		if p.real, err = filepath.EvalSymlinks(p.dir); err != nil {
			p.real = p.dir
		}
		return nil
	}
	if isMissing(err) || errors.Is(err, jsonfile.ErrHostile) {
		p.leave()
	}
	if isMissing(err) {
		p.lost = nil
		return err
	}
	fault := &protocol.Fault{Path: Base, Since: p.now}
	if p.lost != nil {
		fault.Since = p.lost.Since
	}
	fault.Problem, fault.Hint = jsonfile.Describe(err)
	p.lost = fault
	if p.root != nil {
		return nil
	}
	return err
}

func openBase(dir string) (top, root *jsonfile.Root, err error) {
	if top, err = jsonfile.Open(dir); err != nil {
		return nil, nil, err
	}
	if root, err = top.Sub(Base); err != nil {
		_ = top.Close()
		return nil, nil, err
	}
	return top, root, nil
}

// leave closes the folder and forgets what it said.
func (p *Project) leave() {
	if p.root != nil {
		_ = p.root.Close()
		_ = p.top.Close()
		p.root, p.top = nil, nil
	}
	p.forget()
}

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
	_, _ = p.root.Sweep(".", p.now)
	return f()
}

// conflict turns what the door to the files says into what the supervisor asks about.
func conflict(err error) error {
	for _, sign := range []error{jsonfile.ErrConflict, jsonfile.ErrNotExist, jsonfile.ErrExist, jsonfile.ErrTorn, jsonfile.ErrBad} {
		if errors.Is(err, sign) && !errors.Is(err, protocol.ErrConflict) {
			return fmt.Errorf("%w: %w", protocol.ErrConflict, err)
		}
	}
	return err
}

func isMissing(err error) bool { return errors.Is(err, os.ErrNotExist) }

// folder is a folder's last listing.
type folder struct {
	stamp jsonfile.Stamp
	rest  bool
	names []string
	seen  bool
}

// list gives the names in a folder, in order; an unchanged one costs one stat. changed reports whether the names were
// read anew.
func (p *Project) list(dir string) (names []string, changed bool) {
	f := p.folders[dir]
	if f == nil {
		f = &folder{}
		p.folders[dir] = f
	}
	st, err := p.root.Stat(dir)
	if err == nil && f.seen && f.rest && st == f.stamp {
		return f.names, false
	}
	if err == nil && st.Mode.IsDir() {
		names, st, err = p.root.List(dir)
	}
	if isMissing(err) || err == nil && !st.Mode.IsDir() {
		p.patience.Clear(dir)
		delete(p.folders, dir)
		return nil, f.seen
	}
	if err != nil {
		p.patience.Unreadable(dir, err) // the last good reading stands
		return f.names, false
	}
	p.patience.Clear(dir)
	*f = folder{stamp: st, rest: st.Settled(p.now), names: sorted(names), seen: true}
	return f.names, true
}
