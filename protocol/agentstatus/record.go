package agentstatus

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// attempts is the folder steward/attempts. It is the source of truth about attempts, so that no crash can make an
// attempt count twice.
//
//	<id>.<n>.sched.json   the order to move the n-th result away: rule, due time, timeout. The first writer wins.
//	<id>.<n>.result.json  the n-th result, taken away: the rename that created this file is the commit point.
//	<id>.<n>.late.json    a result that came after another result stood
//	<id>.<n>.held.json    a held request; a new request was written meanwhile
//	<id>.<n>.progress.json, .claim.json, .letter.json, .cancellation.json   files of the n-th attempt that a retry archived
//	<id>.final.json       the first terminal result that was judged: a later result does not replace it
//	<id>.<n>.final.json   such a record of a task that was requested again
//	<id>.<n>.decision.json  a decision that a newer decision replaced
//	<id>.dead.json        the dead letter
//	<id>.freed.json       the operator released the task before its predecessors were completed
//	<id>.cancelled.json   the operator ended the task, or steward's retry of it
//
// See docs/decisions.md, "Attempts are files in a directory".
type attempts struct {
	*statusFiles
	gone map[string]int // by task: consecutive rounds of prune in which it had no file
}

func (a *attempts) forget() { a.gone = nil }

var recordKinds = []string{"sched", "result", "late", "held", "progress", "claim", "letter", "cancellation", "final", "decision",
	"dead", "freed", "cancelled"}

func attemptFile(id string, n int, kind string) string {
	return attemptsDir + "/" + id + "." + strconv.Itoa(n) + "." + kind + ".json"
}

func deadFile(id string) string { return attemptsDir + "/" + id + ".dead.json" }

func freedFile(id string) string { return attemptsDir + "/" + id + ".freed.json" }

func cancelledFile(id string) string { return attemptsDir + "/" + id + ".cancelled.json" }

// finalFile returns the path of the record. The record contains a copy of the result, because a client that writes in
// place leaves nothing of the first result. See docs/decisions.md, "The first judged result is copied".
func finalFile(id string) string { return attemptsDir + "/" + id + ".final.json" }

// recordVersion is the version of schedules and of first-result records.
const recordVersion = 1

// maxAttempts bounds the search for files; no rule can reach it.
const maxAttempts = 1000

// taskRecord is what the folder says about one task.
type taskRecord struct {
	attempts    []protocol.Attempt
	pending     jsonfile.Sum // the result whose schedule is not carried out yet
	buried      bool
	cancelled   bool
	cancelledAt time.Time
	reason      protocol.Reason // of the cancellation
	why         string
	unread      []string // files whose content could not be read
	first       firstResult
}

// last returns the newest attempt, committed or not; nil if none exists.
func (r *taskRecord) last() *protocol.Attempt {
	if len(r.attempts) == 0 {
		return nil
	}
	return &r.attempts[len(r.attempts)-1]
}

// committed lists the attempts whose results were taken away.
func (r *taskRecord) committed() (list []protocol.Attempt) {
	for _, k := range r.attempts {
		if k.Committed {
			list = append(list, k)
		}
	}
	return list
}

// next returns the number of the next run, from 1.
func (r *taskRecord) next() int { return len(r.committed()) + 1 }

// read reads a task's record. The old one names the files that could not be read then.
func (a *attempts) read(id string, old *taskRecord) taskRecord {
	r := taskRecord{buried: a.Has(deadFile(id)), first: a.readFirst(id, false)}
	if r.first.damaged {
		r.unread = append(r.unread, finalFile(id))
	}
	if st, err := a.Root.Stat(cancelledFile(id)); err == nil {
		o, _, _ := a.object(cancelledFile(id))
		r.cancelled, r.cancelledAt = true, appeared(st)
		r.reason, r.why = protocol.Reason(text(o, "reason")), folder.Line(text(o, "why"), 300)
	}
	for n := 1; n <= maxAttempts; n++ {
		p, ok := a.planned(id, n)
		if !ok {
			break
		}
		if file := attemptFile(id, n, "sched"); a.Patience.Has(file) {
			r.unread = append(r.unread, file)
		}
		if !p.attempt.Committed && r.cancelled { // a cancelled task's schedule is not carried out
			break
		}
		if r.attempts = append(r.attempts, p.attempt); !p.attempt.Committed {
			r.pending = p.result
			break
		}
	}
	a.forgetUnread(old, r.unread)
	return r
}

// forgetUnread clears the faults of files that are no longer unread.
func (a *attempts) forgetUnread(old *taskRecord, still []string) {
	for _, file := range old.unread {
		if !slices.Contains(still, file) {
			a.Patience.Clear(file)
		}
	}
}

// schedule is the document <id>.<n>.sched.json.
type schedule struct {
	Version int       `json:"version"`
	TaskID  string    `json:"task_id"`
	N       int       `json:"n"`
	Action  string    `json:"action"`
	Rule    string    `json:"rule"`
	Code    string    `json:"code"`
	Agent   string    `json:"agent"`
	TakenAt time.Time `json:"taken_at"`
	Due     time.Time `json:"due"`
	DueNano int       `json:"due_nanos,omitzero"` // times are written in whole seconds
	Timeout float64   `json:"timeout_seconds,omitzero"`
	Ours    bool      `json:"synthetic,omitzero"`
	Twice   bool      `json:"may_have_run_twice,omitzero"`
	Why     string    `json:"why"`
	Result  string    `json:"result_sum"`
}

// planned is an attempt as scheduled, with the timeout of the next one and the result that is taken away.
type planned struct {
	attempt protocol.Attempt
	timeout time.Duration
	result  jsonfile.Sum
}

// planned reads the n-th schedule. A schedule that exists but cannot be read counts as a retry: a damaged record must
// not grant extra attempts.
func (a *attempts) planned(id string, n int) (planned, bool) {
	file := attemptFile(id, n, "sched")
	o, _, err := a.Root.Load(file, maxFile)
	if folder.Missing(err) {
		a.Patience.Clear(file)
		return planned{}, false
	}
	_, gone := a.Root.Stat(attemptFile(id, n, "result"))
	if err == nil && gone != nil && !folder.Missing(gone) {
		err = gone // it is unknown whether the schedule was carried out
	}
	if err == nil {
		err = o.Newer(recordVersion)
	}
	p := planned{attempt: protocol.Attempt{Action: protocol.ActionRetry}}
	if err != nil {
		a.Patience.Unreadable(file, err)
		p.attempt.Unread = a.Patience.Passing(file)
	} else {
		a.Patience.Clear(file)
		p = decodeSchedule(o)
	}
	p.attempt.N, p.attempt.Committed = n, gone == nil
	return p, true
}

func decodeSchedule(o jsonfile.Object) planned {
	var s schedule
	folder.Fill(o, &s)
	if !s.Due.IsZero() {
		s.Due = s.Due.Add(time.Duration(s.DueNano)).UTC()
	}
	return planned{result: jsonfile.Sum(s.Result), timeout: seconds(s.Timeout),
		attempt: protocol.Attempt{Action: s.Action, Rule: s.Rule, Code: s.Code, Agent: s.Agent, Due: s.Due, Ours: s.Ours, Twice: s.Twice}}
}

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
