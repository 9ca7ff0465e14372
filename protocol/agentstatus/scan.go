package agentstatus

import (
	"hash/maphash"
	"maps"
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
	off         bool  // the task is not, or no longer, in taskTable.settled
	logged      uint8 // the lifeEvents that the log has, a bit each
	mtime, size int64
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
	found := map[string]*settled{}
	if !t.listTasks(tasksDir, found, odd) || !t.listTasks(archiveDir, found, nil) {
		for _, s := range t.settled {
			s.seen = 0
		}
		t.listings[tasksDir], t.listings[archiveDir] = newListing(), newListing()
		t.Again(tasksDir, archiveDir)
		return
	}
	for id, s := range t.settled {
		switch {
		case s.seen == 0:
			t.unsettle(id)
		case s.seen != s.set:
			found[id] = s
		default:
			s.seen = 0
		}
	}
	t.odd = odd
	t.sort(found)
}

// listTasks goes through the names in one of the two folders, and reports whether it saw all. It ticks off the names of
// settled tasks without copying them: they may be all but a few of 100,000.
func (t *taskTable) listTasks(dir string, found map[string]*settled, odd map[string]protocol.Fault) bool {
	var drafts []string
	l := t.listings[dir]
	whole := t.Each(t.Folder, dir, func(name []byte) {
		sum := maphash.Bytes(l.seed, name)
		if known, ok := l.find(sum); ok {
			l.add(known)
			return
		}
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
		s := t.settled[string(id)]
		if s == nil {
			s = found[string(id)]
		}
		if s == nil && t.usable(string(id), dir, string(name), odd) {
			s = &settled{off: true}
			found[string(id)] = s
		}
		if s != nil {
			l.add(listedName{sum, s, kind})
		}
	})
	l.end()
	t.Litter(dir, drafts)
	return whole
}

// usable reports whether an id can be part of a file name. If it cannot, usable records a Fault, unless odd is nil.
func (t *taskTable) usable(id, dir, name string, odd map[string]protocol.Fault) bool {
	if plainID(id) {
		return true
	}
	if odd != nil {
		t.oddName(t.odd, odd, t.Shown(path.Join(dir, name)), "\""+folder.Line(id, 60)+"\" is not a task id: it cannot be used as a file name", "use a UUID")
	}
	return false
}

// sort decides which of the found tasks to read. It skips a task whose result is older than the history, unless a
// retry is scheduled, and a settled task of which only the set of files changed.
func (t *taskTable) sort(found map[string]*settled) {
	var scheduled map[string]bool
	for id, s := range found {
		if t.open[id] != nil {
			continue
		}
		st, ended := t.ending(id, s.seen)
		skip := ended && !s.off && s.endedBy(st)
		if ended && s.off && st.ModTime().Before(t.Since) {
			if scheduled == nil {
				scheduled = t.attempts.openSchedules()
			}
			skip = !scheduled[id]
		}
		if !skip {
			t.adopt(id)
			continue
		}
		*s = settled{set: s.seen, logged: anyLifeEvent, mtime: st.MtimeNs, size: st.Size}
		t.settled[id] = s
	}
}

// unsettle removes a task from the settled tasks, if it is among them, and restores what the log says about it.
func (t *taskTable) unsettle(id string) {
	if s := t.settled[id]; s != nil {
		s.off = true
		delete(t.settled, id)
		t.log.restore(id, s.logged, t.Now)
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
	t.most = max(t.most, len(t.open))
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
	// A map never shrinks, and iterating over it takes as long as its largest size demands.
	if t.most > 4*len(t.open)+keepEnded {
		t.open, t.log.tasks = shrunk(t.open), shrunk(t.log.tasks)
		t.most = len(t.open)
	}
}

// shrunk copies a map entry by entry: maps.Clone would copy the empty buckets as well.
func shrunk[V any](m map[string]V) map[string]V {
	small := make(map[string]V, len(m))
	maps.Copy(small, m)
	return small
}

func (t *taskTable) settle(e *entry) {
	st := e.archivedResult.Stamp
	if _, ref := e.ended(); ref.Path == e.result.path {
		st = e.result.Stamp
	}
	t.unsettle(e.id)
	t.settled[e.id] = &settled{set: e.set(), logged: t.log.settle(e.id), mtime: st.MtimeNs, size: st.Size}
	for _, f := range e.states() {
		t.Patience.Clear(f.path)
	}
	t.attempts.forgetUnread(&e.record, nil)
	delete(t.open, e.id)
}

// listing holds a folder's names in the order in which the last scan found them. A folder returns its names in much
// the same order each time, so a name is found near its expected position. Looking up each name in a map of 100,000
// tasks takes ten times as long.
type listing struct {
	seed maphash.Seed
	was  []listedName // the last scan
	at   int          // position of the current scan in was
	now  []listedName
}

// listedName is one file name of a settled task. Only a hash of the name is kept: with 64 bits, a secret seed and few
// comparisons, a collision is practically impossible.
type listedName struct {
	sum  uint64
	task *settled
	kind kinds
}

func newListing() *listing { return &listing{seed: maphash.MakeSeed()} }

// lookAhead is how many removed names in a row find can skip. After more, it misses the names that follow, and each
// of them is parsed and looked up.
const lookAhead = 16

// find returns what the last scan found under a name, and whether its task is still settled.
func (l *listing) find(sum uint64) (listedName, bool) {
	for i, end := l.at, min(l.at+lookAhead, len(l.was)); i < end; i++ {
		if l.was[i].sum == sum {
			l.at = i + 1
			return l.was[i], !l.was[i].task.off
		}
	}
	return listedName{}, false
}

func (l *listing) add(name listedName) {
	name.task.seen |= name.kind
	l.now = append(l.now, name)
}

// end ends a scan.
func (l *listing) end() { l.was, l.now, l.at = l.now, l.was[:0], 0 }
