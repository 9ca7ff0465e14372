package capacity

import (
	"maps"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// Freed is the place of a reservation whose work has ended. The next task may take it at once, without a wait for calm.
// See docs/decisions.md, "Work that ends passes on its place".
type Freed struct {
	At    time.Time `json:"at"`
	Cores float64   `json:"cores"`
	Used  bool      `json:"used,omitempty"` // the place is taken
	// Agent is the agent that became free. Next is the lapsed reservation that had been queued for that agent and takes the
	// place.
	Agent protocol.Subject `json:"agent,omitzero"`
	Next  protocol.Subject `json:"next,omitzero"`
}

// placeFor is how long the place of ended work is reserved for the next task in the queue.
const placeFor = 5 * time.Second

// crowded is the share of stalled time above which the processor is oversubscribed. The end of one piece of work then
// leaves no room, because other processes are already waiting for it.
const crowded = 0.5

// settleEnded converts ended reservations into places and learns from those that succeeded. Capacity freed long ago shows in
// the readings.
func (r *round) settleEnded(work Work) {
	for _, f := range r.old.Freed {
		r.free(f)
	}
	for _, subject := range r.gone(work.Reservations) {
		k := r.old.Reservations[subject]
		end, result := work.Ended[subject]
		place := Freed{At: r.now, Agent: k.Agent}
		switch {
		case !end.At.IsZero() && end.At.Before(r.now):
			place.At = end.At
		case r.interrupted: // the work ended at an unknown time since the last judgement, perhaps long ago
			place.At = time.Time{}
		}
		if k.Taken.IsZero() && end.Took > 0 { // the work was never reported in flight, but its result states a duration
			k.Taken = later(k.Since, place.At.Add(-end.Took))
		}
		switch {
		case k.Taken.IsZero() && !result: // withdrawn before it was taken
			continue
		case !k.Taken.IsZero() && result: // without a result its processes may still run, whatever became of the agent
			place.Cores = k.Cores
			r.ended = append(r.ended, k)
			if end.Well {
				r.next.Learnt = r.next.Learnt.with(k, r.now)
			}
		}
		r.free(place) // including work that was taken and finished between two scans, which no reading shows
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// gone lists the reservations that have disappeared, in a fixed order.
func (r *round) gone(claims []Reservation) []protocol.Subject {
	left := maps.Clone(r.old.Reservations)
	for _, c := range claims {
		delete(left, c.Subject)
	}
	maps.DeleteFunc(left, func(_ protocol.Subject, k Reserved) bool { return !k.Absent.IsZero() })
	return sortedSubjects(left)
}

func (r *round) free(f Freed) {
	if age := r.now.Sub(f.At); age >= 0 && age < placeFor {
		r.next.Freed = append(r.next.Freed, f)
	}
}

// counting lists the reservations that count. A lapsed reservation counts again when its agent becomes free: the agent takes that
// work next, and the work inherits the place.
func (r *round) counting(work Work) []Reservation {
	return slices.DeleteFunc(slices.Clone(work.Reservations), func(c Reservation) bool { return c.lapsed(r.now, r.cfg) && !r.takesOver(c) })
}

// takesOver reports whether lapsed work has the place of its agent's previous work, and assigns that place to it.
func (r *readings) takesOver(c Reservation) bool {
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

// matureEnded is the part of the baseline that belonged to the work that has just ended.
func (r *round) matureEnded() float64 {
	sum := 0.0
	for _, k := range r.ended {
		if k.Mature {
			sum += k.Cores
		}
	}
	return sum
}

// credit is the part of the reading caused by work that ended within the reading's window.
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

// takesPlace releases a held task at once into the place of ended work, if only processor and memory held it.
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

// claimable reports whether the task was held only by dimensions for which reservations predict the effect of another start.
func claimable(shut []Shut) bool {
	for _, s := range shut {
		if s.Dimension != DimCPU && s.Dimension != DimMemory {
			return false
		}
	}
	return true
}
