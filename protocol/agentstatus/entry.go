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

// entry is what is known of one task that is open or ended recently.
type entry struct {
	id    string
	files taskFiles
	agent string // canonical name of its target, set by Project.task

	request, held, archived jsonfile.Reading[request]
	notice                  jsonfile.Reading[protocol.Hold]
	result, archivedResult  jsonfile.Reading[outcome]
	progress                jsonfile.Reading[progress]
	claim                   jsonfile.Reading[Claim]
	record                  record
	recorded                bool // record was read completely

	// overruled: the present result differs from the first result, which stands and is to be restored.
	overruled bool
	// stray: the result in codex_tasks belongs to an earlier attempt; it is filed from strayDue on.
	stray    bool
	strayDue time.Time

	closed  bool         // completed and settled: only a change of its folders makes it worth rereading
	checked jsonfile.Sum // the result whose artifacts were checked
	missing []string
}

// taskFiles holds the paths of a task's files, built once.
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

// refresh rereads all files of a task that may have changed.
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
	if e.result.Sum != before { // the request that this result answers may be newer than our read of it
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

// asked returns the request, wherever it lies, with its path and checksum.
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

// created is when the task was requested. A time without a zone is resolved by the write time of the request's file.
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

// ended returns the result that counts, and where it lies.
func (e *entry) ended() (*outcome, protocol.Ref) {
	o, ref := e.present()
	if e.overruled {
		o, ref.Sum = &e.record.first.outcome, string(e.record.first.sum)
	}
	return o, ref
}

// present returns the result that lies in the task's place, whether or not it is the first result.
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

// late reports whether the result in codex_tasks came after the task had ended and been archived.
func (e *entry) late() bool {
	return e.result.There && e.archivedResult.There && e.archived.There && !e.request.There && !e.held.There
}

// asksAnew reports whether a request lies beside an archived pair: the orchestrator reuses the id, and the archived
// result ends the older request. A retry of the archived pair that a crash interrupted looks the same except for its
// schedule.
func (e *entry) asksAnew() bool {
	return (e.request.There || e.held.There) && e.archived.There && e.record.pending != e.archivedResult.Sum
}

// over reports when the task ended; ok is false while the task is open or steward still has work to do for it.
func (e *entry) over() (at time.Time, ok bool) {
	o, ref := e.ended()
	if o == nil || e.held.There || e.notice.There || e.late() || e.overruled {
		return time.Time{}, false
	}
	if k := e.record.last(); k != nil && !k.Committed && !o.Succeeded() {
		return time.Time{}, false // its retry is scheduled and not carried out yet
	}
	if ref.Path == e.files.result {
		return e.result.Stamp.ModTime(), true
	}
	return e.archivedResult.Stamp.ModTime(), true
}

// maxArtifacts bounds how many expected files are checked.
const maxArtifacts = 100

// checkArtifacts checks, once per completed result, whether the expected files exist. It does not judge paths outside
// the project.
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

// inProject returns a file's path relative to the project, if the file lies inside the project.
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
