package escalate

import "time"

// How many notices come one by one, and how the rest is gathered.
const (
	burstOver   = 3 // so many in burstWithin are told one by one
	burstWithin = 10 * time.Second
	burstQuiet  = time.Second // the summary goes out when no further one came for so long, or burstWithin is over
)

// member is an incident's notice that is part of a call.
type member struct {
	key string
	rev int
}

// burst tells few notices, which go out at once, from many, which are gathered into a summary.
type burst struct {
	key     string      // of the summary's popup: there is never more than one
	recent  []time.Time // the latest, at most burstOver+1
	waiting []member
	newest  time.Time
	// until is the end of the burst that was noticed last: sentences wait for it, so that there is only one.
	until time.Time
}

// single counts a notice and reports whether it may go out by itself.
func (b *burst) single(now time.Time) bool {
	for len(b.recent) > 0 && (len(b.recent) > burstOver || now.Sub(b.recent[0]) >= burstWithin) {
		b.recent = b.recent[1:]
	}
	b.recent = append(b.recent, now)
	if len(b.recent) <= burstOver && len(b.waiting) == 0 {
		return true
	}
	if !b.on(now) {
		start := b.recent[0]
		if b.until.After(start) {
			start = b.until
		}
		b.until = start.Add(burstWithin)
	}
	b.newest = now
	return false
}

func (b *burst) on(now time.Time) bool { return now.Before(b.until) }

func (b *burst) add(m member) { b.waiting = append(b.waiting, m) }

// join adds one to the summary that it belongs to already.
func (b *burst) join(m member, now time.Time) {
	b.newest = now
	if !b.on(now) {
		b.until = now.Add(burstQuiet)
	}
	b.add(m)
}

// due is when the summary goes out; zero while there is none.
func (b *burst) due() time.Time {
	if len(b.waiting) == 0 {
		return time.Time{}
	}
	return earlier(b.newest.Add(burstQuiet), b.until)
}

// take hands over those that were gathered.
func (b *burst) take() []member {
	w := b.waiting
	b.waiting = nil
	return w
}
