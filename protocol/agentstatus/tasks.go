package agentstatus

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// taskTable is what was read of the tasks.
type taskTable struct {
	*statusFiles
	attempts *attempts
	log      *sharedLog
	project  string

	open    map[string]*entry
	settled map[string]*settled
	odd     map[string]protocol.Fault // names that cannot be file names
	dirty   map[string]bool           // tasks that Apply has changed since the last scan
}

func (t *taskTable) forget() {
	*t = taskTable{statusFiles: t.statusFiles, attempts: t.attempts, log: t.log, project: t.project, open: map[string]*entry{}, settled: map[string]*settled{},
		dirty: map[string]bool{}}
}

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

// fresh rereads a task's files now, whether or not their folders seem unchanged.
func (t *taskTable) fresh(id string) *entry {
	t.Expect(tasksDir, archiveDir, attemptsDir, claimsDir)
	return t.refresh(id)
}

// refresh rereads all files of a task that may have changed.
func (t *taskTable) refresh(id string) *entry {
	e := t.adopt(id)
	loadOf(t.statusFiles, &e.request, id, decodeRequest)
	loadOf(t.statusFiles, &e.held, id, decodeRequest)
	loadOf(t.statusFiles, &e.archived, id, decodeRequest)
	load(t.statusFiles, &e.notice, decodeNotice)
	before := e.result.Sum
	loadOf(t.statusFiles, &e.result, id, decodeResult)
	if e.result.Sum != before { // the request that this result answers may be newer than our read of it
		loadOf(t.statusFiles, &e.request, id, decodeRequest)
	}
	loadOf(t.statusFiles, &e.archivedResult, id, decodeResult)
	loadOf(t.statusFiles, &e.progress, id, decodeProgress)
	loadOf(t.statusFiles, &e.claim, id, decodeClaim)
	if !e.recorded || t.Changed(attemptsDir) {
		e.record = t.attempts.read(id, &e.record)
		e.recorded = len(e.record.unread) == 0
	}
	e.stray, e.strayDue = t.attempts.strays(e)
	t.attempts.compareFirst(e)
	if !e.exists() {
		t.attempts.forgetUnread(&e.record, nil)
		delete(t.open, id)
		return e
	}
	t.checkArtifacts(e)
	return e
}

// adopt returns the task's entry, and makes it if none exists.
func (t *taskTable) adopt(id string) *entry {
	e := t.open[id]
	if e == nil {
		e = newEntry(id)
		t.open[id] = e
		t.unsettle(id)
	}
	return e
}

// unsettle removes a task from the settled tasks, if it is among them. The log has its life events, or they are older than
// the history: their lines must not be written again.
func (t *taskTable) unsettle(id string) {
	if t.settled[id] != nil {
		delete(t.settled, id)
		t.log.restore(id, t.Now)
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

func (t *taskTable) inTrouble(e *entry) bool {
	if t.Patience.Calm() {
		return false
	}
	for _, f := range e.states() {
		if t.Patience.Has(f.path) {
			return true
		}
	}
	return false
}

// maxArtifacts bounds how many expected files are checked.
const maxArtifacts = 100

// checkArtifacts checks, once per completed result, whether the expected files exist. It does not judge paths outside
// the project. See docs/decisions.md, "Paths outside the project are not checked".
func (t *taskTable) checkArtifacts(e *entry) {
	o, ref := e.ended()
	if o == nil || !o.Succeeded() {
		e.checked, e.missing = "", nil
		return
	}
	if e.checked == jsonfile.Sum(ref.Sum) {
		return
	}
	e.checked, e.missing = jsonfile.Sum(ref.Sum), nil
	expected := e.asked().Value.Payload.Artifacts
	if len(expected) == 0 {
		return
	}
	top, err := jsonfile.Open(t.project)
	if err != nil {
		return
	}
	defer top.Close()
	for _, want := range expected[:min(len(expected), maxArtifacts)] {
		rel, inside := inside(t.project, want)
		if !inside {
			continue
		}
		if _, err := top.Stat(rel); folder.Missing(err) {
			e.missing = append(e.missing, want)
		}
	}
}

// inside returns a file's path relative to the project, if the file lies inside the project.
func inside(project, file string) (rel string, inside bool) {
	rel = filepath.FromSlash(file)
	if filepath.IsAbs(rel) {
		var err error
		if rel, err = filepath.Rel(project, rel); err != nil {
			return "", false
		}
	}
	rel = path.Clean(filepath.ToSlash(rel))
	return rel, rel != "." && filepath.IsLocal(filepath.FromSlash(rel)) && !strings.ContainsRune(rel, 0)
}

// block returns what blocks a request that comes after other tasks; "" if nothing does. A completed task releases the
// request. A failed task does not, because the request builds on its work. See docs/decisions.md, "A task that depends on others is a held request".
func (t *taskTable) block(id string, r *request) string {
	after := r.Coordination.After
	if len(after) > 0 && t.Has(freedFile(id)) {
		return ""
	}
	for _, id := range after {
		if !plainID(id) {
			return fmt.Sprintf("waits for task %q, which no task can be called", folder.Line(id, 80))
		}
		switch status := t.endOf(id); status {
		case "completed":
		case "":
			return "waits for task " + id
		default:
			return fmt.Sprintf("waits for task %s, which ended %s: release or cancel this one", id, folder.Line(status, 40))
		}
	}
	return ""
}

// endOf returns the status that a task ended with; "" while the task is open or being retried.
func (t *taskTable) endOf(id string) string {
	if e := t.open[id]; e != nil {
		o, _ := e.ended()
		if o == nil || e.record.pending != "" {
			return ""
		}
		return o.Status
	}
	for _, file := range []string{taskFile(id, resultExt), archivedFile(id, resultExt)} {
		o, _, err := t.Root.Load(file, maxFile)
		if err == nil {
			return decodeResult(o).Status
		}
		if !errors.Is(err, jsonfile.ErrNotExist) {
			return ""
		}
	}
	return ""
}
