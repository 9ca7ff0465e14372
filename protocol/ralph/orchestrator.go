package ralph

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// orchestratorName is the orchestrator's name as an agent.
const orchestratorName = "orchestrator"

// orchestrator is the process that starts and resumes workers.
type orchestrator struct {
	files    [2]jsonfile.Reading[int]
	presence protocol.Presence
	evidence string
	pid      int
	leader   protocol.Identity // zero if it is not alive
}

// orchestratorFiles are the orchestrator's pid file today and that of older installs, whose dot files lie in .ralph itself.
var orchestratorFiles = [2]string{path.Join(orchestratorDir, "orchestrator.pid"), ".orchestrator.pid"}

func (o *orchestrator) read(f *folder.Folder) {
	for i, file := range orchestratorFiles {
		readPID(f, &o.files[i], file)
	}
}

// claimed reports whether there is any pid file of the orchestrator.
func (o *orchestrator) claimed() bool { return o.files[0].There || o.files[1].There }

func (o *orchestrator) here() bool { return o.presence == protocol.PresenceHere }

// judge decides whether the orchestrator lives.
func (o *orchestrator) judge(t *processTable) {
	*o = orchestrator{files: o.files, presence: protocol.PresenceUnproved}
	for i, file := range orchestratorFiles {
		r := &o.files[i]
		switch {
		case !r.There || o.here():
			continue
		case !r.Good:
			o.evidence = file + " cannot be read"
			continue
		}
		o.pid = r.Value
		if !t.known {
			o.evidence = "the process table cannot be read here"
			continue
		}
		// A matching command line counts whatever the clocks say.
		row, there := t.byPID[o.pid]
		if there && !row.Zombie && o.pid > 1 && o.pid != os.Getpid() &&
			(t.runs(o.pid, "wiggum-run") || t.runs(o.pid, "wiggum_orchestrator") || t.startedBy(row.Identity, r.Stamp.ModTime())) {
			o.presence, o.evidence = protocol.PresenceHere, fmt.Sprintf("process %d of %s lives", o.pid, file)
			o.leader = protocol.Identity(row.Identity)
			continue
		}
		o.presence, o.evidence = protocol.PresenceGone, fmt.Sprintf("process %d of %s is gone", o.pid, file)
	}
}

// lockFiles lists the existing lock files of flock(2) (protocol 002, Lock Files).
func (r *reader) lockFiles() []string {
	var files []string
	for _, f := range []string{kanbanFile + ".lock", path.Join(orchestratorDir, "pid-ops.lock"), ".pid-ops.lock"} {
		if st, err := r.Root.Stat(f); err == nil && st.Mode.IsRegular() {
			files = append(files, f)
		}
	}
	r.logs.Read(r.Folder, logsDir)
	for _, n := range r.logs.Names {
		if strings.HasSuffix(n, ".lock") && jsonfile.PlainName(n) && len(files) < 16 {
			files = append(files, path.Join(logsDir, n))
		}
	}
	return files
}

// locks lists the processes that hold flocks now. A lock file that no process holds means nothing, however old it is: the
// document's "existence means locked" is not what its software does. locks never opens a file for locking.
func (r *reader) locks() []protocol.Lock {
	var list []protocol.Lock
	for _, file := range r.lockFiles() {
		held, err := r.sys.holders(filepath.Join(r.real, Base, filepath.FromSlash(file)))
		if err != nil {
			continue // not Linux, or the file is gone
		}
		for _, id := range held {
			if id.PID == os.Getpid() {
				continue
			}
			list = append(list, protocol.Lock{Resource: strings.TrimSuffix(file, ".lock"), Holder: r.table.nameOf(id), Process: protocol.Identity(id),
				Kernel: true, Ref: protocol.Ref{Path: path.Join(Base, file)}})
		}
	}
	return list
}
