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
	set         names
	seen        names // the files that the current census has found so far
	off         bool  // the task is not, or no longer, in Project.settled
	mtime, size int64
}

// endedBy reports whether the task is still ended by the same result.
func (s *settled) endedBy(st jsonfile.Stamp) bool { return s.mtime == st.MtimeNs && s.size == st.Size }

// The limits on ended tasks that stay listed.
const (
	keepEnded = 100
	keepAtAll = 10 * time.Second // every ended task stays listed long enough for a plan to see it
)

// readAll finds new tasks and refreshes the tasks that may have changed.
func (p *Project) readAll() {
	p.census()
	quiet := !p.changed[tasksDir] && !p.changed[archiveDir]
	for id, e := range p.tasks {
		if !quiet || !e.closed {
			p.refresh(id)
		}
	}
}

// census adopts the tasks whose set of files changed. It does nothing if neither task folder changed.
func (p *Project) census() {
	if !p.changed[tasksDir] && !p.changed[archiveDir] {
		return
	}
	// A task's set of files spans both folders, so list both.
	p.changed[tasksDir], p.changed[archiveDir] = true, true
	odd := map[string]protocol.Fault{}
	found := map[string]*settled{}
	if !p.callRoll(tasksDir, found, odd) || !p.callRoll(archiveDir, found, nil) {
		for _, s := range p.settled {
			s.seen = 0
		}
		p.rounds[tasksDir], p.rounds[archiveDir] = newRound(), newRound()
		delete(p.stamps, tasksDir)
		delete(p.stamps, archiveDir)
		return
	}
	for id, s := range p.settled {
		switch {
		case s.seen == 0:
			p.unsettle(id)
		case s.seen != s.set:
			found[id] = s
		default:
			s.seen = 0
		}
	}
	p.oddTasks = odd
	p.sort(found)
}

// callRoll goes through the names in one of the two folders. It ticks off the names of settled tasks without copying
// them: they may be all but a few of 100,000.
func (p *Project) callRoll(dir string, found map[string]*settled, odd map[string]protocol.Fault) (whole bool) {
	var drafts []string
	r := p.rounds[dir]
	whole = p.each(dir, func(name []byte) {
		sum := maphash.Bytes(r.seed, name)
		if t, ok := r.find(sum); ok {
			r.tick(t)
			return
		}
		id, kind, ok := parseTaskFile(name)
		if dir == archiveDir {
			kind = archivedKind(kind)
		}
		if !ok {
			if jsonfile.IsDraft(name) {
				drafts = append(drafts, string(name))
			}
			return
		}
		if kind == 0 {
			return
		}
		s := p.settled[string(id)]
		if s == nil {
			s = found[string(id)]
		}
		if s == nil && p.usable(string(id), dir, string(name), odd) {
			s = &settled{off: true}
			found[string(id)] = s
		}
		if s != nil {
			r.tick(tick{sum, s, kind})
		}
	})
	r.turn()
	p.Litter(dir, drafts)
	return whole
}

// usable reports whether an id can be part of a file name. If it cannot, usable records a Fault, unless odd is nil.
func (p *Project) usable(id, dir, name string, odd map[string]protocol.Fault) bool {
	if plainID(id) {
		return true
	}
	if odd == nil {
		return false
	}
	where := p.Shown(path.Join(dir, name))
	p.odd(p.oddTasks, odd, where, "\""+folder.Line(id, 60)+"\" is not a task id: it cannot be used as a file name", "use a UUID")
	return false
}

// sort decides which of the found tasks to read. It skips a task whose result is older than the history, unless a
// retry is scheduled, and a settled task of which only the set of files changed.
func (p *Project) sort(found map[string]*settled) {
	var scheduled map[string]bool
	for id, s := range found {
		if p.tasks[id] != nil {
			continue
		}
		st, ended := p.ending(id, s.seen)
		switch {
		case !s.off && ended && s.endedBy(st):
		case s.off && ended && st.ModTime().Before(p.Since):
			if scheduled == nil {
				scheduled = p.openSchedules()
			}
			if !scheduled[id] {
				break
			}
			fallthrough
		default:
			p.adopt(id)
			continue
		}
		*s = settled{set: s.seen, mtime: st.MtimeNs, size: st.Size}
		p.settled[id] = s
	}
}

// unsettle removes a task from the settled tasks, if it is among them.
func (p *Project) unsettle(id string) {
	if s := p.settled[id]; s != nil {
		s.off = true
		delete(p.settled, id)
	}
}

// ending finds the result that ends a task with that set of files; ok is false while there is work left for the task.
func (p *Project) ending(id string, set names) (st jsonfile.Stamp, ok bool) {
	file := ""
	switch has := func(n names) bool { return set&n != 0 }; {
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
	st, err := p.Root.Stat(file)
	return st, err == nil && st.Mode.IsRegular()
}

// adopt puts a task on the list.
func (p *Project) adopt(id string) {
	if p.tasks[id] == nil {
		p.tasks[id] = newEntry(id)
		p.unsettle(id)
	}
}

// revisit handles a hint at a task's files. For a settled task it first checks that something changed.
func (p *Project) revisit(id string) {
	if p.tasks[id] == nil {
		if old, known := p.settled[id]; known {
			set := p.setOf(id)
			st, ended := p.ending(id, set)
			if ended && old.endedBy(st) {
				old.set = set
				return
			}
		}
		p.adopt(id)
	}
	p.refresh(id)
}

func (p *Project) setOf(id string) names {
	set := names(0)
	for _, k := range &taskExts {
		if p.has(taskFile(id, k.ext)) {
			set |= k.kind
		}
		if kind := archivedKind(k.kind); kind != 0 && p.has(archivedFile(id, k.ext)) {
			set |= kind
		}
	}
	return set
}

// retire settles the tasks that ended before the history begins, and the oldest completed tasks beyond keepEnded.
func (p *Project) retire() {
	type done struct {
		e  *entry
		at time.Time
	}
	var completed []done
	p.mostTasks = max(p.mostTasks, len(p.tasks))
	for _, e := range p.tasks {
		at, ok := e.over()
		switch o, _ := e.ended(); {
		case !ok:
		case at.Before(p.Since):
			p.settle(e)
		case o.Succeeded():
			completed = append(completed, done{e, at})
		}
	}
	if len(completed) > keepEnded {
		slices.SortFunc(completed, func(a, b done) int { return a.at.Compare(b.at) })
		for _, d := range completed[:len(completed)-keepEnded] {
			if p.Now.Sub(d.at) > keepAtAll {
				p.settle(d.e)
			}
		}
	}
	// A map never shrinks, and iterating over it takes as long as its largest size demands.
	if p.mostTasks > 4*len(p.tasks)+keepEnded {
		p.tasks, p.log.tasks = shrunk(p.tasks), shrunk(p.log.tasks)
		p.mostTasks = len(p.tasks)
	}
}

// shrunk copies a map entry by entry: maps.Clone would copy the empty buckets as well.
func shrunk[V any](m map[string]V) map[string]V {
	small := make(map[string]V, len(m))
	maps.Copy(small, m)
	return small
}

func (p *Project) settle(e *entry) {
	set := names(0)
	for _, f := range []struct {
		there bool
		bit   names
	}{{e.request.There, hasRequest}, {e.result.There, hasResult}, {e.progress.There, hasProgress},
		{e.archived.There, hasArchivedRequest}, {e.archivedResult.There, hasArchivedResult}} {
		if f.there {
			set |= f.bit
		}
	}
	_, ref := e.ended()
	st := e.archivedResult.Stamp
	if ref.Path == e.files.result {
		st = e.result.Stamp
	}
	p.unsettle(e.id)
	p.settled[e.id] = &settled{set: set, mtime: st.MtimeNs, size: st.Size}
	for _, file := range e.files.all() {
		p.Patience.Clear(file)
	}
	p.forgetUnread(e, nil)
	delete(p.tasks, e.id)
	delete(p.log.tasks, e.id)
}
