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

// Paths inside Base. The folder own belongs to steward.
const (
	kanbanFile      = "kanban.md"
	workersDir      = "workers"
	logsDir         = "logs"
	orchestratorDir = "orchestrator"
	own             = "steward"
)

// Limits on the bytes read from one file, and on the entries of one scan.
const (
	maxKanban  = 16 << 20
	maxFile    = 1 << 20
	maxSmall   = 64 << 10
	maxEnded   = 500 // ended tasks
	maxWatched = 64  // watched folders in all
)

// Options are the settings of one project's adapter.
type Options struct {
	Guard folder.Guard // may be nil
	// Flock takes an exclusive flock(2) on an open file and waits for it until ctx ends. On failure it closes the file; on
	// success release closes it. The file itself stays in place. If Flock is nil, the adapter does not write the kanban.
	Flock func(ctx context.Context, f *os.File) (release func(), err error)
	// Grace is how long a task may be in progress without a worker folder or a pid file, because its worker is still being
	// set up; 0 means one minute.
	Grace time.Duration
	// NoWatch turns off steward's own search for workspace violations (Linux only; protocol 002, Violation Detection).
	NoWatch bool
	// Resume is the command that makes the program resume a task: its name, then its arguments. In the arguments, {task}
	// stands for the task's id and {worker} for its newest worker folder. CheckResume defines what is allowed. If Resume
	// is empty, a task that the user wants retried is marked as to be done.
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
	newest  map[string]*worker // of each task, without planning runs
	young   map[string]*worker // folders that changed recently
	manned  map[string]*worker // folders that contain a pid file
	live    map[string]*worker // workers that every scan reads in detail
	quiet   quiet              // finished workers whose folders still contain a pid file
	dirty   bool               // Apply changed something: the next scan is a full scan
	chief   orchestratorState
	log     journal
	breach  breaches
	told    violationLog
	marked  failures
	shut    shut
	bare    *protocol.Fault // the kanban is missing although worker folders exist
	answers map[string]*jsonfile.Reading[answers]
	moment  time.Duration // how long runResume waits for the command to fail
}

var _ protocol.Adapter = (*Project)(nil)

// New returns the adapter for the project at dir (absolute). It reads nothing yet.
func New(dir string, opts Options) *Project {
	p := &Project{dir: dir, opts: opts, sys: machine(), moment: moment}
	p.Folder = folder.New(folder.Options{Dir: dir, Base: Base, Own: own, Guard: opts.Guard, Sweep: []string{".", own, answersDir}, Forget: p.forget})
	return p
}

// forget discards all readings, because the folder was recreated.
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

// OwnDir is the folder of steward's own files about the project at dir.
func OwnDir(dir string) string { return filepath.Join(dir, Base, own) }

// Dirs lists the folders to watch: the protocol's own, and those of active workers.
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

// listing is the content of a folder when it was last read.
type listing struct {
	stamp jsonfile.Stamp
	rest  bool
	names []string
	seen  bool
}

// list returns the names in a folder, sorted. An unchanged folder costs one stat. changed reports whether the folder was
// read again.
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
		p.Patience.Unreadable(dir, err) // keep the last good reading
		return f.names, false
	}
	p.Patience.Clear(dir)
	*f = listing{stamp: st, rest: st.Settled(p.Now), names: sorted(names), seen: true}
	return f.names, true
}
