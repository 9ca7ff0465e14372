// Package ralph speaks protocol 002: the kanban, workers, results and logs of Chief Wiggum under .ralph.
package ralph

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
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
	Guard folder.Guard // may be nil
	// Flock takes flock(2), exclusively, on an open file and waits for it until ctx ends. It closes the file where it fails;
	// else the returned func does, and leaves the file where it is. Without Flock nothing writes the kanban.
	Flock func(ctx context.Context, f *os.File) (release func(), err error)
	// Grace is how long work may be in hand without a worker folder or a pid file that says by whom, because its worker
	// is being set up; 0 means one minute.
	Grace time.Duration
	// NoWatch turns off steward's own search for workspace violations (Linux only; protocol 002, Violation Detection).
	NoWatch bool
	// Resume is the command that has the program resume a task: its name, then its arguments, in which {task} and {worker}
	// stand for the task's id and its newest worker's folder. CheckResume says what may be in it. Empty: a task that a human
	// wants done again is marked as to be done.
	Resume []string
}

// Project is one project's adapter. It is used by one goroutine at a time.
type Project struct {
	*folder.Folder
	dir  string
	real string // dir without links, as the kernel names open files
	opts Options
	sys  system

	folders map[string]*listing
	board   board
	workers map[string]*worker
	newest  map[string]*worker // of each task, planning runs left out
	young   map[string]*worker // folders that changed lately
	manned  map[string]*worker // folders with a pid file
	live    map[string]*worker // active ones
	quiet   quiet              // folders with a pid file that are over
	dirty   bool               // Apply changed something: the next look sees all
	chief   orchestratorState
	log     journal
	breach  breaches
	told    violationLog
	marked  failures
	shut    shut
	bare    *protocol.Fault // the kanban is missing although workers are there
	answers map[string]*jsonfile.Reading[answers]
	moment  time.Duration // how long a resume command is waited for
}

var _ protocol.Adapter = (*Project)(nil)

// New makes the adapter for the project at dir (absolute). Nothing is read yet.
func New(dir string, opts Options) *Project {
	p := &Project{dir: dir, opts: opts, sys: machine(), moment: moment}
	p.Folder = folder.New(folder.Options{Dir: dir, Base: Base, Own: own, Guard: opts.Guard, Sweep: []string{".", own, answersDir}, Forget: p.forget})
	return p
}

// forget drops everything that was read, for a folder that was made anew.
func (p *Project) forget() {
	var err error
	if p.real, err = filepath.EvalSymlinks(p.dir); err != nil {
		p.real = p.dir
	}
	p.folders = map[string]*listing{}
	p.workers, p.newest, p.young = map[string]*worker{}, map[string]*worker{}, map[string]*worker{}
	p.manned, p.live = map[string]*worker{}, map[string]*worker{}
	p.quiet, p.marked, p.bare = quiet{workers: map[string]*worker{}}, newMarks(), nil
	p.board, p.chief, p.log, p.breach, p.told = board{}, orchestratorState{}, newJournal(), breaches{}, violationLog{}
	p.answers = map[string]*jsonfile.Reading[answers]{}
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

// listing is what a folder held when it was last read.
type listing struct {
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
		f = &listing{}
		p.folders[dir] = f
	}
	st, err := p.Root.Stat(dir)
	if err == nil && f.seen && f.rest && st == f.stamp {
		return f.names, false
	}
	if err == nil && st.Mode.IsDir() {
		names, st, err = p.Root.List(dir)
	}
	if folder.Missing(err) || err == nil && !st.Mode.IsDir() {
		p.Patience.Clear(dir)
		delete(p.folders, dir)
		return nil, f.seen
	}
	if err != nil {
		p.Patience.Unreadable(dir, err) // the last good reading stands
		return f.names, false
	}
	p.Patience.Clear(dir)
	*f = listing{stamp: st, rest: st.Settled(p.Now), names: sorted(names), seen: true}
	return f.names, true
}
