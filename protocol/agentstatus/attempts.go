package agentstatus

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// attempts is the folder steward/attempts. It is the source of truth about attempts, so that no crash can make an
// attempt count twice.
//
//	<id>.<n>.sched.json   the n-th result is to be taken away: rule, due time, timeout. The first writer wins.
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
	*files
	gone map[string]int // by task: consecutive rounds of prune in which it had no file
}

var recordKinds = []string{"sched", "result", "late", "held", "progress", "claim", "letter", "cancellation", "final", "decision",
	"dead", "freed", "cancelled"}

func (a *attempts) forget() { a.gone = nil }

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

func attemptFile(id string, n int, kind string) string {
	return attemptsDir + "/" + id + "." + strconv.Itoa(n) + "." + kind + ".json"
}

func deadFile(id string) string      { return attemptsDir + "/" + id + ".dead.json" }
func freedFile(id string) string     { return attemptsDir + "/" + id + ".freed.json" }
func cancelledFile(id string) string { return attemptsDir + "/" + id + ".cancelled.json" }

// recordVersion is the version of schedules and of first-result records.
const recordVersion = 1

// maxAttempts bounds the search for files; no rule can reach it.
const maxAttempts = 1000

// last returns the newest attempt, committed or not; nil if there is none.
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

// read reads a task's record. Committed entries never change, so it reads only entries that may be new since old.
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
		// A cancellation may have restored the last result, which undoes its entry's commit: reread the entries then.
		file := attemptFile(id, n, "sched")
		if i := n - 1; !r.cancelled && i < len(old.attempts) && old.attempts[i].Committed && !slices.Contains(old.unread, file) {
			r.attempts = append(r.attempts, old.attempts[i])
			continue
		}
		p, ok := a.planned(id, n)
		if !ok {
			break
		}
		if a.Patience.Has(file) {
			r.unread = append(r.unread, file)
		}
		if !p.attempt.Committed {
			if !r.cancelled { // a cancelled task's schedule is not carried out
				r.attempts, r.pending = append(r.attempts, p.attempt), p.result
			}
			break
		}
		r.attempts = append(r.attempts, p.attempt)
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
	folder.Fields(o, &s)
	if !s.Due.IsZero() {
		s.Due = s.Due.Add(time.Duration(s.DueNano)).UTC()
	}
	return planned{result: jsonfile.Sum(s.Result), timeout: seconds(s.Timeout),
		attempt: protocol.Attempt{Action: s.Action, Rule: s.Rule, Code: s.Code, Agent: s.Agent, Due: s.Due, Ours: s.Ours, Twice: s.Twice}}
}

// openSchedules lists the tasks whose newest schedule is not carried out, from the file names alone.
func (a *attempts) openSchedules() map[string]bool {
	names, _, err := a.Root.List(attemptsDir)
	if err != nil {
		return nil
	}
	open := map[string]bool{}
	for id, record := range recordsOf(names) {
		n := 0
		for _, r := range record {
			switch r.kind {
			case "sched":
				n++
			case "result":
				n--
			}
		}
		open[id] = n > 0
	}
	return open
}

// nextFree returns the first unused name for a file of that kind.
func (a *attempts) nextFree(id, kind string) (string, error) {
	if n := a.count(id, kind) + 1; n <= maxAttempts {
		return attemptFile(id, n, kind), nil
	}
	return "", fmt.Errorf("file the %s of task %s: over %d are on record", kind, id, maxAttempts)
}

// count returns how many files of that kind are on record.
func (a *attempts) count(id, kind string) (n int) {
	for n < maxAttempts && a.Has(attemptFile(id, n+1, kind)) {
		n++
	}
	return n
}

// create puts a new file of that kind on record.
func (a *attempts) create(id, kind string, doc []byte, mode fs.FileMode) (file string, err error) {
	if file, err = a.nextFree(id, kind); err != nil {
		return "", err
	}
	return file, a.Root.Create(file, doc, mode)
}

// archive moves a file into the record, if its content has that sum.
func (a *attempts) archive(id, kind, file string, expect jsonfile.Sum) error {
	to, err := a.nextFree(id, kind)
	if err != nil {
		return err
	}
	return a.Root.RenameIf(file, to, expect)
}

// onRecord reports whether a file of that kind matches.
func (a *attempts) onRecord(id, kind string, match func(jsonfile.Blob) bool) bool {
	for n := range a.count(id, kind) {
		if blob, err := a.Root.Read(attemptFile(id, n+1, kind), maxFile); err == nil && match(blob) {
			return true
		}
	}
	return false
}

func withSum(sum jsonfile.Sum) func(jsonfile.Blob) bool {
	return func(b jsonfile.Blob) bool { return b.Sum == sum }
}

func cutLast(name string) (head, last string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// The limits of pruning. A record is removed only if its task had no file in each of the last goneRounds rounds, and
// if nothing was written to the record for pruneAfter: a client that reuses the id within that time finds its
// attempts counted. See docs/decisions.md, "A task's record of attempts goes 30 days after its last change".
const (
	pruneAfter = 30 * 24 * time.Hour
	goneRounds = 6
)

// recorded is a file of a task's record, parsed from its name.
type recorded struct {
	file, kind string
	n          int // attempt number; 0: the file belongs to the task as a whole
}

// recordsOf groups the names by task. An id may itself end in a number: such a name counts for the shorter id, so
// that the record stays while either task exists.
func recordsOf(names []string) map[string][]recorded {
	records := map[string][]recorded{}
	for _, name := range names {
		head, kind, ok := cutLast(strings.TrimSuffix(name, ".json"))
		if !ok || !strings.HasSuffix(name, ".json") || !slices.Contains(recordKinds, kind) {
			continue
		}
		id, n := head, 0
		if short, number, ok := cutLast(head); ok {
			if i, err := strconv.Atoi(number); err == nil && i > 0 {
				id, n = short, i
			}
		}
		records[id] = append(records[id], recorded{attemptsDir + "/" + name, kind, n})
	}
	return records
}

// prune removes the records of tasks that are long gone. Folder calls it under the guard lock, once an hour.
func (a *attempts) prune() {
	names, _, err := a.Root.List(attemptsDir)
	if err != nil {
		return
	}
	live, ok := a.live()
	if !ok {
		return
	}
	gone := map[string]int{}
	for id, record := range recordsOf(names) {
		if live[id] || slices.ContainsFunc(record, func(r recorded) bool { return r.n > 0 && live[id+"."+strconv.Itoa(r.n)] }) {
			continue
		}
		gone[id] = a.gone[id] + 1
		if gone[id] >= goneRounds && a.untouched(record) {
			a.removeRecord(record)
			delete(gone, id)
		}
	}
	a.gone = gone
}

// live lists the tasks that have a file or a claim; ok is false if that is unknown.
func (a *attempts) live() (live map[string]bool, ok bool) {
	live = map[string]bool{}
	for _, dir := range []string{tasksDir, archiveDir, claimsDir} {
		_, err := a.Root.Each(dir, func(name []byte) {
			if id, _, ok := parseTaskFile(name); ok {
				live[string(id)] = true
			} else if id, ok := strings.CutSuffix(string(name), ".json"); ok && dir == claimsDir {
				live[id] = true
			}
		})
		if err != nil && !folder.Missing(err) {
			return nil, false
		}
	}
	return live, true
}

// untouched reports whether nothing was written to the record for pruneAfter.
func (a *attempts) untouched(record []recorded) bool {
	return !slices.ContainsFunc(record, func(r recorded) bool {
		st, err := a.Root.Stat(r.file)
		return err != nil || a.Now.Sub(appeared(st)) < pruneAfter
	})
}

// removeRecord removes the last attempt first: a crash leaves a shorter record without gaps.
func (a *attempts) removeRecord(record []recorded) {
	slices.SortFunc(record, func(x, y recorded) int { return cmp.Compare(y.n, x.n) })
	for _, r := range record {
		if a.Root.Remove(r.file) != nil {
			return
		}
	}
}
