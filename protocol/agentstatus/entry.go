package agentstatus

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// entry is what is known of one task that is open or ended recently.
type entry struct {
	id    string
	agent string // canonical name of its target, set by taskOf

	request, held, archived doc[request]
	notice                  doc[protocol.Hold]
	result, archivedResult  doc[outcome]
	progress                doc[progress]
	claim                   doc[Claim]
	record                  taskRecord
	recorded                bool // record was read completely

	// overruled: the present result differs from the first result, which stands and must be restored.
	overruled bool
	// stray: the result in codex_tasks belongs to an earlier attempt; it is filed from strayDue on.
	stray    bool
	strayDue time.Time

	checked jsonfile.Sum // the result whose artifacts were checked
	missing []string
}

func newEntry(id string) *entry {
	return &entry{id: id, request: doc[request]{path: taskFile(id, requestExt)}, held: doc[request]{path: taskFile(id, heldExt)},
		archived: doc[request]{path: archivedFile(id, requestExt)}, notice: doc[protocol.Hold]{path: taskFile(id, noticeExt)},
		result: doc[outcome]{path: taskFile(id, resultExt)}, archivedResult: doc[outcome]{path: archivedFile(id, resultExt)},
		progress: doc[progress]{path: taskFile(id, progressExt)}, claim: doc[Claim]{path: claimPath(id)}}
}

// fileState is what is known of one of the task's files, whatever is in it.
type fileState struct {
	path  string
	there bool
	kind  kinds
}

func stateOf[T any](d *doc[T], kind kinds) fileState {
	return fileState{d.path, d.There, kind}
}

// states lists the task's files, whether or not they exist.
func (e *entry) states() [8]fileState {
	return [...]fileState{stateOf(&e.request, hasRequest), stateOf(&e.held, hasHeld), stateOf(&e.notice, hasNotice), stateOf(&e.result, hasResult),
		stateOf(&e.archived, hasArchivedRequest), stateOf(&e.archivedResult, hasArchivedResult), stateOf(&e.progress, hasProgress), stateOf(&e.claim, 0)}
}

// set is the set of files that exist.
func (e *entry) set() (set kinds) {
	for _, f := range e.states() {
		if f.there {
			set |= f.kind
		}
	}
	return set
}

// exists reports whether the task has a file other than its progress and claim, which do not make a task.
func (e *entry) exists() bool { return e.set()&^hasProgress != 0 }

// asked returns the request, wherever it lies; an empty one if none exists.
func (e *entry) asked() *doc[request] {
	switch {
	case e.request.Good:
		return &e.request
	case e.held.Good:
		return &e.held
	case e.archived.Good:
		return &e.archived
	}
	return &doc[request]{}
}

// created is when the task was requested. A time without a zone is resolved by the write time of the request's file.
func (e *entry) created() time.Time {
	r := e.asked()
	return r.Value.created.By(r.Stamp.ModTime())
}

// born is the earliest time that the request shows, as stated in it or as its file was last written. Unlike the time when it
// appeared, no rename changes it.
func (e *entry) born() time.Time {
	written, stated := e.asked().Stamp.ModTime(), e.created()
	if stated.IsZero() || written.Before(stated) {
		return written
	}
	return stated
}

// limit is the task's own timeout (protocol 000: 300 s by default, 3600 s at most).
func (e *entry) limit() time.Duration {
	if timeout := e.asked().Value.timeout; timeout > 0 {
		return min(timeout, time.Hour)
	}
	return 5 * time.Minute
}

// present returns the result that lies in the task's place, whether or not it is the first result; nil if none does.
func (e *entry) present() *doc[outcome] {
	switch {
	case e.stray:
	case e.result.Good && !e.late():
		return &e.result
	case e.archivedResult.Good && !e.result.There && !e.askedAgain(), e.archivedResult.Good && e.late():
		return &e.archivedResult
	}
	return nil
}

// ended returns the result that counts, and where it lies; nil while the task is open.
func (e *entry) ended() (*outcome, protocol.Ref) {
	d := e.present()
	switch {
	case e.overruled && d != nil:
		return &e.record.first.outcome, protocol.Ref{Path: d.path, Sum: string(e.record.first.sum)}
	case d != nil:
		return &d.Value, d.ref()
	}
	return nil, protocol.Ref{}
}

// late reports whether the result in codex_tasks came after the task had ended and been archived.
func (e *entry) late() bool {
	return e.result.There && e.archivedResult.There && e.archived.There && !e.request.There && !e.held.There
}

// askedAgain reports whether a request lies beside an archived pair: the orchestrator reuses the id, and the archived
// result ends the older request. A retry of the archived pair that a crash interrupted looks the same except for its
// schedule.
func (e *entry) askedAgain() bool {
	return (e.request.There || e.held.There) && e.archived.There && e.record.pending != e.archivedResult.Sum
}

// over reports when the task ended; ok is false while the task is open or steward still has work to do for it.
func (e *entry) over() (at time.Time, ok bool) {
	o, _ := e.ended()
	if o == nil || e.held.There || e.notice.There || e.late() || e.overruled {
		return time.Time{}, false
	}
	if k := e.record.last(); k != nil && !k.Committed && !o.Succeeded() {
		return time.Time{}, false // its retry is scheduled and not carried out yet
	}
	return e.present().Stamp.ModTime(), true
}

// reopened reports whether the recorded result is gone while its request is visible: a client or a user removed it so
// that the task runs again. Steward itself never removes it.
func (e *entry) reopened() bool {
	return e.record.first.there && e.request.Good && !e.result.There && !e.archivedResult.There && !e.held.There
}

// begun reports whether a progress file of this attempt was found. A progress file of an earlier attempt is older than
// the moment when the request appeared.
func (e *entry) begun() bool { return e.progress.There && e.beganBy(e.progress.Stamp) }

func (e *entry) beganBy(progress jsonfile.Stamp) bool {
	return !progress.ModTime().Before(appeared(e.request.Stamp))
}

// cancelledHalf reports whether a crash came between the record of a cancellation and the result that ends the task
// for its agent. A request that appeared after the record is a new request of the orchestrator.
func (e *entry) cancelledHalf() bool {
	o, _ := e.ended()
	return e.record.cancelled && o == nil && e.request.Good && !appeared(e.request.Stamp).After(e.record.cancelledAt)
}

// hold describes how the task is held. Half marks a state that a crash leaves between two steps and that must be
// repaired: a notice without a held request, a request beside a held request, or a cancelled task without its result.
func (e *entry) hold() *protocol.Hold {
	if !e.held.There && !e.notice.There && !e.cancelledHalf() {
		return nil
	}
	h := e.notice.Value
	if !e.notice.Good {
		h = protocol.Hold{Reason: protocol.HoldCapacity}
		if len(e.record.attempts) > 0 {
			h.Reason = protocol.HoldRetry
		}
	}
	if k := e.record.last(); k != nil && k.Committed && h.Reason == protocol.HoldRetry && !k.Due.IsZero() {
		h.NotBefore = k.Due // the record takes precedence over the notice
	}
	h.Half = !e.held.There || e.request.There || e.record.cancelled
	return &h
}

// betweenRuns reports whether the last run's result is on record and the next run is still held: a result that
// arrives now is a duplicate for that last run. The recorded result does not count if steward wrote it for a run it
// took for lost, or if it only postponed the task.
func (e *entry) betweenRuns() bool {
	k := e.record.last()
	return k != nil && k.Committed && k.Action == protocol.ActionRetry && !k.Ours &&
		e.held.There && !e.request.There && !e.claim.There && e.notice.Good && e.notice.Value.Reason == protocol.HoldRetry
}

// takeable reports whether the request is open and nothing prevents a claim.
func (e *entry) takeable() bool {
	o, _ := e.ended()
	return e.request.Good && o == nil && !e.result.There && !e.held.There && !e.claim.There && !e.begun() &&
		!e.cancelledHalf() && e.record.pending == ""
}

// compareFirst compares the present result with the recorded result and sets e.overruled.
func (a *attempts) compareFirst(e *entry) {
	e.overruled = false
	d, f := e.present(), &e.record.first
	if d == nil || !e.recordApplies() || d.Value.Ours || d.Sum == f.sum || f.damaged {
		return
	}
	if f.data == nil {
		*f = a.readFirst(e.id, true)
	}
	e.overruled = f.there && !f.damaged && !sameResult(&d.Value, &f.outcome)
}

// recordApplies reports whether the record belongs to the present request. A request written after the record is a new
// request under the same id.
func (e *entry) recordApplies() bool {
	f := &e.record.first
	if !f.there || f.damaged { // an unreadable record cannot be shown to belong to an older request
		return f.there
	}
	if e.request.Good && e.request.Stamp.ModTime().After(f.recorded) {
		return false
	}
	r := e.asked()
	return r.path == "" || f.request == "" || r.Sum == f.request
}

// sameResult reports whether two results say the same about the same run. An orchestrator that adds a key, for
// example to mark a result as read, has not written another result.
func sameResult(a, b *outcome) bool {
	return a.Status == b.Status && a.Agent == b.Agent && a.At.Equal(b.At) && a.Took == b.Took && a.Summary == b.Summary &&
		slices.Equal(a.Failures, b.Failures)
}

// unrecorded reports whether the result may be put on record as the result that stands.
func (e *entry) unrecorded(o *outcome) bool {
	return !o.Ours && !e.recordApplies() && !e.answersEarlier()
}

// answersEarlier reports whether the present result is the recorded result although a new request, with another
// creation time, was written under the same id. The answer to the new request is still to come, so the record must
// not name that request.
func (e *entry) answersEarlier() bool {
	f, d := &e.record.first, e.present()
	if !f.there || f.damaged || f.created.IsZero() || e.created().IsZero() || e.created().Equal(f.created) {
		return false
	}
	return d != nil && d.Sum == f.sum
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
