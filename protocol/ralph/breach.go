package ralph

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

const (
	maxPaths = 16  // reported per worker
	maxProcs = 256 // inspected per scan
)

// breaches holds the workspace violations that steward itself observed (protocol 002, Violation Detection).
type breaches struct {
	files map[string]map[string]int // by worker and path: the process that had the file open for writing
	head  repoHead
	begun bool
	moved map[string]bool // the workers alive when the main repository's HEAD moved
}

// repoHead is the state of the main repository's HEAD.
type repoHead struct {
	head string
	log  jsonfile.Stamp
}

// watchWorkers checks which files the processes of living workers have open for writing, and whether the main repository's
// HEAD moved while they lived. A file found once is reported for as long as its worker is active.
func (p *Project) watchWorkers() {
	b := &p.breach
	if p.opts.NoWatch {
		return
	}
	var alive []*worker
	for _, name := range sortedKeys(p.live) {
		if w := p.live[name]; len(w.session.living) > 0 {
			alive = append(alive, w)
		}
	}
	p.watchHead(alive)
	for name := range b.files {
		if w := p.workers[name]; w == nil || !w.active {
			delete(b.files, name)
		}
	}
	shared := p.openInChief(alive)
	left := maxProcs
	for _, w := range alive {
		for _, row := range w.session.living {
			if left--; left < 0 {
				return
			}
			for _, file := range p.writes(row.PID) {
				if !p.trespass(w, file) || shared[file] {
					continue
				}
				if b.files == nil {
					b.files = map[string]map[string]int{}
				}
				if b.files[w.name] == nil {
					b.files[w.name] = map[string]int{}
				}
				if seen := b.files[w.name]; len(seen) < maxPaths || seen[file] != 0 {
					seen[file] = row.PID
				}
			}
		}
	}
}

// writes lists the files that a process writes on purpose. It skips standard streams and files opened for appending, such
// as logs: the process inherited them from its parent, which may be gone.
func (p *Project) writes(pid int) []string {
	var paths []string
	files, _ := p.sys.opened(pid)
	for _, f := range files {
		if f.FD > 2 && !f.Append {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// openInChief lists the files that the orchestrator has open for writing, such as the log of its output. Its workers
// inherit them.
func (p *Project) openInChief(alive []*worker) map[string]bool {
	shared := map[string]bool{}
	if len(alive) > 0 && p.chief.presence == protocol.PresenceHere {
		files, _ := p.sys.opened(p.chief.pid)
		for _, f := range files {
			shared[f.Path] = true
		}
	}
	return shared
}

// trespass reports whether a worker must not write that file: the file lies in the project but outside the worker's own
// folder. Files that the program's own shell writes for the agent are allowed: the kanban under its lock, the logs, git's
// shared store (a worktree's commits go there), and the plan of a planning run.
func (p *Project) trespass(w *worker, file string) bool {
	rel, ok := strings.CutPrefix(file, strings.TrimSuffix(p.real, "/")+"/")
	if !ok {
		return false
	}
	rel = filepath.ToSlash(rel)
	if below, ok := strings.CutPrefix(rel, Base+"/"); ok {
		own := strings.HasPrefix(below, w.dir()+"/") || strings.HasPrefix(below, logsDir+"/")
		kanban := path.Dir(below) == "." && strings.HasPrefix(below, kanbanFile)
		plan := w.plan && strings.HasPrefix(below, "plans/")
		return !own && !kanban && !plan && !strings.HasSuffix(below, ".lock")
	}
	if below, ok := strings.CutPrefix(rel, ".git/"); ok {
		return slices.Contains([]string{"HEAD", "HEAD.lock", "index", "index.lock", "logs/HEAD"}, below)
	}
	return true
}

// watchHead detects that the main repository's HEAD or its reflog changed while workers lived. Each worker uses its own
// worktree, whose HEAD lies elsewhere.
func (p *Project) watchHead(alive []*worker) {
	b := &p.breach
	now, ok := p.readHead()
	for name := range b.moved {
		if w := p.workers[name]; w == nil || len(w.session.living) == 0 {
			delete(b.moved, name)
		}
	}
	if !ok {
		b.begun = false
		return
	}
	if b.begun && now != b.head {
		if b.moved == nil {
			b.moved = map[string]bool{}
		}
		for _, w := range alive {
			b.moved[w.name] = true
		}
	}
	b.head, b.begun = now, true
}

// readHead returns false if the project is not a repository or is itself a worktree, or while git is replacing HEAD.
func (p *Project) readHead() (repoHead, bool) {
	top, err := jsonfile.Open(p.dir)
	if err != nil {
		return repoHead{}, false
	}
	defer top.Close()
	blob, err := top.Read(".git/HEAD", maxSmall)
	if err != nil {
		return repoHead{}, false
	}
	h := repoHead{head: string(blob.Data)}
	if st, err := top.Stat(".git/logs/HEAD"); err == nil {
		h.log = jsonfile.Stamp{Inode: st.Inode, Size: st.Size, MtimeNs: st.MtimeNs}
	}
	return h, true
}

func (b *breaches) findings(w *worker) []protocol.Finding {
	var list []protocol.Finding
	for _, file := range sortedKeys(b.files[w.name]) {
		list = append(list, protocol.Finding{Subject: task(w.task), Code: "violation", Field: folder.Line(file, 300), Severity: protocol.High, Settle: "Reviewed",
			Text: fmt.Sprintf("process %d of %s has a file outside its workspace open for writing: %s", b.files[w.name][file], w.name, folder.Line(file, 300))})
	}
	return list
}

func (b *breaches) headFindings() []protocol.Finding {
	if len(b.moved) == 0 {
		return nil
	}
	return []protocol.Finding{{Subject: protocol.Subject{Kind: protocol.KindProject, ID: ".git/HEAD"}, Code: "head_moved", Severity: protocol.Medium,
		Text: "the main repository's HEAD or reflog moved while these workers lived: " + strings.Join(sortedKeys(b.moved), ", ")}}
}
