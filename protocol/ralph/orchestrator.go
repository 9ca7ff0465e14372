package ralph

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// chiefName is the orchestrator's name as an agent.
const chiefName = "orchestrator"

// orchestratorState is the orchestrator: the process that starts and resumes workers.
type orchestratorState struct {
	files    [2]jsonfile.Reading[int]
	presence protocol.Presence
	evidence string
	pid      int
	leader   protocol.Identity // zero if it is not alive
}

// chiefFiles are the orchestrator's pid file today and that of older installs, whose dot files lie in .ralph itself.
var chiefFiles = [2]string{path.Join(orchestratorDir, "orchestrator.pid"), ".orchestrator.pid"}

func (p *Project) readChief() {
	for i, file := range chiefFiles {
		p.readPID(&p.chief.files[i], file)
	}
}

// claims reports whether there is any pid file of the orchestrator.
func (c *orchestratorState) claims() bool { return c.files[0].There || c.files[1].There }

// judgeChief decides whether the orchestrator lives.
func (p *Project) judgeChief(c *processScan) {
	k := &p.chief
	k.presence, k.evidence, k.pid, k.leader = protocol.PresenceUnproved, "", 0, protocol.Identity{}
	for i := range k.files {
		r := &k.files[i]
		if !r.There || k.presence == protocol.PresenceHere {
			continue
		}
		if !r.Good {
			k.evidence = chiefFiles[i] + " cannot be read"
			continue
		}
		k.pid = r.Value
		if !c.known {
			k.evidence = "the process table cannot be read here"
			continue
		}
		row, there := c.byPID[r.Value]
		if there && !row.Zombie && r.Value > 1 && r.Value != os.Getpid() && p.mayBeChief(row, r) {
			k.presence, k.evidence = protocol.PresenceHere, fmt.Sprintf("process %d of %s lives", r.Value, chiefFiles[i])
			k.leader = protocol.Identity(row.Identity)
			continue
		}
		k.presence, k.evidence = protocol.PresenceGone, fmt.Sprintf("process %d of %s is gone", r.Value, chiefFiles[i])
	}
}

// mayBeChief reports whether a process may be the orchestrator. A matching command line counts whatever the clocks say;
// otherwise the process must not have started after the file was written.
func (p *Project) mayBeChief(row proc.Process, r *jsonfile.Reading[int]) bool {
	if argv, err := p.sys.command(row.PID); err == nil && (mentions(argv, "wiggum-run") || mentions(argv, "wiggum_orchestrator")) {
		return true
	}
	at, err := p.sys.started(row.Identity)
	return err != nil || !at.After(r.Stamp.ModTime().Add(lateWrite))
}

// agent returns the orchestrator as an agent; it is shown only if it has a pid file.
func (k *orchestratorState) agent() protocol.Agent {
	return protocol.Agent{Name: chiefName, PID: k.pid, Process: k.leader, Presence: k.presence, Evidence: k.evidence}
}

// lockFiles lists the existing lock files of flock(2) (protocol 002, Lock Files).
func (p *Project) lockFiles() []string {
	var files []string
	for _, f := range []string{kanbanFile + ".lock", path.Join(orchestratorDir, "pid-ops.lock"), ".pid-ops.lock"} {
		if st, err := p.Root.Stat(f); err == nil && st.Mode.IsRegular() {
			files = append(files, f)
		}
	}
	names, _ := p.list(logsDir)
	for _, n := range names {
		if strings.HasSuffix(n, ".lock") && jsonfile.PlainName(n) && len(files) < 16 {
			files = append(files, path.Join(logsDir, n))
		}
	}
	return files
}

// locks lists the processes that hold flocks now. A lock file that no process holds means nothing, however old it is: the
// document's "existence means locked" is not what its software does. locks never opens a file for locking.
func (p *Project) locks(c *processScan) []protocol.Lock {
	var list []protocol.Lock
	for _, file := range p.lockFiles() {
		held, err := p.sys.holders(filepath.Join(p.real, Base, filepath.FromSlash(file)))
		if err != nil {
			continue // not Linux, or the file is gone
		}
		for _, id := range held {
			if id.PID == os.Getpid() {
				continue
			}
			list = append(list, protocol.Lock{Resource: strings.TrimSuffix(file, ".lock"), Holder: p.nameOf(c, id), Process: protocol.Identity(id),
				Kernel: true, Ref: protocol.Ref{Path: path.Join(Base, file)}})
		}
	}
	return list
}

func (p *Project) nameOf(c *processScan, id proc.Identity) string {
	name := c.byPID[id.PID].Name
	if argv, err := p.sys.command(id.PID); name == "" && err == nil && len(argv) > 0 {
		name = filepath.Base(argv[0])
	}
	if name == "" {
		name = "process"
	}
	return fmt.Sprintf("%s (%d)", folder.Line(name, 40), id.PID)
}
