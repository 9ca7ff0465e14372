package agentstatus

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// firstResult is the first terminal result of a task that was judged, as stored in <id>.final.json. A later,
// different result does not replace it: steward files the later result and writes the recorded bytes back (protocol
// 000, Retry).
type firstResult struct {
	there    bool
	damaged  bool         // the record cannot be read: no result of this task is retried
	passing  bool         // the record may become readable in a moment
	request  jsonfile.Sum // checksum of the request that it answers; "" if there was none
	created  time.Time    // when that request was created; zero if unknown
	sum      jsonfile.Sum
	recorded time.Time // mtime of the record; at is the time stated inside
	at       time.Time
	data     []byte  // set only while a later result lies in its place
	outcome  outcome // of data
}

// finalFile returns the path of the record. The record contains a copy of the result, because a client that writes in
// place leaves nothing of the first result. See docs/decisions.md, "The first judged result is copied".
func finalFile(id string) string { return attemptsDir + "/" + id + ".final.json" }

// maxFinal bounds the record, which contains the result in base64.
const maxFinal = 2 * maxFile

type finalOnDisk struct {
	Version  int       `json:"version"`
	TaskID   string    `json:"task_id"`
	Status   string    `json:"status"` // for human readers; the result has it too
	Recorded time.Time `json:"recorded_at"`
	Request  string    `json:"request_sum,omitempty"`
	Created  time.Time `json:"request_created_at,omitzero"`
	Sum      string    `json:"result_sum"`
	Result   string    `json:"result_base64"`
}

// readFirst reads the record of the first result. If whole is set, it also decodes the result.
func (a *attempts) readFirst(id string, whole bool) (f firstResult) {
	file := finalFile(id)
	o, blob, err := a.Root.Load(file, maxFinal)
	if folder.Missing(err) {
		a.Patience.Clear(file)
		return f
	}
	f.there = true
	read := err == nil
	if read {
		err = o.Newer(recordVersion)
	}
	if err == nil {
		f.sum, f.request = jsonfile.Sum(text(o, "result_sum")), jsonfile.Sum(text(o, "request_sum"))
		f.at, _ = o.Time("recorded_at")
		f.created, _ = o.Time("request_created_at")
		f.recorded = blob.Stamp.ModTime()
		if f.sum == "" {
			err = fmt.Errorf("read %s: it has no result_sum", file)
		}
	}
	if err == nil && whole {
		err = f.decode(o)
	}
	if err != nil {
		a.Patience.Unreadable(file, err)
		f.damaged, f.passing = true, !read && a.Patience.Passing(file)
		return f
	}
	a.Patience.Clear(file)
	return f
}

func (f *firstResult) decode(record jsonfile.Object) error {
	data, err := base64.StdEncoding.DecodeString(text(record, "result_base64"))
	if err == nil && jsonfile.SumOf(data) != f.sum {
		err = errors.New("the result on record is not the one that its sum names")
	}
	if err != nil {
		return err
	}
	o, err := jsonfile.Parse(data)
	if err != nil {
		return err
	}
	f.data, f.outcome = data, decodeResult(o)
	return nil
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

// record puts the judged result on record (VerbRecord). If the change is about the request, record instead archives
// the record of a task whose result was removed so that the task runs again.
func record(s *state, c protocol.Change) error {
	e := s.tasks.fresh(c.Subject.ID)
	if c.Ref.Path == e.request.path {
		if !e.reopened() {
			return folder.Moved("it has a result by now")
		}
		return s.attempts.dropFirst(e)
	}
	if o, ref := e.ended(); o == nil || ref.Sum != c.Ref.Sum {
		return folder.Moved("the result is not the one that was judged")
	}
	return s.attempts.recordFirst(e, c)
}

// recordFirst writes the record, once, as the answer to the judged request.
func (a *attempts) recordFirst(e *entry, c protocol.Change) error {
	o, ref := e.ended()
	if o == nil || !e.unrecorded(o) {
		return nil
	}
	if err := a.dropFirst(e); err != nil { // of an older request
		return err
	}
	blob, err := a.unchanged(ref)
	if err != nil {
		return err
	}
	created := c.Created
	if string(e.asked().Sum) == c.Asked.Sum {
		created = e.created() // as written: the judged time is capped at the present
	}
	err = a.PutOnce(finalFile(e.id), finalOnDisk{Version: recordVersion, TaskID: e.id, Status: o.Status, Recorded: a.Now.UTC(),
		Request: c.Asked.Sum, Created: created, Sum: ref.Sum, Result: base64.StdEncoding.EncodeToString(blob.Data)})
	if err != nil {
		return err
	}
	e.record.first = a.readFirst(e.id, false)
	return nil
}

// unchanged reads the version of a result that was judged.
func (a *attempts) unchanged(ref protocol.Ref) (jsonfile.Blob, error) {
	blob, err := a.Root.Read(ref.Path, maxFile)
	if err == nil && string(blob.Sum) != ref.Sum {
		err = folder.Moved("the result changed")
	}
	return blob, err
}

// dropFirst archives the record under a number of its own.
func (a *attempts) dropFirst(e *entry) error {
	if !a.Has(finalFile(e.id)) {
		return nil
	}
	if err := a.archive(e.id, "final", finalFile(e.id), jsonfile.Any); err != nil {
		return err
	}
	e.record.first = firstResult{}
	return nil
}

// restoreFirst archives the later result that lies in the place of the first result, and restores the first result. It
// writes the copy before the replacement, and the replacement is one atomic rename: a crash loses neither result, and
// no poller finds the task open.
func (a *attempts) restoreFirst(e *entry, c protocol.Change) error {
	if d := e.present(); d == nil || d.ref() != c.Ref {
		return folder.Moved("the result is not the one that was judged")
	}
	blob, err := a.unchanged(c.Ref)
	if err != nil {
		return err
	}
	if !a.onRecord(e.id, "late", withSum(blob.Sum)) {
		if _, err := a.create(e.id, "late", blob.Data, 0o644); err != nil {
			return err
		}
	}
	return a.Replace(c.Ref.Path, e.record.first.data, blob.Sum)
}
