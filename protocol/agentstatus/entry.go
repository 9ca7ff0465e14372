package agentstatus

import (
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// entry is what is known of one task that is open or ended lately.
type entry struct {
	id    string
	files taskFiles
	agent string // canonical name of its target, as of the last description

	request, held, archived jsonfile.Reading[request]
	notice                  jsonfile.Reading[protocol.Hold]
	result, archivedResult  jsonfile.Reading[outcome]
	progress                jsonfile.Reading[progress]
	claim                   jsonfile.Reading[Claim]
	record                  record
	recorded                bool // record was read once, and all of it

	// overruled: the present result is another one than the first, which stands and is to be put back.
	overruled bool
	// stray: the result in codex_tasks is of an attempt before the present one; it is filed from strayDue on.
	stray    bool
	strayDue time.Time

	closed  bool         // completed, and every file at rest: only a change of the folder is worth a look
	checked jsonfile.Sum // the result whose artifacts were looked for
	missing []string
}

// taskFiles are the paths of a task's files, put together once.
type taskFiles struct{ request, held, notice, result, progress, claim, archived, archivedResult string }

func newEntry(id string) *entry {
	return &entry{id: id, files: taskFiles{
		request: taskFile(id, requestExt), held: taskFile(id, heldExt), notice: taskFile(id, noticeExt),
		result: taskFile(id, resultExt), progress: taskFile(id, progressExt), claim: claimFile(id),
		archived: archivedFile(id, requestExt), archivedResult: archivedFile(id, resultExt)}}
}

func (f *taskFiles) all() []string {
	return []string{f.request, f.held, f.notice, f.result, f.progress, f.claim, f.archived, f.archivedResult}
}

// refresh reads all files of a task that may have changed.
func (p *Project) refresh(id string) *entry {
	e := p.tasks[id]
	if e == nil {
		e = newEntry(id)
		p.tasks[id] = e
		p.unsettle(id)
	}
	loadOf(p, &e.request, e.files.request, id, decodeRequest)
	loadOf(p, &e.held, e.files.held, id, decodeRequest)
	loadOf(p, &e.archived, e.files.archived, id, decodeRequest)
	load(p, &e.notice, e.files.notice, decodeNotice)
	before := e.result.Sum
	loadOf(p, &e.result, e.files.result, id, decodeResult)
	if e.result.Sum != before { // the request that it answers may have been written since ours was read
		loadOf(p, &e.request, e.files.request, id, decodeRequest)
	}
	loadOf(p, &e.archivedResult, e.files.archivedResult, id, decodeResult)
	loadOf(p, &e.progress, e.files.progress, id, decodeProgress)
	loadOf(p, &e.claim, e.files.claim, id, decodeClaim)
	p.readRecord(e)
	e.stray, e.strayDue = p.strays(e)
	p.recall(e)
	if !e.exists() {
		p.forgetUnread(e, nil)
		delete(p.tasks, id)
		return e
	}
	p.checkArtifacts(e)
	_, over := e.over()
	o, _ := e.ended()
	e.closed = over && o.Succeeded() && e.atRest() && e.recorded && !e.answersEarlier() && !p.inTrouble(e)
	return e
}

func (e *entry) exists() bool {
	return e.request.There || e.held.There || e.archived.There || e.result.There || e.archivedResult.There || e.notice.There
}

func (e *entry) atRest() bool {
	return e.request.AtRest() && e.result.AtRest() && e.progress.AtRest() && e.claim.AtRest() && e.archived.AtRest() && e.archivedResult.AtRest()
}

func (p *Project) inTrouble(e *entry) bool {
	if p.Patience.Calm() {
		return false
	}
	for _, file := range e.files.all() {
		if p.Patience.Has(file) {
			return true
		}
	}
	return false
}

// asked gives the request, wherever it lies, and its path and sum.
func (e *entry) asked() (*request, protocol.Ref) {
	switch {
	case e.request.Good:
		return &e.request.Value, protocol.Ref{Path: e.files.request, Sum: string(e.request.Sum)}
	case e.held.Good:
		return &e.held.Value, protocol.Ref{Path: e.files.held, Sum: string(e.held.Sum)}
	case e.archived.Good:
		return &e.archived.Value, protocol.Ref{Path: e.files.archived, Sum: string(e.archived.Sum)}
	}
	return &request{}, protocol.Ref{}
}

// created is when the task was asked for. A time without a zone counts as that of the request's file.
func (e *entry) created() time.Time {
	written := e.archived.Stamp
	switch {
	case e.request.Good:
		written = e.request.Stamp
	case e.held.Good:
		written = e.held.Stamp
	}
	r, _ := e.asked()
	return r.created.By(written.ModTime())
}

// ended gives the result that counts, and where it lies.
func (e *entry) ended() (*outcome, protocol.Ref) {
	o, ref := e.present()
	if e.overruled {
		o, ref.Sum = &e.record.first.outcome, string(e.record.first.sum)
	}
	return o, ref
}

// present gives the result that lies in the task's place, whether or not it is the first one.
func (e *entry) present() (*outcome, protocol.Ref) {
	switch {
	case e.stray:
		return nil, protocol.Ref{}
	case e.result.Good && !e.late():
		return &e.result.Value, protocol.Ref{Path: e.files.result, Sum: string(e.result.Sum)}
	case e.archivedResult.Good && !e.result.There && !e.asksAnew(), e.archivedResult.Good && e.late():
		return &e.archivedResult.Value, protocol.Ref{Path: e.files.archivedResult, Sum: string(e.archivedResult.Sum)}
	}
	return nil, protocol.Ref{}
}

// late reports whether the result in codex_tasks came after the task had ended and been moved away.
func (e *entry) late() bool {
	return e.result.There && e.archivedResult.There && e.archived.There && !e.request.There && !e.held.There
}

// asksAnew reports whether a request stands beside an archived pair: its orchestrator uses the id again, and the
// archived result ends the older request. A retry of the archived pair that a crash cut short looks the same but
// for its schedule.
func (e *entry) asksAnew() bool {
	return (e.request.There || e.held.There) && e.archived.There && e.record.pending != e.archivedResult.Sum
}

// over reports when the task ended; ok is false while it is open, or something of it is still to be done.
func (e *entry) over() (at time.Time, ok bool) {
	o, ref := e.ended()
	if o == nil || e.held.There || e.notice.There || e.late() || e.overruled {
		return time.Time{}, false
	}
	if k := e.record.last(); k != nil && !k.Committed && !o.Succeeded() {
		return time.Time{}, false // its retry stands on record and is not due yet
	}
	if ref.Path == e.files.result {
		return e.result.Stamp.ModTime(), true
	}
	return e.archivedResult.Stamp.ModTime(), true
}

// maxArtifacts bounds how many promised files are looked for.
const maxArtifacts = 100

// checkArtifacts looks once, after a completion, whether the promised files are there. Paths outside the project
// are not steward's to judge.
func (p *Project) checkArtifacts(e *entry) {
	o, ref := e.ended()
	if o == nil || !o.Succeeded() {
		e.checked, e.missing = "", nil
		return
	}
	if e.checked == jsonfile.Sum(ref.Sum) {
		return
	}
	e.checked, e.missing = jsonfile.Sum(ref.Sum), nil
	r, _ := e.asked()
	if len(r.expected) == 0 {
		return
	}
	top, err := jsonfile.Open(p.dir)
	if err != nil {
		return
	}
	defer top.Close()
	for _, want := range r.expected[:min(len(r.expected), maxArtifacts)] {
		rel, inside := p.inProject(want)
		if !inside {
			continue
		}
		if _, err := top.Stat(rel); folder.Missing(err) {
			e.missing = append(e.missing, want)
		}
	}
}

// inProject gives a file's path relative to the project, if it lies in it.
func (p *Project) inProject(file string) (rel string, inside bool) {
	rel = filepath.FromSlash(file)
	if filepath.IsAbs(rel) {
		var err error
		if rel, err = filepath.Rel(p.dir, rel); err != nil {
			return "", false
		}
	}
	rel = path.Clean(filepath.ToSlash(rel))
	return rel, rel != "." && filepath.IsLocal(filepath.FromSlash(rel)) && !strings.ContainsRune(rel, 0)
}
