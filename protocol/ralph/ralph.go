// Package ralph speaks protocol 002: the kanban, workers, results and logs of Chief Wiggum under .ralph.
package ralph

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	// set up; 0 means one minute. See docs/decisions.md, "A worker without a pid file has a minute (002)".
	Grace time.Duration
	// NoWatch turns off steward's own search for workspace violations (Linux only; protocol 002, Violation Detection).
	NoWatch bool
	// Violation is the reaction to a worker's proved violation: Tell, Mark or End.
	Violation string
	// Resume is the command that makes the program resume a task: its name, then its arguments. In the arguments, {task}
	// stands for the task's id and {worker} for its newest worker folder. CheckResume defines what is allowed. If Resume
	// is empty, a task that the user wants retried is marked as to be done.
	Resume []string
}

// The values of Options.Violation (protocol 002, On Violation). With Tell a person decides.
const (
	Tell = "tell" // a finding
	Mark = "mark" // also violation_status.txt, a line in violations.log, and [*]
	End  = "end"  // before that SIGTERM to the worker's session
)

// Project is one project's adapter: a reader that turns files and processes into values, and a writer that carries out
// changes. It is used by one goroutine at a time.
type Project struct {
	*reader
	write   *writer
	changed bool // Apply changed something: the next scan is a full scan
}

var _ protocol.Adapter = (*Project)(nil)

// New returns the adapter for the project at dir (absolute). It reads nothing yet.
func New(dir string, opts Options) *Project {
	r := newReader(dir, opts)
	return &Project{reader: r, write: newWriter(r)}
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
	if len(p.boundary.watched) > 0 {
		dirs = append(dirs, ".", ".git") // the top of the main work tree, which is compared while workers live
	}
	for _, w := range p.workers.live {
		if len(dirs) < maxWatched {
			dirs = append(dirs, path.Join(Base, w.dir()), path.Join(Base, w.dir(), resultsDir))
		}
	}
	return dirs
}

// Observe returns what the files and the process table show now. A scan by hints reads again only the hinted workers and
// the active ones.
func (p *Project) Observe(ctx context.Context, order protocol.ScanOrder) protocol.Snapshot {
	s, there := p.Scan(ctx, order)
	if !there {
		return s
	}
	full := order.Full() || p.changed || slices.Contains(order.Hints, Base) || slices.Contains(order.Hints, path.Join(Base, workersDir))
	p.changed = false
	p.read(full, order.Hints)
	p.judge()
	if !p.opts.NoWatch {
		p.watchWorkers(ctx)
	}
	p.resuming = p.write.resumes.underWay()
	v := p.view()
	verdicts := v.judgeTasks()
	s.Tasks = v.tasks(verdicts)
	s.Agents = v.agents(verdicts)
	s.Findings = v.findings(verdicts)
	s.Locks = p.locks()
	s.Faults = append(s.Faults, p.faults()...)
	s.Locate(Base)
	s.Findings = append(s.Findings, p.write.resumes.findings()...)
	s.Again = p.Patience.Again()
	return s
}

// Reads reports whether the last scan read the file (relative to the project), and what a step's result in it says. Only a
// worker's newest files count, and only while its task is open or ended recently.
func (p *Project) Reads(file string) (fields []protocol.Finding, read bool) {
	rel, inside := strings.CutPrefix(file, Base+"/")
	if !inside {
		return nil, false
	}
	for _, w := range p.workers.live {
		below, mine := strings.CutPrefix(rel, w.dir()+"/")
		if !mine {
			continue
		}
		for name, s := range w.results {
			if below == path.Join(resultsDir, s.file) {
				for _, f := range stepFindings(w, s, name, p.Since) {
					f.Path = file
					fields = append(fields, f)
				}
				return fields, true
			}
		}
		read = read || rel == w.checkpoint.file || rel == w.blocked.file || below == resumeFile || below == violationFile || slices.Contains(pidFiles[:], below)
	}
	return nil, read || rel == kanbanFile
}

// Apply carries out one change. It writes the kanban only under the kanban's own lock, and changes one byte of it.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	act, kind := p.write.verbs[c.Verb], protocol.KindTask
	if c.Verb == protocol.VerbReap {
		kind = protocol.KindAgent
	}
	_, _, _, noWorker := workerName(c.Subject.ID)
	switch {
	case act == nil:
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	case c.Verb == protocol.VerbAnswer && c.Subject.Kind != kind:
		return fmt.Errorf("%s %s: %w", c.Verb, c.Subject, protocol.ErrUnsupported)
	case kind == protocol.KindAgent && (c.Subject.Kind != kind || noWorker != nil):
		return fmt.Errorf("%s: %q is not a worker", c.Verb, c.Subject.ID)
	case kind == protocol.KindTask && (c.Subject.Kind != kind || !isTaskID(c.Subject.ID)):
		return fmt.Errorf("%s: %q is not a task id", c.Verb, c.Subject.ID)
	}
	return p.Change(ctx, now, func() error {
		p.changed = true // the next scan sees the change even without a hint
		return act(ctx, c)
	})
}

// emptyKanban is a kanban without tasks. The program's own check requires the heading in capitals.
const emptyKanban = "# Kanban\n\n## TASKS\n"

// Prepare creates the folders of the document's layout, and an empty kanban if none exists. It changes neither an
// existing kanban nor any other file. Booting twice changes nothing.
func (p *Project) Prepare(ctx context.Context, b protocol.Boot) error {
	if !jsonfile.PlainName(b.Agent) {
		return fmt.Errorf("boot: %q is not a valid agent name: it cannot be used as a file name", b.Agent)
	}
	return p.Boot(ctx, b.Now, p.makeFiles)
}

func (p *Project) makeFiles() error {
	for _, dir := range []string{workersDir, logsDir, orchestratorDir} {
		if err := p.Root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if _, err := p.Root.Stat(kanbanFile); !folder.Missing(err) {
		return err
	}
	if err := p.Root.Create(kanbanFile, []byte(emptyKanban), 0o644); !errors.Is(err, jsonfile.ErrExist) {
		return err
	}
	return nil
}
