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

// headWatch is the state of the main repository's HEAD at the last scan (protocol 002, Violation Detection).
type headWatch struct {
	known bool
	head  string
	log   jsonfile.Stamp
}

// watchWorkers checks which files the processes of living workers have open for writing, and whether the main repository's
// HEAD moved while they lived. A file found once is reported for as long as its worker is active.
func (r *reader) watchWorkers() {
	alive := slices.DeleteFunc(slices.Clone(r.workers.live), func(w *worker) bool { return len(w.session.living) == 0 })
	r.watchHead(alive)
	shared := map[string]bool{} // what the orchestrator has open, such as the log of its output: its workers inherit it
	if len(alive) > 0 && r.orchestrator.here() {
		files, _ := r.sys.opened(r.orchestrator.pid)
		for _, f := range files {
			shared[f.Path] = true
		}
	}
	left := maxProcs
	for _, w := range alive {
		for _, row := range w.session.living {
			if left--; left < 0 {
				return
			}
			files, _ := r.sys.opened(row.PID)
			for _, f := range files {
				// Standard streams and files opened for appending, such as logs, were inherited from a parent that may be gone.
				if f.FD > 2 && !f.Append && !shared[f.Path] && isOutside(r.real, w, f.Path) {
					w.addOutside(f.Path, row.PID)
				}
			}
		}
	}
}

func (w *worker) addOutside(file string, pid int) {
	if w.outside == nil {
		w.outside = map[string]int{}
	}
	if len(w.outside) < maxPaths || w.outside[file] != 0 {
		w.outside[file] = pid
	}
}

// isOutside reports whether a worker must not write that file: the file lies in the project but outside the worker's own
// folder. Files that the program's own shell writes for the agent are allowed: the kanban under its lock, the logs, git's
// shared store (a worktree's commits go there), and the plan of a planning run.
func isOutside(project string, w *worker, file string) bool {
	rel, ok := strings.CutPrefix(file, strings.TrimSuffix(project, "/")+"/")
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
func (r *reader) watchHead(alive []*worker) {
	now := readHead(r.dir)
	for _, w := range r.workers.live {
		w.headMoved = w.headMoved && len(w.session.living) > 0
	}
	if now.known && r.head.known && now != r.head {
		for _, w := range alive {
			w.headMoved = true
		}
	}
	r.head = now
}

// readHead knows nothing if the project is not a repository or is itself a worktree, or while git is replacing HEAD.
func readHead(dir string) headWatch {
	top, err := jsonfile.Open(dir)
	if err != nil {
		return headWatch{}
	}
	defer top.Close()
	blob, err := top.Read(".git/HEAD", maxSmall)
	if err != nil {
		return headWatch{}
	}
	h := headWatch{known: true, head: string(blob.Data)}
	if st, err := top.Stat(".git/logs/HEAD"); err == nil {
		h.log = jsonfile.Stamp{Inode: st.Inode, Size: st.Size, MtimeNs: st.MtimeNs}
	}
	return h
}

// outsideFindings reports the files that a worker wrote outside its workspace.
func outsideFindings(w *worker) (list []protocol.Finding) {
	for _, file := range sortedKeys(w.outside) {
		list = append(list, protocol.Finding{Subject: task(w.task), Code: "violation", Field: folder.Line(file, 300), Severity: protocol.High, Settle: "Reviewed",
			Text: fmt.Sprintf("process %d of %s has a file outside its workspace open for writing: %s", w.outside[file], w.name, folder.Line(file, 300))})
	}
	return list
}

// headFindings reports that the main repository's HEAD moved while workers lived.
func headFindings(live []*worker) []protocol.Finding {
	var names []string
	for _, w := range live {
		if w.headMoved {
			names = append(names, w.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []protocol.Finding{{Subject: protocol.Subject{Kind: protocol.KindProject, ID: ".git/HEAD"}, Code: "head_moved", Severity: protocol.Medium,
		Text: "the main repository's HEAD or reflog moved while these workers lived: " + strings.Join(names, ", ")}}
}
