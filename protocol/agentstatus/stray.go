package agentstatus

import (
	"time"

	"github.com/livhana/steward/protocol"
)

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

// mayRunOn reports whether the previous attempt may still be running: it was taken for lost, or it timed out.
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
