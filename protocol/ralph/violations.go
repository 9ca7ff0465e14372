package ralph

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

const (
	maxPaths = 64  // changes that one scan reports
	maxProcs = 256 // inspected per scan
)

// trespass is a change outside the workers' own folders while workers lived (protocol 002, Violation Detection).
type trespass struct {
	treeChange
	by  string   // the worker that did it; "" if nothing proves which
	how string   // the proof
	may []string // the workers that may have done it
}

// boundary watches what changes outside the workers' own folders while workers live.
type boundary struct {
	found   map[string]trespass // by path
	tree    *worktree           // at the last scan; nil while no worker lives
	program map[string]jsonfile.Stamp
	watched []string // the workers that lived at the last scan
	next    time.Time
	trouble error // why git gave no answer
}

// watchWorkers looks for violations. While no worker lives it costs nothing. See docs/decisions.md, "A violation is a change (002)".
func (r *reader) watchWorkers(ctx context.Context) {
	b := &r.boundary
	var alive []*worker
	now := slices.Clone(b.watched)
	for _, w := range r.workers.live {
		if len(w.session.living) > 0 {
			alive = append(alive, w)
			if !slices.Contains(now, w.name) {
				now = append(now, w.name)
			}
		}
	}
	b.forget(r.workers.live)
	if len(now) == 0 {
		return
	}
	writers := r.writers(alive)
	if changes, compared := r.changes(ctx, len(alive) > 0); compared {
		for _, c := range changes {
			t := trespass{treeChange: c, may: now}
			if t.by, t.how = writers[c.path].by, writers[c.path].how; t.by == "" {
				t.by, t.how = r.onlyOne(alive, now, changes)
			}
			b.add(t)
		}
		b.watched = b.watched[:0]
		for _, w := range alive {
			b.watched = append(b.watched, w.name)
		}
	}
	for _, name := range sortedKeys(writers) {
		b.add(writers[name])
	}
}

// add keeps a change. A proof is not replaced by a guess.
func (b *boundary) add(t trespass) {
	if b.found == nil {
		b.found = map[string]trespass{}
	}
	if old, known := b.found[t.path]; (known || len(b.found) < maxPaths) && (old.by == "" || t.by != "") {
		b.found[t.path] = t
	}
}

// forget drops the changes whose workers are not of interest any more.
func (b *boundary) forget(live []*worker) {
	for name, t := range b.found {
		if !slices.ContainsFunc(live, func(w *worker) bool { return w.name == t.by || t.by == "" && slices.Contains(t.may, w.name) }) {
			delete(b.found, name)
		}
	}
}

// changes compares the main work tree and the program's own folder with the last scan. The first scan with living workers
// only takes the state that later ones are compared with. looked is false if it is too early, or git does not answer.
func (r *reader) changes(ctx context.Context, alive bool) (list []treeChange, compared bool) {
	b := &r.boundary
	if alive && r.Now.Before(b.next) {
		return nil, false
	}
	program := r.programFiles()
	for _, name := range sortedKeys(program) {
		if was, known := b.program[name]; b.program != nil && was != program[name] {
			list = append(list, treeChange{path.Join(Base, name), map[bool]string{true: "it was changed", false: "it was created"}[known]})
		}
	}
	for name := range b.program {
		if _, there := program[name]; !there {
			list = append(list, treeChange{path.Join(Base, name), "it was removed"})
		}
	}
	tree, cost, err := (*worktree)(nil), time.Duration(0), error(nil)
	if _, gone := os.Lstat(filepath.Join(r.dir, ".git")); gone == nil {
		tree, cost, err = readWorktree(ctx, r.dir)
	}
	b.next, b.trouble = r.Now.Add(max(statusPause, statusShare*cost)), err
	if tree != nil && b.tree != nil {
		list = append(list, tree.since(b.tree)...)
		tree.keepStashes(b.tree)
	}
	switch {
	case !alive:
		*b = boundary{found: b.found}
	case tree != nil:
		b.tree, b.program = tree, program
	default:
		b.program = program // the work tree keeps its last readable state
	}
	return list, true
}

// programFiles are the files in .ralph itself that neither the program nor its workers write in their normal course.
func (r *reader) programFiles() map[string]jsonfile.Stamp {
	files := map[string]jsonfile.Stamp{}
	for _, name := range listed(r.Folder, ".").Names {
		if normal := strings.HasPrefix(name, kanbanFile) || strings.HasPrefix(name, "changelog.md") || strings.HasSuffix(name, ".lock") ||
			strings.HasSuffix(name, "-state.json") || strings.HasPrefix(name, ".") && name != ".gitignore"; normal || len(files) == maxPaths {
			continue
		}
		if st, err := r.Root.Stat(name); err == nil && st.Mode.IsRegular() {
			files[name] = st
		}
	}
	return files
}

// writers are the files outside a living worker's own folder that one of its processes has open for writing and that changed
// since the worker began.
func (r *reader) writers(alive []*worker) map[string]trespass {
	list, left := map[string]trespass{}, maxProcs
	shared := map[string]bool{} // what the orchestrator has open, such as the log of its output: its workers inherit it
	if r.orchestrator.here() && len(alive) > 0 {
		files, _ := r.sys.opened(r.orchestrator.pid)
		for _, f := range files {
			shared[f.Path] = true
		}
	}
	for _, w := range alive {
		for _, row := range w.session.living {
			if left--; left < 0 {
				return list
			}
			files, _ := r.sys.opened(row.PID)
			for _, f := range files {
				// Standard streams and files opened for appending, such as logs, were inherited from a parent that may be gone.
				rel, inside := strings.CutPrefix(f.Path, strings.TrimSuffix(r.real, "/")+"/")
				if f.FD > 2 && !f.Append && !shared[f.Path] && inside && isOutside(rel, w) && r.changedSince(f.Path, w.session.living[0]) {
					list[rel] = trespass{treeChange: treeChange{rel, "it was written"}, by: w.name, how: fmt.Sprintf("process %d has it open for writing", row.PID)}
				}
			}
		}
	}
	return list
}

// changedSince reports whether a file changed after a process began.
func (r *reader) changedSince(file string, row proc.Process) bool {
	began, err := r.sys.started(row.Identity)
	st, statErr := os.Lstat(file)
	return err == nil && statErr == nil && st.ModTime().After(began.Add(-time.Second))
}

// isOutside reports whether a worker must not write that file of the project (relative to it). Files that the program's own
// shell writes for the agent are allowed: the kanban under its lock, the logs, git's shared store (a worktree's commits go
// there), and the plan of a planning run.
func isOutside(rel string, w *worker) bool {
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

// onlyOne returns the one worker that can have made some changes: no other worker lived, its session is proved to be its
// own, and nothing shows that another program or a person works on the project.
func (r *reader) onlyOne(alive []*worker, candidates []string, changes []treeChange) (by, how string) {
	if len(candidates) != 1 || len(alive) != 1 || len(alive[0].session.proved) == 0 {
		return "", ""
	}
	moved := slices.ContainsFunc(changes, func(c treeChange) bool { return strings.HasPrefix(c.path, ".git/") })
	program := slices.ContainsFunc(changes, func(c treeChange) bool { return strings.HasPrefix(c.path, Base+"/") })
	if r.orchestrator.here() && (moved || program) || r.table.stranger(alive[0], r.orchestrator.pid) {
		return "", "" // the orchestrator pulls and resets the main work tree, and keeps files in .ralph
	}
	return alive[0].name, "no other worker lives, and no person or other program is at work here"
}

// stranger reports whether a process that is not a worker's may have changed the project: it works there, or belongs to a
// terminal or a desktop, where a person may be at work.
func (t *processTable) stranger(w *worker, orchestrator int) bool {
	return slices.ContainsFunc(t.mine, func(row proc.Process) bool {
		ours := row.PID == os.Getpid() || row.PID == orchestrator || row.Session == orchestrator && orchestrator > 0 ||
			slices.ContainsFunc(w.session.living, func(m proc.Process) bool { return m.PID == row.PID })
		return !ours && (row.Terminal || t.worksIn(t.project, row.PID) || mentions(t.sys.environ, row.PID, "DISPLAY="))
	})
}

// violationFindings tells of the changes: as a worker's violation where it is proved, else as something that one of the
// workers, or a person, may have done.
func (r *reader) violationFindings() (list []protocol.Finding) {
	for _, name := range sortedKeys(r.boundary.found) {
		t := r.boundary.found[name]
		shown := folder.Line(name, 300)
		f := protocol.Finding{Code: "violation", Field: shown, Severity: protocol.High, Settle: "Reviewed", Path: shown}
		if w := r.workers.all[t.by]; w != nil {
			f.Subject, f.Text = task(w.task), fmt.Sprintf("%s left its workspace: %s: %s; %s", w.name, shown, t.text, t.how)
		} else {
			f = protocol.Finding{Subject: protocol.Subject{Kind: protocol.KindProject, ID: shown}, Code: "outside", Severity: protocol.Medium, Path: shown,
				Text: fmt.Sprintf("%s: %s while these workers lived; it may be one of them, or a person: %s", shown, t.text, strings.Join(t.may, ", "))}
		}
		list = append(list, f)
	}
	if err := r.boundary.trouble; err != nil {
		list = append(list, protocol.Finding{Subject: protocol.Subject{Kind: protocol.KindProject, ID: ".git"}, Code: "unwatched", Severity: protocol.Low,
			Text: folder.Line("changes of the main work tree are not noticed while workers live: "+err.Error(), 300)})
	}
	return list
}

// violationOf returns the text of a worker's proved violations; "" if there are none.
func (r *reader) violationOf(w *worker) string {
	var parts []string
	for _, name := range sortedKeys(r.boundary.found) {
		if t := r.boundary.found[name]; t.by == w.name {
			parts = append(parts, folder.Line(name, 200)+": "+t.text)
		}
	}
	if word := w.violation; len(parts) == 0 && word.Good && strings.HasPrefix(word.Value, violationWord) && !r.Wait(word.Stamp.ModTime().Add(r.opts.grace())) {
		// The program has had time to mark the task itself.
		parts = append(parts, violationFile+" says "+word.Value)
	}
	return folder.Line(strings.Join(parts, "; "), 400)
}
