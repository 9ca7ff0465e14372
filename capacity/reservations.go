package capacity

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// reservations are what is promised to tasks in addition to the readings. CPU is counted in cores and memory in bytes. It applies
// only if the size of the machine is known.
//
// Example, on four cores: other processes use one core, and a task that is a minute old uses another, so the reading is
// 2. Now a task with an expected cost of one core is admitted. Nothing of it shows yet: base 2, young 1, so the next
// task sees 3. Two seconds later an agent has taken it, and the reading is 3. Four fifths of its cost are still counted
// as young, and one fifth has faded. The base stays 2 (it is at least the reading without the young reservation and at most
// the reading). The next task therefore sees base 2 + young 0.8 + 0.2, the faded part of the one core that the reading
// shows above the base: still 3. After ten seconds the whole cost has faded, and the base is the reading.
// See docs/decisions.md, "Reservations count beside the readings".
type reservations struct {
	cores, total float64
	// base is the estimated load without the young reservations; young is the load that those reservations are expected to add.
	cpu, mem struct{ reading, base, young float64 }
	// others is the estimated part of the base that does not belong to any reservation, in cores.
	others float64
	live   int
	ends   []time.Duration // expected remaining time of the claims, where known
	mean   time.Duration
}

// sums are the totals of the reservations in one dimension.
type sums struct {
	// young is the outstanding cost of young reservations plus their measured use; faded is the part of their cost that has
	// faded and may be in use; expected is the most that they may contribute to the reading.
	young, faded, expected float64
	// goOn is the use of work that was taken and continues; own is the measured use of the reservations; settled is the
	// measured use of reservations that are no longer young; aged is settled plus the expected use of such reservations that cannot
	// be measured.
	goOn, own, settled, aged float64
}

// reserve records the reservations and the work that has ended since the last judgement.
func (r *round) reserve(work Work) {
	r.next.Learnt = r.old.Learnt
	b := &reservations{cores: r.load.Cores, total: float64(r.load.MemoryTotal)}
	r.reserved = b
	var cpu, mem sums
	r.settleEnded(work)
	counting := r.counting(work)
	if len(counting) > 0 {
		r.next.Reservations = make(map[protocol.Subject]Reserved, len(counting))
	}
	for _, c := range counting {
		cost := r.cost(c.Kind)
		r.next.Reservations[c.Subject] = r.addCores(&cpu, c, r.old.Reservations[c.Subject], cost.Cores)
		if c.Overdue && c.Measured == nil {
			continue
		}
		b.live++
		addMemory(&mem, c, float64(cost.Memory))
		r.expectEnd(c, cost)
	}
	slices.Sort(b.ends)
	// A saturated processor hides the excess demand: continuing work may use freed capacity at once.
	reading := r.load.CPU.Or(0) * b.cores
	b.cpu.reading = max(reading-r.credit(), min(reading, cpu.goOn))
	b.cpu.base = r.baseline(r.faded(b.cpu.reading-cpu.expected)-r.matureEnded(), b.cpu.reading, cpu.expected)
	b.cpu.base = max(b.cpu.base, min(b.cpu.reading, cpu.settled)) // the settled part is not the young claims'
	b.others = max(0, b.cpu.base-cpu.aged)
	b.cpu.young = cpu.young + min(b.cpu.reading-b.cpu.base, cpu.faded)
	b.mem.reading = r.load.Memory.Or(0) * b.total
	b.mem.base = min(r.baseline(r.old.BaseMemory, b.mem.reading, mem.expected), max(0, b.mem.reading-mem.own))
	b.mem.young = mem.young
	r.next.BaseCores, r.next.BaseMemory = b.cpu.base, b.mem.base
}

// addCores adds the processor use of a reservation, and returns what to remember of the reservation.
func (r *round) addCores(sum *sums, c Reservation, was Reserved, cost float64) (kept Reserved) {
	kept = was.with(c)
	young, measured := c.fresh(r.now, r.cfg), max(0, c.cores())
	kept.Cores, kept.Mature = cost, young == 0
	if c.cores() >= 0 {
		kept.Cores = measured
	}
	if kept.Absent = (time.Time{}); c.Absent {
		kept.Absent = was.absentSince(r.now)
	}
	if !c.Taken.IsZero() {
		sum.goOn += kept.Cores
	}
	if young == 0 {
		sum.settled, sum.aged = sum.settled+measured, sum.aged+kept.Cores
		return kept
	}
	all, pending := max(cost, measured), measured+max(0, cost-measured)*young
	sum.young, sum.faded = sum.young+pending, sum.faded+all-pending
	if !c.Taken.IsZero() || !c.Told {
		sum.expected += all
	}
	return kept
}

// addMemory adds the memory of a reservation until the reservation ends. Measured memory is in the reading.
func addMemory(sum *sums, c Reservation, cost float64) {
	if c.Measured == nil {
		sum.young, sum.expected = sum.young+cost, sum.expected+cost
		return
	}
	held := float64(c.Measured.Memory)
	sum.young, sum.expected, sum.own = sum.young+max(cost, held), sum.expected+held, sum.own+held
}

// baseline estimates the load without the reservations: the previous estimate, corrected by the reading. Load above the
// maximum that the reservations may use is not theirs.
func (r *round) baseline(before, reading, expected float64) float64 {
	if r.interrupted || expected == 0 {
		before = reading
	}
	return min(max(before, reading-expected, 0), reading)
}

// faded returns the previous processor baseline, moved towards the lowest value that it can have now. Under an unbroken
// stream of work the rest of the machine may have become idle, and no reading would ever show that.
func (r *round) faded(least float64) float64 {
	before := r.old.BaseCores
	if over := before - max(least, 0); over > 0 && r.cfg.ClaimDecays > 0 {
		before -= over * min(1, float64(r.now.Sub(r.old.At))/float64(r.cfg.ClaimDecays))
	}
	return before
}

// promise adds a reservation for work admitted by this judgement, if an agent is there to take it.
func (r *readings) promise(w Waiter) {
	if w.Idle {
		return
	}
	cost := r.cost(w.Kind)
	r.reserved.live++
	r.reserved.cpu.young += cost.Cores
	r.reserved.mem.young += float64(cost.Memory)
}

// projected returns the share to compare with a task's limit. For the processor it is the use and the reservations of
// others; in addition, half of the task's own need must be idle, because an oversubscribed processor is merely slow.
// For memory it includes the whole expected need of the task. Without any reservations or reservations the readings alone
// count: reservations never shut an idle machine. See docs/decisions.md, "Half of a task's processor demand must be idle, and all of its memory".
func (r *readings) projected(w Waiter, dimension string, reading float64) float64 {
	b := r.reserved
	switch {
	case b.live == 0 && dimension == DimCPU && b.cores > 0:
		return b.cpu.reading / b.cores
	case b.live == 0:
	case dimension == DimCPU && b.cores > 0:
		others := max(b.cpu.reading, b.cpu.base+b.cpu.young) / b.cores
		half := min(r.cost(w.Kind).Cores/b.cores, 1) / 2
		return max(others, others+half-1+r.limit(w))
	case dimension == DimMemory && b.total > 0:
		return (max(b.mem.reading, b.mem.base+b.mem.young) + float64(r.cost(w.Kind).Memory)) / b.total
	}
	return reading
}
