package agentstatus

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The limits on ended tasks that stay listed.
const (
	keepEnded = 100
	keepAtAll = 10 * time.Second // every ended task stays listed long enough for a plan to see it
)

// readAll finds new tasks and refreshes the tasks that may have changed.
func (t *taskTable) readAll() {
	t.scan()
	for id := range t.open {
		t.refresh(id)
	}
}

// wide reports whether a hint names a whole folder, or a file that a hinted scan does not read.
func wide(hints []string) bool {
	return slices.ContainsFunc(hints, func(hint string) bool {
		rel, _ := strings.CutPrefix(hint, Base+"/")
		return hint == Base || rel == tasksDir || rel == archiveDir || strings.HasPrefix(rel, attemptsDir)
	})
}

// readHinted refreshes the hinted tasks, the tasks that Apply changed, and the tasks with a file that was in trouble.
func (t *taskTable) readHinted(hints []string) {
	done := maps.Clone(t.dirty)
	for id := range t.dirty {
		t.revisit(id)
	}
	for _, hint := range hints {
		dir, name := path.Split(hint)
		id, _, ok := parseTaskFile(name)
		switch path.Clean(dir) {
		case Base + "/" + tasksDir, Base + "/" + archiveDir:
		case Base + "/" + claimsDir:
			id, ok = strings.CutSuffix(name, ".json")
		default:
			ok = false
		}
		if ok && plainID(id) && !done[id] {
			done[id] = true
			t.revisit(id)
		}
	}
	for id, e := range t.open {
		if !done[id] && t.inTrouble(e) {
			t.refresh(id)
		}
	}
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
