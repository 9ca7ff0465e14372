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
// place leaves nothing of the first result.
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
	Result   []byte    `json:"result_base64"`
}

// readFirst reads the record of the first result. If whole is set, it also decodes the result.
func (p *Project) readFirst(id string, whole bool) (f firstResult) {
	file := finalFile(id)
	o, blob, err := p.Root.Load(file, maxFinal)
	if folder.Missing(err) {
		p.Patience.Clear(file)
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
		p.Patience.Unreadable(file, err)
		f.damaged, f.passing = true, !read && p.Patience.Passing(file)
		return f
	}
	p.Patience.Clear(file)
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

// recall compares the present result with the recorded result and sets e.overruled.
func (p *Project) recall(e *entry) {
	e.overruled = false
	o, ref := e.present()
	if o == nil || !e.recalls() || o.Ours || jsonfile.Sum(ref.Sum) == e.record.first.sum || e.record.first.damaged {
		return
	}
	if e.record.first.data == nil {
		e.record.first = p.readFirst(e.id, true)
	}
	f := &e.record.first
	e.overruled = f.there && !f.damaged && !sameResult(o, &f.outcome)
}

// recalls reports whether the record belongs to the present request. A request written after the record is a new
// request under the same id.
func (e *entry) recalls() bool {
	f := &e.record.first
	if !f.there || f.damaged { // an unreadable record cannot be shown to belong to an older request
		return f.there
	}
	_, ref := e.asked()
	if e.request.Good && e.request.Stamp.ModTime().After(f.recorded) {
		return false
	}
	return ref.Path == "" || f.request == "" || jsonfile.Sum(ref.Sum) == f.request
}

// sameResult reports whether two results say the same about the same run. An orchestrator that adds a key, for
// example to mark a result as read, has not written another result.
func sameResult(a, b *outcome) bool {
	return a.Status == b.Status && a.Agent == b.Agent && a.At.Equal(b.At) && a.Took == b.Took && a.Summary == b.Summary &&
		slices.Equal(a.Failures, b.Failures)
}

// unrecorded reports whether the result may be put on record as the result that stands.
func (e *entry) unrecorded(o *outcome) bool {
	return !o.Ours && !e.recalls() && !e.answersEarlier()
}

// answersEarlier reports whether the present result is the recorded result although a new request, with another
// creation time, was written under the same id. The answer to the new request is still to come, so the record must
// not name that request.
func (e *entry) answersEarlier() bool {
	f := &e.record.first
	if !f.there || f.damaged || f.created.IsZero() || e.created().IsZero() || e.created().Equal(f.created) {
		return false
	}
	_, ref := e.present()
	return jsonfile.Sum(ref.Sum) == f.sum
}

// setFirst puts the judged result on record (VerbRecord). If the change is about the request, setFirst instead
// archives the record of a task whose result was removed so that the task runs again.
func (p *Project) setFirst(c protocol.Change) error {
	e := p.fresh(c.Subject.ID)
	if c.Ref.Path == e.files.request {
		if !e.reopened() {
			return folder.Moved("it has a result by now")
		}
		return p.dropFirst(e)
	}
	o, ref := e.ended()
	if o == nil || ref.Sum != c.Ref.Sum {
		return folder.Moved("the result is not the one that was judged")
	}
	return p.recordFirst(e, c)
}

// recordFirst writes the record, once, as the answer to the judged request.
func (p *Project) recordFirst(e *entry, c protocol.Change) error {
	o, ref := e.ended()
	if o == nil || !e.unrecorded(o) {
		return nil
	}
	if err := p.dropFirst(e); err != nil { // of an older request
		return err
	}
	blob, err := p.Root.Read(ref.Path, maxFile)
	if err != nil {
		return err
	}
	if string(blob.Sum) != ref.Sum {
		return folder.Moved("the result changed")
	}
	created := c.Created
	if _, now := e.asked(); now.Sum == c.Asked.Sum {
		created = e.created() // as written: the judged time is capped at the present
	}
	doc, err := jsonfile.Encode(finalOnDisk{Version: recordVersion, TaskID: e.id, Status: o.Status, Recorded: p.Now.UTC(),
		Request: c.Asked.Sum, Created: created, Sum: ref.Sum, Result: blob.Data})
	if err != nil {
		return err
	}
	if err := p.Root.Create(finalFile(e.id), doc, 0o644); err != nil && !errors.Is(err, jsonfile.ErrExist) {
		return err
	}
	e.record.first = p.readFirst(e.id, false)
	e.closed = false
	return nil
}

// dropFirst archives the record under a number of its own.
func (p *Project) dropFirst(e *entry) error {
	if !p.has(finalFile(e.id)) {
		return nil
	}
	file, err := p.nextFree(e.id, "final")
	if err == nil {
		err = p.Root.Rename(finalFile(e.id), file)
	}
	if err != nil {
		return err
	}
	e.record.first, e.closed = firstResult{}, false
	return nil
}

// reopened reports whether the recorded result is gone while its request is visible: a client or a user removed it so
// that the task runs again. Steward itself never removes it.
func (e *entry) reopened() bool {
	return e.record.first.there && e.request.Good && !e.result.There && !e.archivedResult.There && !e.held.There
}

// putBack archives the later result that lies in the place of the first result, and restores the first result. It
// writes the copy before the replacement, and the replacement is one atomic rename: a crash loses neither result, and
// no poller finds the task open.
func (p *Project) putBack(e *entry, c protocol.Change) error {
	_, ref := e.present()
	if ref != c.Ref {
		return folder.Moved("the result is not the one that was judged")
	}
	blob, err := p.Root.Read(ref.Path, maxFile)
	if err != nil {
		return err
	}
	if string(blob.Sum) != ref.Sum {
		return folder.Moved("the result changed")
	}
	if !p.onRecord(e.id, "late", blob.Sum) {
		file, err := p.nextFree(e.id, "late")
		if err == nil {
			err = p.Root.Create(file, blob.Data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	late, err := p.Root.Replace(ref.Path, e.record.first.data, blob.Sum)
	_ = late.Close()
	if err != nil {
		return err
	}
	p.told("result_late", c)
	return nil
}
