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
// that it attends to.
type workers struct {
	*folder.Folder
	listing  folder.KeptListing
	all      map[string]*worker
	attended map[string]*worker // young, with a pid file, or active
	live     []*worker          // the active ones, by name
	byTask   map[string]runs
	recheck  []string // retired workers to check next
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
func (ws *workers) read(full bool, hints []string, b *board) {
	ws.list()
	if full {
		for _, w := range ws.all {
			if !w.finished(b) {
				ws.scan(w)
			}
		}
		ws.recheckRetired()
		return
	}
	for _, hint := range hints {
		if rel, ok := strings.CutPrefix(hint, Base+"/"+workersDir+"/"); ok {
			name, _, _ := strings.Cut(rel, "/")
			if w := ws.all[name]; w != nil {
				ws.scan(w)
				ws.wake(w)
			}
		}
	}
	for _, w := range ws.attended {
		ws.scan(w)
	}
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
			w := &worker{name: name, task: id, epoch: epoch, plan: plan, young: true}
			ws.all[name], ws.attended[name] = w, w
		}
	}
	ws.byTask = map[string]runs{}
	for _, name := range slices.Sorted(maps.Keys(ws.all)) {
		w := ws.all[name]
		if !there[name] {
			w.stopReading(ws.Folder)
			ws.Patience.Clear(w.dir())
			delete(ws.all, name)
			delete(ws.attended, name)
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
		w.retired, w.names = false, map[string]bool{}
		for _, n := range w.listing.Names {
			if slices.Contains(relevant, n) {
				w.names[n] = true
			}
		}
		w.listing.Names = nil // save memory
	}
	ws.attend(w)
}

func (ws *workers) attend(w *worker) {
	if w.young || w.active || w.manned() {
		ws.attended[w.name] = w
	} else {
		delete(ws.attended, w.name)
	}
}

// choose selects the workers to read in detail: those with a pid file, and the newest worker of each task that is in
// progress, awaits approval, or failed recently. All others cost nothing.
func (ws *workers) choose(b *board) {
	now := map[string]*worker{}
	for name, w := range ws.attended {
		if w.manned() {
			now[name] = w
		}
	}
	for _, e := range b.listed {
		w := ws.newest(e.id)
		if w == nil || e.marker == complete || hasEnded(e.marker) && !e.news {
			continue
		}
		if ws.wake(w); w.hasPID() || e.marker == working || e.marker == approval || e.marker == failed {
			now[w.name] = w
		}
	}
	for _, w := range ws.live {
		if now[w.name] == nil {
			w.stopReading(ws.Folder)
			ws.attend(w)
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

// finished reports whether a folder need not be read: its task is over, no process is in it, and it has not changed
// recently. If its task is in progress again, choose selects it again.
func (w *worker) finished(b *board) bool {
	if w.active || w.names == nil || w.young || w.manned() {
		return false
	}
	e := b.byID[w.task]
	return w.retired || e != nil && hasEnded(e.marker)
}

// retire stops reading the workers that have nothing more to report, although their pid files stay. Their sessions were
// seen to be empty and stay so, even if the system reuses their pids. Thousands of such folders can accumulate.
func (ws *workers) retire(b *board) {
	ws.live = slices.DeleteFunc(ws.live, func(w *worker) bool {
		if !w.hasPID() || !ws.isOver(w, b) {
			return false
		}
		w.retired = true
		w.stopReading(ws.Folder)
		ws.attend(w)
		return true
	})
}

// isOver reports whether a worker's sessions are proved empty by settled files, and no task still needs the worker.
func (ws *workers) isOver(w *worker, b *board) bool {
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

// wake makes a retired worker one to attend to.
func (ws *workers) wake(w *worker) {
	if w.retired {
		w.retired = false
		ws.attend(w)
	}
}

// maxRechecked limits how many retired workers one full scan checks again.
const maxRechecked = 32

// recheckRetired checks some of the retired workers again: a worker whose pid file was rewritten is not over.
func (ws *workers) recheckRetired() {
	if len(ws.recheck) == 0 {
		for name, w := range ws.all {
			if w.retired {
				ws.recheck = append(ws.recheck, name)
			}
		}
		slices.Sort(ws.recheck)
	}
	n := min(maxRechecked, len(ws.recheck))
	for _, name := range ws.recheck[:n] {
		w := ws.all[name]
		if w == nil || !w.retired {
			continue
		}
		ws.scan(w)
		for i, file := range pidFiles {
			if st, err := ws.Root.Stat(path.Join(w.dir(), file)); w.names[file] && (err != nil || st != w.pids[i].Stamp) {
				ws.wake(w)
			}
		}
	}
	ws.recheck = ws.recheck[n:]
}
