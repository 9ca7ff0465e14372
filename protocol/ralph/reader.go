package ralph

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// reader turns the project's files and processes into values. Everything that it read is lost when the folder is
// recreated.
type reader struct {
	*folder.Folder
	dir  string
	real string // dir without links, as the kernel names open files
	opts Options
	sys  system

	board        taskBoard
	workers      workers
	orchestrator orchestrator
	events       eventLog
	reported     jsonfile.Reading[[]violation]
	failures     failures
	boundary     boundary
	resuming     map[string]bool // tasks whose resume command is under way
	logs         folder.Listing
	table        *processTable
}

func newReader(dir string, opts Options) *reader {
	r := &reader{dir: dir, opts: opts, sys: machine()}
	r.Folder = folder.New(folder.Options{Dir: dir, Base: Base, Own: own, Guard: opts.Guard, Sweep: []string{".", own, answersDir}, Forget: r.forget})
	r.forget()
	return r
}

// forget discards all readings, because the folder was recreated.
func (r *reader) forget() {
	var err error
	if r.real, err = filepath.EvalSymlinks(r.dir); err != nil {
		r.real = r.dir
	}
	r.board, r.workers = taskBoard{}, workers{Folder: r.Folder, all: map[string]*worker{}}
	r.orchestrator, r.boundary, r.logs = orchestrator{}, boundary{}, folder.Listing{}
	r.events, r.failures = newEventLog(), failures{}
	r.reported = jsonfile.Reading[[]violation]{}
	r.table = &processTable{sys: &r.sys, project: r.real}
}

// read brings all readings up to date.
func (r *reader) read(full bool, hints []string) {
	r.board.read(r.Folder)
	r.workers.read(full, hints, &r.board)
	r.board.noteMissing(r.Folder, len(r.workers.all) > 0)
	if r.failures.read(r.Folder) {
		r.board.undated = true
	}
	r.board.dateEndings(r.Folder, &r.failures, &r.workers)
	r.board.choose(r.Since)
	r.workers.choose(&r.board)
	for _, w := range r.workers.live {
		w.readPIDs(r.Folder)
		w.readReports(r.Folder)
	}
	r.orchestrator.read(r.Folder)
	r.events.read(r.Folder, r.workers.all)
	readViolations(r.Folder, &r.reported)
}

// judge compares the readings with the process table. It reads the table only if some file requires it.
func (r *reader) judge() {
	r.table = &processTable{sys: &r.sys, project: r.real}
	if r.orchestrator.claimed() || slices.ContainsFunc(r.workers.live, (*worker).manned) || slices.ContainsFunc(r.board.open, func(e *entry) bool { return e.marker == working }) {
		r.table = readTable(&r.sys, r.real)
	}
	for _, w := range r.workers.live {
		w.session = r.table.judge(w)
	}
	if r.table.known && r.board.file.Good {
		r.workers.retire(&r.board)
	}
	r.orchestrator.judge(r.table)
}

// view returns what the decisions about tasks and agents are based on.
func (r *reader) view() kanbanView { return kanbanView{r} }

// faults lists the files that cannot be used, by path.
func (r *reader) faults() []protocol.Fault {
	list := r.Faults()
	if r.board.fault != nil {
		list = append(list, *r.board.fault)
		slices.SortStableFunc(list, func(a, b protocol.Fault) int { return strings.Compare(a.Path, b.Path) })
	}
	return list
}
