package capacity

import (
	"slices"
	"time"
)

// soonest is the least that a task is told to wait.
const soonest = 2 * time.Second

// expectEnd notes when a claim's work will probably end.
func (r *round) expectEnd(c Claim, cost Cost) {
	if cost.Duration <= 0 {
		return
	}
	began := c.Taken
	if began.IsZero() {
		began = r.now
	}
	// Work over its usual time may end at any moment, or last as long again.
	r.book.ends = append(r.book.ends, max(began.Add(cost.Duration).Sub(r.now), soonest))
	r.book.mean = max(r.book.mean, cost.Duration)
}

// forecast is what a task that must wait is told, by its place in the queue: each end of what runs lets one in. Between
// 2 s and Config.RetryAfter; that when nothing is known, or when it is not our work that takes the room.
func (r *round) forecast(w Waiter, held Held) time.Duration {
	place := r.waiting
	r.waiting++
	if due, any := r.due(held); any && due.After(r.now) {
		return min(max(due.Sub(r.now), soonest), r.cfg.RetryAfter)
	}
	b := r.book
	byOthers := r.counts(DimCPU) && b.cores > 0 && b.others/b.cores > r.limit(w) ||
		r.counts(DimMemory) && b.total > 0 && b.mem.base/b.total > r.limit(w)
	if len(b.ends) == 0 || !claimable(held.Shut) || byOthers {
		return r.cfg.RetryAfter
	}
	if !r.forecasts {
		slices.Sort(b.ends)
		r.forecasts = true
	}
	n := len(b.ends)
	wait := b.ends[place%n] + time.Duration(place/n)*b.mean
	return min(max(wait, soonest), r.cfg.RetryAfter)
}
