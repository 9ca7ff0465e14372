package agentstatus

import (
	"path"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// settled is an ended task that is off the list. Until its files change, only its set of files and the stamp of its
// result are kept.
type settled struct {
	set         kinds
	seen        kinds // the files that the current scan has found so far
	mtime, size int64
}

func settledBy(set kinds, st jsonfile.Stamp) *settled {
	return &settled{set: set, mtime: st.MtimeNs, size: st.Size}
}

// endedBy reports whether the task is still ended by the same result.
func (s *settled) endedBy(st jsonfile.Stamp) bool { return s.mtime == st.MtimeNs && s.size == st.Size }

// The limits on ended tasks that stay listed.
const (
	keepEnded = 100
	keepAtAll = 10 * time.Second // every ended task stays listed long enough for a plan to see it
)

// scan adopts the tasks whose set of files changed. It does nothing if neither task folder changed.
func (t *taskTable) scan() {
	if !t.Changed(tasksDir) && !t.Changed(archiveDir) {
		return
	}
	// A task's set of files spans both folders, so list both.
	t.Expect(tasksDir, archiveDir)
	odd := map[string]protocol.Fault{}
	found := map[string]kinds{}
	for _, s := range t.settled {
		s.seen = 0
	}
	if !t.listTasks(tasksDir, found, odd) || !t.listTasks(archiveDir, found, odd) {
		t.Again(tasksDir, archiveDir)
		return
	}
	for id, s := range t.settled {
		if s.seen == 0 {
			t.unsettle(id)
		} else if s.seen != s.set {
			found[id] = s.seen
		}
	}
	t.odd = odd
	t.sort(found)
}

// listTasks goes through the names in one of the two folders, and reports whether it saw all. It counts the files of settled
// tasks without copying their names: they may be all but a few of 100,000.
func (t *taskTable) listTasks(dir string, found map[string]kinds, odd map[string]protocol.Fault) bool {
	var drafts []string
	whole := t.Each(t.Folder, dir, func(name []byte) {
		id, kind, ok := parseTaskFile(name)
		if !ok && jsonfile.IsDraft(name) {
			drafts = append(drafts, string(name))
		}
		if dir == archiveDir {
			kind = archivedKind(kind)
		}
		if kind == 0 {
			return
		}
		if s := t.settled[string(id)]; s != nil {
			s.seen |= kind
			return
		}
		if id := string(id); plainID(id) {
			found[id] |= kind
		} else if dir == tasksDir {
			t.oddName(t.odd, odd, t.Shown(path.Join(dir, string(name))), "\""+folder.Line(id, 60)+"\" is not a task id: it cannot be used as a file name", "use a UUID")
		}
	})
	t.Litter(dir, drafts)
	return whole
}

// sort decides which of the found tasks to read. It skips a task whose result is older than the history, unless a
// retry is scheduled, and a settled task of which only the set of files changed.
func (t *taskTable) sort(found map[string]kinds) {
	var scheduled map[string]bool
	for id, set := range found {
		if t.open[id] != nil {
			continue
		}
		st, ended := t.ending(id, set)
		old := t.settled[id]
		skip := ended && old != nil && old.endedBy(st)
		if ended && old == nil && st.ModTime().Before(t.Since) {
			if scheduled == nil {
				scheduled = t.attempts.openSchedules()
			}
			skip = !scheduled[id]
		}
		if skip {
			t.settled[id] = settledBy(set, st)
		} else {
			t.adopt(id)
		}
	}
}

// unsettle removes a task from the settled tasks, if it is among them. The log has its life events, or they are older than
// the history: their lines must not be written again.
func (t *taskTable) unsettle(id string) {
	if t.settled[id] != nil {
		delete(t.settled, id)
		t.log.restore(id, t.Now)
	}
}

// ending finds the result that ends a task with that set of files; ok is false while there is work left for the task.
func (t *taskTable) ending(id string, set kinds) (st jsonfile.Stamp, ok bool) {
	file := ""
	switch has := func(k kinds) bool { return set&k != 0 }; {
	case has(hasHeld), has(hasNotice):
	case has(hasResult):
		if late := has(hasArchivedResult) && has(hasArchivedRequest) && !has(hasRequest); !late {
			file = taskFile(id, resultExt)
		}
	case has(hasArchivedResult) && !has(hasRequest):
		file = archivedFile(id, resultExt)
	}
	if file == "" {
		return st, false
	}
	st, err := t.Root.Stat(file)
	return st, err == nil && st.Mode.IsRegular()
}

// revisit handles a hint at a task's files. For a settled task it first checks that something changed.
func (t *taskTable) revisit(id string) {
	if old := t.settled[id]; old != nil && t.open[id] == nil {
		set := t.setOf(id)
		if st, ended := t.ending(id, set); ended && old.endedBy(st) {
			old.set = set
			return
		}
		t.fresh(id) // nothing of it was read yet, and a file that was written in place does not change its folder
		return
	}
	t.refresh(id)
}

func (t *taskTable) setOf(id string) (set kinds) {
	for i := range taskExts {
		k := &taskExts[i]
		if t.Has(taskFile(id, k.ext)) {
			set |= k.kind
		}
		if kind := archivedKind(k.kind); kind != 0 && t.Has(archivedFile(id, k.ext)) {
			set |= kind
		}
	}
	return set
}

// retire settles the tasks that ended before the history begins, and the oldest completed tasks beyond keepEnded.
func (t *taskTable) retire() {
	type done struct {
		e  *entry
		at time.Time
	}
	var completed []done
	for _, e := range t.open {
		at, ok := e.over()
		switch o, _ := e.ended(); {
		case !ok:
		case at.Before(t.Since):
			t.settle(e)
		case o.Succeeded():
			completed = append(completed, done{e, at})
		}
	}
	if len(completed) > keepEnded {
		slices.SortFunc(completed, func(a, b done) int { return a.at.Compare(b.at) })
		for _, d := range completed[:len(completed)-keepEnded] {
			if t.Now.Sub(d.at) > keepAtAll {
				t.settle(d.e)
			}
		}
	}
}

func (t *taskTable) settle(e *entry) {
	st := e.archivedResult.Stamp
	if _, ref := e.ended(); ref.Path == e.result.path {
		st = e.result.Stamp
	}
	t.unsettle(e.id)
	t.settled[e.id] = settledBy(e.set(), st)
	delete(t.log.tasks, e.id)
	for _, f := range e.states() {
		t.Patience.Clear(f.path)
	}
	t.attempts.forgetUnread(&e.record, nil)
	delete(t.open, e.id)
}
