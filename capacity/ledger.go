package capacity

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// ledger is what is promised beside the readings. CPU is counted in cores and memory in bytes. It binds only while the
// size of the machine is known.
//
// An example, on four cores. Others take one core; a task of a minute's age takes another one: the reading is 2. Now a task
// is admitted that is expected to take one core. Nothing of it shows yet: base 2, young 1, so the next one meets 3. Two seconds
// later somebody has taken it, and the reading is 3: four fifths of its cost are still counted as young, and one fifth has
// faded. The base stays 2 (it may be no less than the reading without the young claim, and no more than the reading), so the
// next one meets base 2 + young 0.8 + of the one core that the reading shows above the base, the 0.2 that have faded: 3
// still. After ten seconds all of it has faded, and the base is the reading.
type ledger struct {
	cores, total float64
	// base is the load without the young claims, as far as it can be told; young is what these are expected to add.
	cpu, mem struct{ reading, base, young float64 }
	// others is what of the base is not that of claims either, in cores, as far as it can be told.
	others float64
	live   int
	ends   []time.Duration // how long the claims are expected to last, where known
	mean   time.Duration
}

// sums are the claims of one dimension added up.
type sums struct {
	// young is what is still to come of young claims with what they take already; faded what has faded of their cost and
	// may be in use; expected all that they may hold of the reading.
	young, faded, expected float64
	// goOn is what work takes that was taken and goes on; own what was measured of it; settled what was measured of such as
	// is no longer young, aged what such is expected to take where nobody can measure it, too.
	goOn, own, settled, aged float64
}

// openLedger enters the claims, and what has ended since the last judgement.
func (r *round) openLedger(work Work) {
	r.next.Learnt = r.old.Learnt
	b := &ledger{cores: r.load.Cores, total: float64(r.load.MemoryTotal)}
	r.book = b
	var cpu, mem sums
	r.unique = unique(work.Claims)
	r.settleEnded(work)
	counting := r.counting(work)
	kept, same := make([]Claimed, 0, len(counting)), len(counting) == len(r.old.Claims) && r.unique
	for _, c := range counting {
		was, known := r.old.Claims[c.Subject]
		cost := r.cost(c.Kind)
		k := r.addCores(&cpu, c, was, cost.Cores)
		kept, same = append(kept, k), same && known && k == was
		if c.Overdue && c.Measured == nil {
			continue
		}
		b.live++
		addMemory(&mem, c, float64(cost.Memory))
		r.expectEnd(c, cost)
	}
	r.remember(counting, kept, same)
	// A full processor does not show how much more was asked of it: what goes on may take at once what has come free.
	reading := r.load.CPU.Or(0) * b.cores
	b.cpu.reading = max(reading-r.credit(), min(reading, cpu.goOn))
	b.cpu.base = r.baseline(r.faded(b.cpu.reading-cpu.expected)-r.matureEnded(), b.cpu.reading, cpu.expected)
	b.cpu.base = max(b.cpu.base, min(b.cpu.reading, cpu.settled)) // that much of the reading is surely not the young claims'
	b.others = max(0, b.cpu.base-cpu.aged)
	b.cpu.young = cpu.young + min(b.cpu.reading-b.cpu.base, cpu.faded)
	b.mem.reading = r.load.Memory.Or(0) * b.total
	b.mem.base = min(r.baseline(r.old.BaseMemory, b.mem.reading, mem.expected), max(0, b.mem.reading-mem.own))
	b.mem.young = mem.young
	r.next.BaseCores, r.next.BaseMemory = b.cpu.base, b.mem.base
}

// addCores adds what a claim means for the processor, and gives what to remember of the claim.
func (r *round) addCores(sum *sums, c Claim, was Claimed, cost float64) (kept Claimed) {
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

// addMemory adds what a claim means for memory, to its end: what was measured of it is in the reading.
func addMemory(sum *sums, c Claim, cost float64) {
	if c.Measured == nil {
		sum.young, sum.expected = sum.young+cost, sum.expected+cost
		return
	}
	held := float64(c.Measured.Memory)
	sum.young, sum.expected, sum.own = sum.young+max(cost, held), sum.expected+held, sum.own+held
}

// remember keeps the claims for the next judgement; while they are the same as before, in the map that there is.
func (r *round) remember(claims []Claim, kept []Claimed, same bool) {
	switch {
	case len(claims) == 0:
	case same:
		r.next.Claims = r.old.Claims
	default:
		r.next.Claims = make(map[protocol.Subject]Claimed, len(claims))
		for i, c := range claims {
			r.next.Claims[c.Subject] = kept[i]
		}
	}
}

// unique reports whether the claims are in the order of their subjects, each one there once.
func unique(claims []Claim) bool {
	for i := 1; i < len(claims); i++ {
		if compareSubjects(claims[i-1].Subject, claims[i].Subject) >= 0 {
			return false
		}
	}
	return true
}

// baseline is what the machine carries without the claims: as before, as far as the reading allows. What exceeds all
// that the claims may take is not theirs.
func (r *round) baseline(before, reading, expected float64) float64 {
	if r.interrupted || expected == 0 {
		before = reading
	}
	return min(max(before, reading-expected, 0), reading)
}

// faded is the old baseline of the processor, moved towards the least that it can be now: under an unbroken stream of work
// the rest of the machine may have come to rest, and no reading would ever show that.
func (r *round) faded(least float64) float64 {
	before := r.old.BaseCores
	if over := before - max(least, 0); over > 0 && r.cfg.ClaimDecays > 0 {
		before -= over * min(1, float64(r.now.Sub(r.old.At))/float64(r.cfg.ClaimDecays))
	}
	return before
}

// promise enters work that is admitted by this very judgement, if somebody is there to take it.
func (r *round) promise(w Waiter) {
	if w.Idle {
		return
	}
	cost := r.cost(w.Kind)
	r.book.live++
	r.book.cpu.young += cost.Cores
	r.book.mem.young += float64(cost.Memory)
}

// projected is the share that counts against a task's limit. For the processor it is what the others take or were
// promised, and half of what the task needs must be idle besides: a processor that is asked for too much is only slow.
// For memory it includes all that the task itself is expected to need. Where nothing was promised to anybody the
// readings alone count: claims never shut an idle machine.
func (r *round) projected(w Waiter, dimension string, reading float64) float64 {
	b := r.book
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
