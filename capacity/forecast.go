package capacity

import "time"

// soonest is the shortest wait that a task is told.
const soonest = 2 * time.Second

// expectEnd records when a reservation's work will probably end.
func (r *round) expectEnd(c Reservation, cost Cost) {
	if cost.Duration <= 0 {
		return
	}
	began := c.Taken
	if began.IsZero() {
		began = r.now
	}
	// Work past its usual duration may end at any moment, or run for as long again.
	r.reserved.ends = append(r.reserved.ends, max(began.Add(cost.Duration).Sub(r.now), soonest))
	r.reserved.mean = max(r.reserved.mean, cost.Duration)
}

// forecast returns the wait that a waiting task is told, from its place in the queue: each end of running work admits
// one task. The result is between 2 s and Config.RetryAfter. It is RetryAfter if nothing is known, or if processes
// other than the reservations use the capacity.
func (r *round) forecast(w Waiter, held Held) time.Duration {
	place := r.waiting
	r.waiting++
	if due, any := r.due(held); any && due.After(r.now) {
		return min(max(due.Sub(r.now), soonest), r.cfg.RetryAfter)
	}
	b := r.reserved
	byOthers := r.counts(DimCPU) && b.cores > 0 && b.others/b.cores > r.limit(w) ||
		r.counts(DimMemory) && b.total > 0 && b.mem.base/b.total > r.limit(w)
	if len(b.ends) == 0 || !claimable(held.Shut) || byOthers {
		return r.cfg.RetryAfter
	}
	n := len(b.ends)
	wait := b.ends[place%n] + time.Duration(place/n)*b.mean
	return min(max(wait, soonest), r.cfg.RetryAfter)
}
