package agentstatus

import "hash/maphash"

// listing is a folder's names as the last census met them, one after the other. Folders give their names in much the same
// order each time, so that a name is found where it is expected: to look each up among 100,000 tasks all over the
// memory takes ten times as long.
type listing struct {
	seed maphash.Seed
	was  []tick // the last census
	at   int    // how far this one has come in it
	now  []tick
}

// tick is one name of a task that is settled. Of the name only a sum is kept: 64 bits with a secret seed, compared with
// few others, are never wrong.
type tick struct {
	sum  uint64
	task *settled
	kind names
}

func newRound() *listing { return &listing{seed: maphash.MakeSeed()} }

// roundAhead is how many names may have gone in a row until those that follow are looked up one by one.
const roundAhead = 16

// find gives the task that the name stood for, if it stands for it still.
func (r *listing) find(sum uint64) (tick, bool) {
	for i, end := r.at, min(r.at+roundAhead, len(r.was)); i < end; i++ {
		if r.was[i].sum == sum {
			r.at = i + 1
			return r.was[i], !r.was[i].task.off
		}
	}
	return tick{}, false
}

// tick takes note that the name was met.
func (r *listing) tick(t tick) {
	t.task.seen |= t.kind
	r.now = append(r.now, t)
}

// turn ends a census.
func (r *listing) turn() { r.was, r.now, r.at = r.now, r.was[:0], 0 }
