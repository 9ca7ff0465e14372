package ralph

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// system holds the adapter's calls to the operating system.
type system struct {
	table   func() ([]proc.Process, error)
	cwd     func(pid int) (string, error)
	command func(pid int) ([]string, error)
	environ func(pid int) ([]string, error)
	opened  func(pid int) ([]proc.OpenFile, error)
	holders func(path string) ([]proc.Identity, error)
	started func(proc.Identity) (time.Time, error)
	signal  func(id proc.Identity, sig string) error
	check   func(proc.Identity) proc.State
}

func machine() system {
	return system{proc.Table, proc.Cwd, proc.Command, proc.Environ, proc.Opened, proc.FlockHolders, proc.Started, proc.Signal, proc.Check}
}

// gone reports whether an identity's process is proved to have ended.
func (sys *system) gone(id protocol.Identity) bool { return sys.check(proc.Identity(id)) == proc.Gone }

// processTable is the process table of one scan.
type processTable struct {
	sys     *system
	project string // without links
	known   bool   // the table could be read
	byPID   map[int]proc.Process
	session map[int][]proc.Process // living processes by session
	cwds    map[int]string
	mine    []proc.Process // living processes of this user
}

// readTable reads the process table once.
func readTable(sys *system, project string) *processTable {
	t := &processTable{sys: sys, project: project, byPID: map[int]proc.Process{}, session: map[int][]proc.Process{}, cwds: map[int]string{}}
	all, err := sys.table()
	t.known = err == nil
	for _, row := range all {
		t.byPID[row.PID] = row
		if !row.Zombie {
			t.session[row.Session] = append(t.session[row.Session], row)
			if row.UID == os.Getuid() || os.Getuid() == 0 {
				t.mine = append(t.mine, row)
			}
		}
	}
	return t
}

// worksIn reports whether a process's working folder lies in dir.
func (t *processTable) worksIn(dir string, pid int) bool {
	at, ok := t.cwds[pid]
	if !ok {
		at, _ = t.sys.cwd(pid)
		t.cwds[pid] = at
	}
	return at == dir || strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/")
}

func (t *processTable) home(w *worker) string {
	return filepath.Join(t.project, Base, filepath.FromSlash(w.dir()))
}

// visitor returns the pid of a living process that works inside a worker's folder, however it was started; 0 if there is
// none.
func (t *processTable) visitor(w *worker) int {
	for _, row := range t.mine {
		if row.PID != os.Getpid() && t.worksIn(t.home(w), row.PID) {
			return row.PID
		}
	}
	return 0
}

// runs reports whether a process's command line contains a word.
func (t *processTable) runs(pid int, word string) bool { return mentions(t.sys.command, pid, word) }

func mentions(list func(pid int) ([]string, error), pid int, word string) bool {
	words, err := list(pid)
	return err == nil && slices.ContainsFunc(words, func(a string) bool { return strings.Contains(a, word) })
}

// worksFor reports whether a process is proved to work for the worker: by its working folder, its command line or its
// environment, in which the program names the worker's folder to all that it starts for the worker.
func (t *processTable) worksFor(w *worker, pid int) bool {
	return t.worksIn(t.home(w), pid) || t.runs(pid, w.name) || mentions(t.sys.environ, pid, t.home(w))
}

// lateWrite is how much later than its pid file's stamp a leader may appear to have started.
const lateWrite = 2 * time.Second

// startedBy reports whether a process may have written a pid file: it must not have started after the file was written.
func (t *processTable) startedBy(id proc.Identity, written time.Time) bool {
	at, err := t.sys.started(id)
	return err != nil || !at.After(written.Add(lateWrite))
}

// describe lists processes with their pid and command; at most eight.
func (t *processTable) describe(ids []protocol.Identity, commands bool) string {
	var words []string
	for i, id := range ids {
		if i == 8 {
			words = append(words, "…")
			break
		}
		word := strconv.Itoa(id.PID)
		if argv, err := t.sys.command(id.PID); commands && err == nil && len(argv) > 0 {
			word += " (" + folder.Line(strings.Join(argv, " "), 60) + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// nameOf names a process by its command and pid.
func (t *processTable) nameOf(id proc.Identity) string {
	name := t.byPID[id.PID].Name
	if argv, err := t.sys.command(id.PID); name == "" && err == nil && len(argv) > 0 {
		name = filepath.Base(argv[0])
	}
	if name == "" {
		name = "process"
	}
	return fmt.Sprintf("%s (%d)", folder.Line(name, 40), id.PID)
}

func identities(rows []proc.Process) []protocol.Identity {
	var list []protocol.Identity
	for _, row := range rows {
		list = append(list, protocol.Identity(row.Identity))
	}
	return list
}

func others(rows []proc.Process, pid int) []proc.Process {
	return slices.DeleteFunc(slices.Clone(rows), func(r proc.Process) bool { return r.PID == pid })
}
