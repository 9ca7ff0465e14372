package agentstatus

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// taskTable is what was read of the tasks.
type taskTable struct {
	*files
	attempts *attempts
	log      *sharedLog
	project  string

	open    map[string]*entry
	settled map[string]*settled
	odd     map[string]protocol.Fault // names that cannot be file names
	dirty   map[string]bool           // tasks that Apply has changed since the last scan
}

func (t *taskTable) forget() {
	*t = taskTable{files: t.files, attempts: t.attempts, log: t.log, project: t.project, open: map[string]*entry{}, settled: map[string]*settled{},
		dirty: map[string]bool{}}
}

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

// readHinted refreshes the hinted tasks, the tasks that Apply changed, and the tasks with a file that was in trouble
// or had not settled.
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
		if !done[id] && (!e.atRest() || t.inTrouble(e)) {
			t.refresh(id)
		}
	}
}

// fresh rereads a task's files now, whether or not their folders seem unchanged.
func (t *taskTable) fresh(id string) *entry {
	t.Expect(tasksDir, archiveDir, attemptsDir, claimsDir)
	return t.refresh(id)
}

// refresh rereads all files of a task that may have changed.
func (t *taskTable) refresh(id string) *entry {
	e := t.adopt(id)
	loadOf(t.files, &e.request, id, decodeRequest)
	loadOf(t.files, &e.held, id, decodeRequest)
	loadOf(t.files, &e.archived, id, decodeRequest)
	load(t.files, &e.notice, decodeNotice)
	before := e.result.Sum
	loadOf(t.files, &e.result, id, decodeResult)
	if e.result.Sum != before { // the request that this result answers may be newer than our read of it
		loadOf(t.files, &e.request, id, decodeRequest)
	}
	loadOf(t.files, &e.archivedResult, id, decodeResult)
	loadOf(t.files, &e.progress, id, decodeProgress)
	loadOf(t.files, &e.claim, id, decodeClaim)
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

// adopt returns the task's entry, and makes it if there is none.
func (t *taskTable) adopt(id string) *entry {
	e := t.open[id]
	if e == nil {
		e = newEntry(id)
		t.open[id] = e
		t.unsettle(id)
	}
	return e
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

// strayAfter is how long a worker may take between writing its result and removing its claim.
const strayAfter = 2 * time.Second

// strays reports whether the result in codex_tasks belongs to an earlier attempt, whose agent was taken for lost and
// woke up after a later attempt was issued. A completed result counts, whichever attempt it belongs to: the work is
// done. Any other stray result must not use up the present attempt, and is filed. The result does not name its
// attempt, so this takes evidence:
//
//   - by its own execution time the run began before the present attempt was issued; or
//   - a steward worker has claimed the present attempt and did not write the result.
//
// Without evidence the result counts for the present attempt. Each lost attempt has at most one stray result:
// otherwise a client that counts its execution time over all attempts could make a task run forever.
// See docs/decisions.md, "A failed result of a lost attempt is filed only with evidence".
func (a *attempts) strays(e *entry) (stray bool, due time.Time) {
	o, k := &e.result.Value, e.record.last()
	if !e.result.Good || o.Ours || o.Succeeded() || !e.request.Good || e.late() || k == nil || !k.Committed || !mayRunOn(*k) {
		return false, due
	}
	issued, came := appeared(e.request.Stamp), e.result.Stamp.ModTime()
	before := o.Took > 0 && came.Add(-o.Took).Before(issued.Add(-strayAfter))
	claimed := e.claim.Good && len(e.claim.Value.processes()) > 0 && e.claim.Value.At.Before(came)
	lost := 0
	for _, k := range e.record.attempts {
		if mayRunOn(k) {
			lost++
		}
	}
	if !before && !claimed || a.count(e.id, "late") >= lost {
		return false, due
	}
	if before {
		return true, due
	}
	return true, came.Add(strayAfter)
}

// mayRunOn reports whether the attempt may still be running: it was taken for lost, or it timed out.
func mayRunOn(k protocol.Attempt) bool {
	return k.Action == protocol.ActionRetry && (k.Ours || k.Twice || k.Code == "TIMEOUT")
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

// over reports whether the task has a result and was not requested again, from the file names alone.
func (f *files) over(id string) bool {
	return f.Has(taskFile(id, resultExt)) || f.Has(archivedFile(id, resultExt)) && !f.Has(taskFile(id, requestExt)) && !f.Has(taskFile(id, heldExt))
}
