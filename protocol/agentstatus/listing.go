package agentstatus

import "hash/maphash"

// listing holds a folder's names in the order in which the last census found them. A folder returns its names in much
// the same order each time, so a name is found near its expected position. Looking up each name in a map of 100,000
// tasks takes ten times as long.
type listing struct {
	seed maphash.Seed
	was  []tick // the last census
	at   int    // position of the current census in was
	now  []tick
}

// tick is one file name of a settled task. Only a hash of the name is kept: with 64 bits, a secret seed and few
// comparisons, a collision is practically impossible.
type tick struct {
	sum  uint64
	task *settled
	kind names
}

func newRound() *listing { return &listing{seed: maphash.MakeSeed()} }

// roundAhead is how many removed names in a row find can skip. After more, it misses the names that follow, and each
// of them is parsed and looked up.
const roundAhead = 16

// find returns the tick of a name, and whether its task is still settled.
func (r *listing) find(sum uint64) (tick, bool) {
	for i, end := r.at, min(r.at+roundAhead, len(r.was)); i < end; i++ {
		if r.was[i].sum == sum {
			r.at = i + 1
			return r.was[i], !r.was[i].task.off
		}
	}
	return tick{}, false
}

// tick records that the name was found.
func (r *listing) tick(t tick) {
	t.task.seen |= t.kind
	r.now = append(r.now, t)
}

// turn ends a census.
func (r *listing) turn() { r.was, r.now, r.at = r.now, r.was[:0], 0 }
