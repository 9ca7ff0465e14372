package capacity

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// Waiter is a task that is not in progress yet. A task held for another reason than capacity is not a Waiter.
type Waiter struct {
	Subject  protocol.Subject  `json:"subject"`
	Priority protocol.Priority `json:"priority"`
	// Since is when the task began to wait: its age in the queue. Zero counts as now.
	Since time.Time `json:"since,omitzero"`
	// Throttle is the highest used share that the task allows (000: throttle_capacity); unknown: Config.Threshold.
	Throttle protocol.Share `json:"throttle"`
	// Agent is the agent that is to do the task; zero if none is named. Tasks with the same Agent queue for it.
	Agent protocol.Subject `json:"agent,omitzero"`
	// Kind is the key under which its cost is learnt (see Claim).
	Kind string `json:"kind,omitempty"`
	// AgentUsed is the agent's own used share while its beat is fresh, else unknown.
	AgentUsed protocol.Share `json:"agent_used"`
	// Held: the task's files say that it is held for capacity. Otherwise this is its first judgement.
	Held bool `json:"held"`
	// Idle: no agent is there to take the task. It may be admitted, but gets no reservation.
	Idle bool `json:"idle,omitempty"`
	// Person: a user at a terminal starts the task. It waits for memory and open files only: a busy processor just
	// makes it slow, which the user can see.
	Person bool `json:"person,omitempty"`
	// Busy: its project is being changed. Its memory is kept, and it gets no verdict.
	Busy bool `json:"busy,omitempty"`
}

// Work is everything that uses or requests capacity: the waiting tasks and the reservations.
type Work struct {
	Waiters      []Waiter
	Reservations []Reservation
	// Ended holds the reservations that are gone and have a result.
	Ended map[protocol.Subject]Ended
}

// Ended describes how a reservation ended.
type Ended struct {
	At time.Time
	// Took is the duration that the result states; 0 if it states none.
	Took time.Duration
	// Well: the work succeeded, so its cost can be learnt.
	Well bool
}

// Verdict is the decision on one Waiter.
type Verdict struct {
	Subject protocol.Subject `json:"subject"`
	Admit   bool             `json:"admit"`
	// Gate is the gate that keeps the task waiting. It is zero when the task is admitted.
	Gate protocol.Gate `json:"gate,omitzero"`
	// RetryAfter is the wait that a waiting task is told.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	protocol.Cause
}

// tiny absorbs rounding errors in computed shares such as 1 − 0.2.
const tiny = 1e-9

// Admit judges every waiter. It returns the verdicts in queue order, the Memory for the next judgement, and the
// earliest time at which a verdict could change without a new sample (zero: never).
//
// At its first judgement a task is admitted if no dimension exceeds its limit and no task before it in the queue waits
// for the same dimension with a limit at least as high. A held task is admitted under the same queue condition if every
// dimension has stayed Hysteresis below its limit for Calm (CalmMemory for memory) and no other task of the machine's
// queue or of its agent's queue was released on this sample. Each start changes the readings, so one task is released
// and then the load is read again.
//
// An unknown dimension neither shuts a gate nor proves it open: a task held for it is released once the dimension has
// been unreadable for RetryAfter. If every dimension is unknown, all tasks are admitted at their first judgement: a
// broken gauge must not stop work.
func Admit(work Work, load Load, mem Memory, now time.Time, cfg Config) ([]Verdict, Memory, time.Time) {
	r := newRound(load, mem, now, cfg)
	r.reserve(work)
	verdicts := make([]Verdict, 0, len(work.Waiters))
	for _, w := range ordered(work.Waiters, now, cfg.PromoteAfter) {
		if v, given := r.judge(w); given {
			verdicts = append(verdicts, v)
		}
	}
	r.opened()
	return verdicts, r.next, r.wake
}

// readings say how full the machine is for a task: the load, and what is reserved for others.
type readings struct {
	load     Load
	cfg      Config
	now      time.Time
	reserved *reservations
	next     Memory // as it becomes by this judgement
}

// round is one pass over the queue.
type round struct {
	readings
	fresh bool
	old   Memory
	wake  time.Time
	// interrupted: the last judgement is so long ago that calm cannot be assumed.
	interrupted bool
	// ahead holds, per queue, the waiting task with the highest limit.
	ahead map[protocol.Subject]blocker
	// went holds, per queue, the lowest limit with which a task was released by this judgement.
	went map[protocol.Subject]float64
	// ended holds the reservations that ended since the last judgement.
	ended []Reserved
	// waiting counts the waiting tasks, for the forecast.
	waiting int
}

type blocker struct {
	subject   protocol.Subject
	dimension string
	limit     float64
}

// interrupted reports whether the gap between two judgements is too long, or the clock was set back.
func interrupted(gap time.Duration) bool { return gap < 0 || gap > 2*MaxAge }

func newRound(load Load, mem Memory, now time.Time, cfg Config) *round {
	judged := load.Fresh(now)
	gap := now.Sub(mem.At)
	r := &round{
		readings: readings{load: judged, cfg: cfg, now: now,
			next: Memory{At: now, Held: map[protocol.Subject]Held{}, Turns: map[protocol.Subject]Turn{}}},
		fresh: len(judged.Unknown()) < len(machine), old: mem,
		interrupted: interrupted(gap),
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
	over := r.overLimit(w, held) // observe has recorded everything above the line, hence everything above the limit
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

// keep records a task that goes on waiting as the blocker of the tasks behind it.
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

// behind returns a task before w that waits for the same dimension and would be overtaken. A task with a lower limit is
// not a blocker: it may have to wait where w need not.
func (r *round) behind(w Waiter) (blocker, bool) {
	for _, queue := range [...]protocol.Subject{machineQueue, diskQueue(w.Subject.Project), w.Agent} {
		if b, any := r.ahead[queue]; any && b.limit >= r.limit(w)-tiny {
			return b, true
		}
	}
	return blocker{}, false
}

// turn reports whether no task of w's queues was released on this sample yet, or whether reservations predict the effect of
// another start.
func (r *round) turn(w Waiter, held Held) bool {
	if r.reserved.cores > 0 && r.reserved.total > 0 && len(held.Shut) > 0 && claimable(held.Shut) {
		return true
	}
	for _, queue := range queues(w, held.Shut) {
		if _, taken := r.next.Turns[queue]; taken {
			return false
		}
	}
	return true
}

// over reports whether a turn no longer counts: there is a newer sample or, if samples have stopped, the calm time is
// over.
func (r *round) over(t Turn) bool {
	if !t.Sample.Equal(r.load.At) {
		return true
	}
	since := r.now.Sub(t.At)
	return !r.fresh && (since < 0 || since >= r.cfg.Calm)
}

func (r *readings) limit(w Waiter) float64 { return w.Throttle.Or(r.cfg.Threshold) }

// limitOn returns the limit on one dimension. A disk is not a load: a disk at 85 % has room for any task, so the disk's
// own limit applies where it is higher.
func (r *readings) limitOn(w Waiter, dimension string) float64 {
	if dimension == DimDisk {
		return max(r.limit(w), r.cfg.DiskFullAt(r.load.Disks[w.Subject.Project]))
	}
	return r.limit(w)
}

// line is the share to which a held task's dimension must fall. With a very small limit the full hysteresis would leave
// nothing to fall to, so at most half of the limit is subtracted.
func (r *readings) line(w Waiter, dimension string) float64 {
	limit := r.limitOn(w, dimension)
	below := min(r.cfg.Hysteresis, limit/2)
	if dimension == DimDisk {
		below = min(below, r.cfg.diskStep(r.load.Disks[w.Subject.Project]))
	}
	return limit - below
}

// used returns how full a dimension is for a task: the reading plus the reservations of others.
func (r *readings) used(w Waiter, dimension string) (float64, bool) {
	reading, known := r.share(w, dimension).Value()
	if !known {
		return 0, false
	}
	return r.projected(w, dimension, reading), true
}

// share returns a reading if it counts for the task. A dimension disabled by configuration is unknown, so it never
// binds.
func (r *readings) share(w Waiter, dimension string) protocol.Share {
	if !r.counts(dimension) || w.Person && dimension != DimMemory && dimension != DimFiles {
		return protocol.Share{}
	}
	if dimension == DimAgent {
		return w.AgentUsed
	}
	return r.load.Of(w.Subject.Project).Share(dimension)
}

// counts reports whether the configuration enables a dimension.
func (r *readings) counts(dimension string) bool {
	return r.cfg.Dimensions == nil || slices.Contains(r.cfg.Dimensions, dimension)
}

func (r *round) wakeAt(t time.Time) {
	if t.After(r.now) && (r.wake.IsZero() || t.Before(r.wake)) {
		r.wake = t
	}
}

// wakeFor schedules a wake-up for when a held task may become ready without another sample.
func (r *round) wakeFor(held Held) {
	if due, any := r.due(held); any {
		r.wakeAt(due)
	}
	if r.fresh {
		r.wakeAt(r.load.At.Add(MaxAge + 1)) // from then on the sample is too old
		return
	}
	for _, t := range r.next.Turns {
		r.wakeAt(t.At.Add(r.cfg.Calm))
	}
}
