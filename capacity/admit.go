package capacity

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// Waiter is a task that nobody works on yet. Tasks kept for another reason than capacity are none.
type Waiter struct {
	Subject  protocol.Subject  `json:"subject"`
	Priority protocol.Priority `json:"priority"`
	// Since is when the task came to wait: its age in the queue. Zero counts as now.
	Since time.Time `json:"since,omitzero"`
	// Throttle is the highest used share that the task allows (000: throttle_capacity); unknown: Config.Threshold.
	Throttle protocol.Share `json:"throttle"`
	// Agent is who is to do it; zero when nobody is named. Tasks of one Agent queue for it.
	Agent protocol.Subject `json:"agent,omitzero"`
	// Kind is under what its cost is learnt (see Claim).
	Kind string `json:"kind,omitempty"`
	// AgentUsed is the agent's own used share while its beat is fresh, else unknown.
	AgentUsed protocol.Share `json:"agent_used"`
	// Held: the files say that it is held for capacity. Otherwise this is its first judgement.
	Held bool `json:"held"`
	// Idle: nobody is there to take it. It may lie open, and is promised nothing.
	Idle bool `json:"idle,omitempty"`
	// Person: a person at a terminal starts it. It waits for memory and open files only: a busy processor makes it slow, and
	// the person can see that.
	Person bool `json:"person,omitempty"`
	// Busy: its project is being changed. What is remembered of it stays, and no verdict is given.
	Busy bool `json:"busy,omitempty"`
}

// Work is all that asks for room: who waits for it, and who has it.
type Work struct {
	Waiters []Waiter
	Claims  []Claim
	// Ended are those of the claims that are gone of which a result is there.
	Ended map[protocol.Subject]Ended
}

// Ended is how a claim came to its end.
type Ended struct {
	At time.Time
	// Took is how long it says that it took; 0: it does not.
	Took time.Duration
	// Well: the work was done, so that there is something to learn from it.
	Well bool
}

// Verdict is what becomes of one Waiter.
type Verdict struct {
	Subject protocol.Subject `json:"subject"`
	Admit   bool             `json:"admit"`
	// Gate is what keeps the task. It is zero when the task is admitted.
	Gate protocol.Gate `json:"gate,omitzero"`
	// RetryAfter is what a task that must wait is told.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	Why        string        `json:"why"`
}

// tiny absorbs the rounding of shares that were computed, such as 1 − 0.2.
const tiny = 1e-9

// Admit judges every waiter. It gives the verdicts in queue order, what to remember, and the earliest time at
// which a verdict could change without a new sample (zero: never).
//
// A first-judged task goes when no dimension passes its limit and nobody before it in the queue waits for the
// same thing with a limit at least as high. A held task goes when everything has stayed Hysteresis below its
// limit for Calm (CalmMemory for memory), nobody is before it likewise, and nobody else of the machine's
// queue, or of its agent's, has gone on this sample: each start moves the readings, so one is released and
// then the load is read again.
//
// An unknown dimension neither shuts a gate nor proves one open: a task held for it goes once it has been
// unreadable for RetryAfter. With nothing known first-judged tasks all go: a broken gauge must not stop work.
func Admit(work Work, load Load, mem Memory, now time.Time, cfg Config) ([]Verdict, Memory, time.Time) {
	r := newRound(load, mem, now, cfg)
	r.openLedger(work)
	verdicts := make([]Verdict, 0, len(work.Waiters))
	for _, w := range ordered(work.Waiters, now, cfg.PromoteAfter) {
		if v, given := r.judge(w); given {
			verdicts = append(verdicts, v)
		}
	}
	r.opened()
	return verdicts, r.next, r.wake
}

// round is one pass over the queue.
type round struct {
	load  Load
	fresh bool
	now   time.Time
	cfg   Config
	old   Memory
	next  Memory
	wake  time.Time
	// interrupted: nobody judged for so long that no calm can be vouched for.
	interrupted bool
	// ahead holds, per queue, who still waits in it with the highest limit.
	ahead map[protocol.Subject]blocker
	// went holds, per queue, the lowest limit with which somebody has gone by this judgement.
	went map[protocol.Subject]float64
	// book holds the claims; ended are those that are gone since the last judgement.
	book  *ledger
	ended []Claimed
	// unique: the claims are in order, each one there once.
	unique bool
	// waiting counts those that must wait, for the forecast; forecasts: the ends are in order.
	waiting   int
	forecasts bool
}

type blocker struct {
	subject   protocol.Subject
	dimension string
	limit     float64
}

// interrupted reports whether between two judgements so much time went by, or the clock was set back.
func interrupted(gap time.Duration) bool { return gap < 0 || gap > 2*MaxAge }

func newRound(load Load, mem Memory, now time.Time, cfg Config) *round {
	judged := load.Fresh(now)
	gap := now.Sub(mem.At)
	r := &round{
		load: judged, fresh: len(judged.Unknown()) < len(machine), now: now, cfg: cfg, old: mem,
		interrupted: interrupted(gap),
		next:        Memory{At: now, Held: map[protocol.Subject]Held{}, Turns: map[protocol.Subject]Turn{}},
		ahead:       map[protocol.Subject]blocker{}, went: map[protocol.Subject]float64{},
	}
	for queue, t := range mem.Turns {
		if !r.over(t) {
			r.next.Turns[queue] = t
		}
	}
	return r
}

func (r *round) judge(w Waiter) (Verdict, bool) {
	held, remembered := r.old.Held[w.Subject]
	switch {
	case w.Busy:
		if remembered {
			r.keep(w, r.observe(w, held))
		}
		return Verdict{}, false
	case !w.Held:
		return r.first(w), true
	case !remembered:
		held = r.unremembered(w)
	}
	return r.again(w, r.observe(w, held)), true
}

// first judges a task that was never held.
func (r *round) first(w Waiter) Verdict {
	held := r.observe(w, Held{Since: r.now})
	over := r.overLimit(w, held) // observe has noted all that is above the line, hence all that is over the limit
	b, behind := r.behind(w)
	if !over && !behind {
		v := r.admit(w)
		r.promise(w)
		return v
	}
	if !over {
		held = r.await(w, held, b.dimension)
	}
	r.keep(w, held)
	return r.hold(w, held, b, behind)
}

// again judges a held task.
func (r *round) again(w Waiter, held Held) Verdict {
	b, behind := r.behind(w)
	goes := false
	if !behind {
		goes = r.settled(held) && r.turn(w, held) || r.takesPlace(w, held)
	}
	if !goes {
		r.keep(w, held)
		return r.hold(w, held, b, behind)
	}
	for _, queue := range queues(w, held.Shut) {
		r.next.Turns[queue] = Turn{Sample: r.load.At, At: r.now}
		if lowest, any := r.went[queue]; !any || r.limit(w) < lowest {
			r.went[queue] = r.limit(w)
		}
	}
	v := r.admit(w)
	r.promise(w)
	return v
}

// keep remembers a task that goes on waiting, and puts it in the way of those behind it.
func (r *round) keep(w Waiter, held Held) {
	held.Limit, held.Agent = r.limit(w), w.Agent
	r.next.Held[w.Subject] = held
	pending := r.pending(held)
	for _, queue := range queues(w, pending) {
		if b, any := r.ahead[queue]; !any || held.Limit > b.limit {
			r.ahead[queue] = blocker{w.Subject, waitsIn(queue, w, pending), held.Limit}
		}
	}
	r.wakeFor(held)
}

// behind finds somebody before w who waits for the same thing and would be overtaken. One with a lower limit
// is not: it may have to wait where w need not.
func (r *round) behind(w Waiter) (blocker, bool) {
	for _, queue := range [...]protocol.Subject{machineQueue, diskQueue(w.Subject.Project), w.Agent} {
		if b, any := r.ahead[queue]; any && b.limit >= r.limit(w)-tiny {
			return b, true
		}
	}
	return blocker{}, false
}

// turn reports whether nobody of the task's queues has gone on this sample yet, or claims tell what another start means.
func (r *round) turn(w Waiter, held Held) bool {
	if r.book.cores > 0 && r.book.total > 0 && len(held.Shut) > 0 && claimable(held.Shut) {
		return true
	}
	for _, queue := range queues(w, held.Shut) {
		if _, taken := r.next.Turns[queue]; taken {
			return false
		}
	}
	return true
}

// over reports whether a turn no longer counts: a newer sample is there or, when no sample comes any more,
// the calm time has gone by.
func (r *round) over(t Turn) bool {
	if !t.Sample.Equal(r.load.At) {
		return true
	}
	since := r.now.Sub(t.At)
	return !r.fresh && (since < 0 || since >= r.cfg.Calm)
}

func (r *round) limit(w Waiter) float64 { return w.Throttle.Or(r.cfg.Threshold) }

// limitOn is the limit on one dimension. A disk is no load: a disk at 85 % has room for any task, so its own limit counts
// where that is higher.
func (r *round) limitOn(w Waiter, dimension string) float64 {
	if dimension == DimDisk {
		return max(r.limit(w), r.cfg.DiskFullAt(r.load.Disks[w.Subject.Project]))
	}
	return r.limit(w)
}

// line is how low a held task's dimension must be. Below a very small limit the full hysteresis would
// leave nothing to fall to.
func (r *round) line(w Waiter, dimension string) float64 {
	limit := r.limitOn(w, dimension)
	below := min(r.cfg.Hysteresis, limit/2)
	if dimension == DimDisk {
		below = min(below, r.cfg.diskStep(r.load.Disks[w.Subject.Project]))
	}
	return limit - below
}

// used is how full a dimension is for a task: the reading, with what is promised to others.
func (r *round) used(w Waiter, dimension string) (float64, bool) {
	reading, known := r.share(w, dimension).Value()
	if !known {
		return 0, false
	}
	return r.projected(w, dimension, reading), true
}

// share is a reading that counts. A dimension that is configured away reads as unknown, and so never binds.
func (r *round) share(w Waiter, dimension string) protocol.Share {
	if !r.counts(dimension) || w.Person && dimension != DimMemory && dimension != DimFiles {
		return protocol.Share{}
	}
	if dimension == DimAgent {
		return w.AgentUsed
	}
	return r.load.Of(w.Subject.Project).Share(dimension)
}

// counts reports whether a dimension is not configured away.
func (r *round) counts(dimension string) bool {
	return r.cfg.Dimensions == nil || slices.Contains(r.cfg.Dimensions, dimension)
}

func (r *round) wakeAt(t time.Time) {
	if t.After(r.now) && (r.wake.IsZero() || t.Before(r.wake)) {
		r.wake = t
	}
}

// wakeFor asks to be called when a held task may have become ready without another sample.
func (r *round) wakeFor(held Held) {
	if due, any := r.due(held); any {
		r.wakeAt(due)
	}
	if r.fresh {
		r.wakeAt(r.load.At.Add(MaxAge + 1)) // from here on the sample says nothing any more
		return
	}
	for _, t := range r.next.Turns {
		r.wakeAt(t.At.Add(r.cfg.Calm))
	}
}
