package agentstatus

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// record is a task's part of the ledger in steward/attempts. The directory is the source of truth about attempts, so
// that no crash can make an attempt count twice.
//
//	<id>.<n>.sched.json   the n-th result is to be taken away: rule, due time, timeout. The first writer wins.
//	<id>.<n>.result.json  the n-th result, taken away: the rename that created this file is the commit point.
//	<id>.<n>.late.json    a result that came after another result stood
//	<id>.<n>.held.json    a held request; a new request was written meanwhile
//	<id>.<n>.progress.json, .claim.json, .letter.json, .cancellation.json   files of the n-th attempt that a retry archived
//	<id>.final.json       the first terminal result that was judged: a later result does not replace it
//	<id>.<n>.final.json   such a record of a task that was requested again
//	<id>.dead.json        the dead letter
//	<id>.freed.json       the operator released the task before its predecessors were completed
//	<id>.cancelled.json   the operator ended the task, or steward's retry of it
type record struct {
	takings     []protocol.Attempt
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

// last returns the newest entry, committed or not; nil if there is none.
func (r *record) last() *protocol.Attempt {
	if len(r.takings) == 0 {
		return nil
	}
	return &r.takings[len(r.takings)-1]
}

// recordVersion is the version of schedules and of first-result records.
const recordVersion = 1

// maxAttempts bounds the search for entries; no rule can reach it.
const maxAttempts = 1000

// readRecord reads a task's ledger. Committed entries never change, so it reads only entries that may be new.
func (p *Project) readRecord(e *entry) {
	if e.recorded && !p.changed[attemptsDir] {
		return
	}
	r := record{buried: p.has(deadFile(e.id)), first: p.readFirst(e.id, false)}
	if r.first.damaged {
		r.unread = append(r.unread, finalFile(e.id))
	}
	if st, err := p.Root.Stat(cancelledFile(e.id)); err == nil {
		r.cancelled, r.cancelledAt = true, appeared(st)
		if o, _, err := p.Root.Load(cancelledFile(e.id), maxFile); err == nil {
			r.reason, r.why = protocol.Reason(text(o, "reason")), folder.Line(text(o, "why"), 300)
		}
	}
	for n := 1; n <= maxAttempts; n++ {
		// A cancellation may have restored the last result, which undoes its entry's commit: reread the entries then.
		file := attemptFile(e.id, n, "sched")
		if i := n - 1; !r.cancelled && i < len(e.record.takings) && e.record.takings[i].Committed && !slices.Contains(e.record.unread, file) {
			r.takings = append(r.takings, e.record.takings[i])
			continue
		}
		s, ok := p.scheduled(e.id, n)
		if !ok {
			break
		}
		if p.Patience.Has(file) {
			r.unread = append(r.unread, file)
		}
		if s.taking.Committed {
			r.takings = append(r.takings, s.taking)
			continue
		}
		if !r.cancelled { // a cancelled task's schedule is not carried out
			r.takings, r.pending = append(r.takings, s.taking), s.result
		}
		break
	}
	p.forgetUnread(e, r.unread)
	e.record, e.recorded = r, len(r.unread) == 0
}

// forgetUnread clears the faults of ledger files that are no longer unread.
func (p *Project) forgetUnread(e *entry, still []string) {
	for _, file := range e.record.unread {
		if !slices.Contains(still, file) {
			p.Patience.Clear(file)
		}
	}
}

func (p *Project) has(file string) bool {
	_, err := p.Root.Stat(file)
	return err == nil
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

// planned is a decoded schedule.
type planned struct {
	taking  protocol.Attempt
	timeout time.Duration
	result  jsonfile.Sum
}

// scheduled reads the n-th schedule. A schedule that exists but cannot be read counts as a retry: a damaged ledger
// must not grant extra attempts.
func (p *Project) scheduled(id string, n int) (planned, bool) {
	file := attemptFile(id, n, "sched")
	o, _, err := p.Root.Load(file, maxFile)
	if folder.Missing(err) {
		p.Patience.Clear(file)
		return planned{}, false
	}
	_, gone := p.Root.Stat(attemptFile(id, n, "result"))
	s := planned{taking: protocol.Attempt{N: n, Action: protocol.ActionRetry, Committed: gone == nil}}
	if err == nil && gone != nil && !folder.Missing(gone) {
		err = gone // it is unknown whether the schedule was carried out
	}
	if err == nil {
		err = o.Newer(recordVersion)
	}
	if err != nil {
		p.Patience.Unreadable(file, err)
		s.taking.Unread = p.Patience.Passing(file)
		return s, true
	}
	p.Patience.Clear(file)
	decodeSchedule(o, &s)
	return s, true
}

func decodeSchedule(o jsonfile.Object, s *planned) {
	k := &s.taking
	k.Action, _ = o.String("action")
	k.Rule, _ = o.String("rule")
	k.Code, _ = o.String("code")
	k.Agent, _ = o.String("agent")
	k.Due, _ = o.Time("due")
	nanos, _ := o.Int("due_nanos")
	if !k.Due.IsZero() {
		k.Due = k.Due.Add(time.Duration(nanos)).UTC()
	}
	k.Ours, _ = o.Bool("synthetic")
	k.Twice, _ = o.Bool("may_have_run_twice")
	if seconds, _ := o.Number("timeout_seconds"); seconds > 0 && seconds < 1e9 {
		s.timeout = time.Duration(seconds * float64(time.Second))
	}
	sum, _ := o.String("result_sum")
	s.result = jsonfile.Sum(sum)
}

// openSchedules lists the tasks whose newest schedule is not carried out, from the file names alone.
func (p *Project) openSchedules() map[string]bool {
	files, _, err := p.Root.List(attemptsDir)
	if err != nil {
		return nil
	}
	state := map[string]int{}
	for _, name := range files {
		if head, ok := strings.CutSuffix(name, ".sched.json"); ok {
			state[head]++
		} else if head, ok := strings.CutSuffix(name, ".result.json"); ok {
			state[head]--
		}
	}
	open := map[string]bool{}
	for head, n := range state {
		if i := strings.LastIndexByte(head, '.'); n > 0 && i > 0 {
			open[head[:i]] = true
		}
	}
	return open
}

// nextFree returns the first unused name for a file of that kind.
func (p *Project) nextFree(id, kind string) (string, error) {
	for n := 1; n <= maxAttempts; n++ {
		if file := attemptFile(id, n, kind); !p.has(file) {
			return file, nil
		}
	}
	return "", fmt.Errorf("file the %s of task %s: over %d are on record", kind, id, maxAttempts)
}
