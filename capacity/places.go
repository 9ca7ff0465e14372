package capacity

import (
	"maps"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// Freed is a claim whose work has ended: its place may be taken at once, without a wait for calm.
type Freed struct {
	At    time.Time `json:"at"`
	Cores float64   `json:"cores"`
	Used  bool      `json:"used,omitempty"` // somebody has taken the place
	// Agent is who has come free, and Next the work that lay before it all the while: that takes the place.
	Agent protocol.Subject `json:"agent,omitzero"`
	Next  protocol.Subject `json:"next,omitzero"`
}

// placeFor is how long the place of ended work is kept for the next in the queue.
const placeFor = 5 * time.Second

// crowded is the share of stalled time above which the processor is oversubscribed: then the end of one piece of work
// leaves no room, for others are waiting for it already.
const crowded = 0.5

// settleEnded turns claims that are gone into places, and learns from those that came to a good end. What is free since
// long shows in the readings.
func (r *round) settleEnded(work Work) {
	for _, f := range r.old.Freed {
		r.free(f)
	}
	for _, subject := range r.gone(work.Claims) {
		k := r.old.Claims[subject]
		end, result := work.Ended[subject]
		place := Freed{At: r.now, Agent: k.Agent}
		switch {
		case !end.At.IsZero() && end.At.Before(r.now):
			place.At = end.At
		case r.interrupted: // it ended at some time since the last judgement, perhaps long ago
			place.At = time.Time{}
		}
		if k.Taken.IsZero() && end.Took > 0 { // nobody said that it was at work, but it says so now
			k.Taken = later(k.Since, place.At.Add(-end.Took))
		}
		switch {
		case k.Taken.IsZero() && !result: // withdrawn before anybody took it
			continue
		case !k.Taken.IsZero() && result: // without one its processes may go on, whatever became of its agent
			place.Cores = k.Cores
			r.ended = append(r.ended, k)
			if end.Well {
				r.next.Learnt = r.next.Learnt.with(k, r.now)
			}
		}
		r.free(place) // also of work that was taken and done between two looks, which no reading shows
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// gone lists the claims that are no longer there, in a fixed order. Mostly there is none.
func (r *round) gone(claims []Claim) []protocol.Subject {
	goesOn := 0
	for _, c := range claims {
		if _, known := r.old.Claims[c.Subject]; known {
			goesOn++
		}
	}
	if goesOn == len(r.old.Claims) && r.unique {
		return nil
	}
	left := maps.Clone(r.old.Claims)
	for _, c := range claims {
		delete(left, c.Subject)
	}
	maps.DeleteFunc(left, func(_ protocol.Subject, k Claimed) bool { return !k.Absent.IsZero() })
	return sortedSubjects(left)
}

func (r *round) free(f Freed) {
	if age := r.now.Sub(f.At); age >= 0 && age < placeFor {
		r.next.Freed = append(r.next.Freed, f)
	}
}

// counting lists the claims that count. One that has lapsed does again when its agent comes free: that takes it next, and
// with it the place that it leaves.
func (r *round) counting(work Work) []Claim {
	if !slices.ContainsFunc(work.Claims, func(c Claim) bool { return c.lapsed(r.now, r.cfg) }) {
		return work.Claims
	}
	list := make([]Claim, 0, len(work.Claims))
	for _, c := range work.Claims {
		if !c.lapsed(r.now, r.cfg) || r.takesOver(c) {
			list = append(list, c)
		}
	}
	return list
}

// takesOver reports whether lapsed work has the place that its agent left, and gives it that place.
func (r *round) takesOver(c Claim) bool {
	if c.Agent == (protocol.Subject{}) {
		return false
	}
	for _, f := range r.next.Freed {
		if f.Next == c.Subject {
			return true
		}
	}
	for i, f := range r.next.Freed {
		if f.Agent == c.Agent && !f.Used {
			r.next.Freed[i].Used, r.next.Freed[i].Next = true, c.Subject
			return true
		}
	}
	return false
}

// matureEnded is what left the baseline with the work that has just ended.
func (r *round) matureEnded() float64 {
	sum := 0.0
	for _, k := range r.ended {
		if k.Mature {
			sum += k.Cores
		}
	}
	return sum
}

// credit is the part of the reading that is the past's: work that ended within the time which the reading covers.
func (r *round) credit() float64 {
	if stalled, known := r.load.Stalled.Value(); known && stalled >= crowded {
		return 0
	}
	sum := 0.0
	for _, f := range r.next.Freed {
		since := f.At.Sub(r.load.At.Add(-r.load.Window))
		switch {
		case since <= 0:
		case r.load.Window <= 0 || since >= r.load.Window:
			sum += f.Cores
		default:
			sum += f.Cores * float64(since) / float64(r.load.Window)
		}
	}
	return sum
}

// takesPlace lets a held task follow on work that has ended, at once, when only the processor and memory kept it.
func (r *round) takesPlace(w Waiter, held Held) bool {
	free := -1
	for i, f := range r.next.Freed {
		if !f.Used {
			free = i
			break
		}
	}
	if free < 0 || !claimable(held.Shut) {
		return false
	}
	for _, d := range allDimensions {
		if used, known := r.used(w, d); known && used > r.limitOn(w, d)+tiny {
			return false
		}
	}
	r.next.Freed[free].Used = true
	return true
}

// claimable reports whether only dimensions kept the task in which claims tell what one more start means.
func claimable(shut []Shut) bool {
	for _, s := range shut {
		if s.Dimension != DimCPU && s.Dimension != DimMemory {
			return false
		}
	}
	return true
}
