package agentstatus

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// strayAfter is how long a worker may take from writing its result to giving its claim back.
const strayAfter = 2 * time.Second

// strays finds out whether the result in codex_tasks is of an earlier attempt, whose agent was taken for lost and woke up
// while a later attempt was issued. A completed result counts, whoever wrote it: the work is done. Any other one must not
// consume the attempt under way, and is filed. The result does not say its attempt, so this takes evidence:
//
//   - by its own execution time the run began before the present attempt was issued; or
//   - a worker of ours has the present attempt in hand and has not written it.
//
// Without evidence the result counts for the present attempt. Each lost attempt has one stray result at most: a client
// that counts its execution time over all attempts cannot make a task run for ever.
func (p *Project) strays(e *entry) (stray bool, due time.Time) {
	o := &e.result.Value
	if !e.result.Good || o.Ours || o.Succeeded() || !e.request.Good || e.late() || !e.record.mayRunOn() {
		return false, due
	}
	issued, came := appeared(e.request.Stamp), e.result.Stamp.ModTime()
	before := o.Took > 0 && came.Add(-o.Took).Before(issued.Add(-strayAfter))
	inHand := e.claim.Good && len(e.claim.Value.processes()) > 0 && e.claim.Value.At.Before(came)
	if !before && !inHand || p.filedLate(e.id) >= e.record.lostRuns() {
		return false, due
	}
	if before {
		return true, due
	}
	return true, came.Add(strayAfter)
}

// mayRunOn reports whether the attempt before the present one may not be over: it was taken for lost, or ran out of time.
func (r *record) mayRunOn() bool {
	k := r.last()
	return k != nil && k.Committed && runsOn(k)
}

func runsOn(k *protocol.Attempt) bool {
	return k.Action == protocol.ActionRetry && (k.Ours || k.Twice || k.Code == "TIMEOUT")
}

func (r *record) lostRuns() (n int) {
	for i := range r.takings {
		if runsOn(&r.takings[i]) {
			n++
		}
	}
	return n
}

// filedLate counts the late results on record.
func (p *Project) filedLate(id string) (n int) {
	for n < maxAttempts && p.has(attemptFile(id, n+1, "late")) {
		n++
	}
	return n
}
