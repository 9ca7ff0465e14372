package ralph

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// workers are the folders of workers/. There may be thousands, most of them finished, so a scan by hints reads only those
// that may be at work.
type workers struct {
	*folder.Folder
	listing folder.Listing
	all     map[string]*worker
	live    []*worker // the active ones, by name
	byTask  map[string]runs
}

// runs are the workers of one task.
type runs struct {
	newest *worker
	plans  []*worker // its planning runs
}

// newest returns a task's newest worker, planning runs aside; nil if it has none.
func (ws *workers) newest(id string) *worker { return ws.byTask[id].newest }

// read brings the folders up to date. A full scan reads all but the finished ones; any other scan reads those that are new,
// hinted, young or active.
func (ws *workers) read(full bool, hints []string, b *taskBoard) {
	ws.list()
	hinted := map[string]bool{}
	for _, hint := range hints {
		if rel, ok := strings.CutPrefix(hint, Base+"/"+workersDir+"/"); ok {
			name, _, _ := strings.Cut(rel, "/")
			hinted[name] = true
		}
	}
	for name, w := range ws.all {
		switch {
		case hinted[name]:
			ws.scan(w)
			w.retired = false
		case w.retired && full:
			ws.scan(w)
			w.retired = w.retired && !ws.rewritten(w)
		case full && !w.finished(b), w.young, w.active, w.manned():
			ws.scan(w)
		}
	}
}

// rewritten reports whether a pid file of a worker has changed in place since it was read.
func (ws *workers) rewritten(w *worker) bool {
	for i, file := range pidFiles {
		if st, err := ws.Root.Stat(path.Join(w.dir(), file)); w.names[file] && (err != nil || st != w.pids[i].Stamp) {
			return true
		}
	}
	return false
}

// list adds new folders and drops removed ones.
func (ws *workers) list() {
	if !ws.listing.Read(ws.Folder, workersDir) {
		return
	}
	there := make(map[string]bool, len(ws.listing.Names))
	for _, name := range ws.listing.Names {
		id, epoch, plan, err := workerName(name)
		if err != nil {
			continue // not a worker's folder, or a name that is unsafe in a path
		}
		there[name] = true
		if ws.all[name] == nil {
			ws.all[name] = &worker{name: name, task: id, epoch: epoch, plan: plan, young: true}
		}
	}
	ws.byTask = map[string]runs{}
	for _, name := range slices.Sorted(maps.Keys(ws.all)) {
		w := ws.all[name]
		if !there[name] {
			w.stopReading(ws.Folder)
			delete(ws.all, name)
			continue
		}
		r := ws.byTask[w.task]
		if w.plan {
			r.plans = append(r.plans, w)
		} else if r.newest == nil || w.epoch >= r.newest.epoch {
			r.newest = w
		}
		ws.byTask[w.task] = r
	}
	ws.live = slices.DeleteFunc(ws.live, func(w *worker) bool { return !w.active })
}

// youngFor is how long every scan reads a folder after its last change: its worker may still be being set up.
const youngFor = 2 * time.Minute

// scan checks which of the relevant files a worker's folder contains.
func (ws *workers) scan(w *worker) {
	changed := w.listing.Read(ws.Folder, w.dir())
	if w.listing.There {
		w.made = w.listing.Stamp.ModTime()
	}
	w.young = ws.Now.Sub(w.made) < youngFor
	if changed {
		w.retired, w.names, w.hasPID = false, map[string]bool{}, false
		for _, n := range w.listing.Names {
			if slices.Contains(relevant, n) {
				w.names[n] = true
				w.hasPID = w.hasPID || slices.Contains(pidFiles[:], n)
			}
		}
		w.listing.Names = nil // save memory
	}
}

// choose selects the workers to read in detail: those with a pid file, and the newest worker of each task that is in
// progress, awaits approval, or failed recently. All others cost nothing.
func (ws *workers) choose(b *taskBoard) {
	now := map[string]*worker{}
	for name, w := range ws.all {
		if w.manned() {
			now[name] = w
		}
	}
	for _, e := range b.listed {
		w := ws.newest(e.id)
		if w == nil || e.marker == complete || hasEnded(e.marker) && !e.news {
			continue
		}
		if w.retired = false; w.hasPID || e.marker == working || e.marker == approval || e.marker == failed {
			now[w.name] = w
		}
	}
	for _, w := range ws.live {
		if now[w.name] == nil {
			w.stopReading(ws.Folder)
		}
	}
	ws.live = ws.live[:0]
	for _, name := range sortedKeys(now) {
		w := now[name]
		if ws.live = append(ws.live, w); !w.active {
			w.active = true
			ws.scan(w)
		}
	}
}

// finished reports whether a folder that has been read need not be read again: its task is over. If the task is in progress
// again, choose selects the folder again.
func (w *worker) finished(b *taskBoard) bool {
	e := b.byID[w.task]
	return w.names != nil && e != nil && hasEnded(e.marker)
}

// retire stops reading the workers that have nothing more to report, although their pid files stay. Their sessions were
// seen to be empty and stay so, even if the system reuses their pids. Thousands of such folders can accumulate.
func (ws *workers) retire(b *taskBoard) {
	ws.live = slices.DeleteFunc(ws.live, func(w *worker) bool {
		if !w.hasPID || !ws.isOver(w, b) {
			return false
		}
		w.retired = true
		w.stopReading(ws.Folder)
		return true
	})
}

// isOver reports whether a worker's sessions are proved empty by settled files, and no task still needs the worker.
func (ws *workers) isOver(w *worker, b *taskBoard) bool {
	if w.session.presence != protocol.PresenceGone {
		return false
	}
	for i, name := range pidFiles {
		if r := &w.pids[i]; r.There != w.names[name] || !r.AtRest() {
			return false
		}
	}
	e := b.byID[w.task]
	return w.plan || ws.newest(w.task) != w || e == nil || e.marker == complete || hasEnded(e.marker) && !e.news
}
