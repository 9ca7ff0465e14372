package escalate

import "time"

// The limits within which notices are sent singly, and how the rest is grouped.
// See docs/decisions.md, "Reminders due within ten seconds go together".
const (
	burstOver   = 3 // this many within burstWithin are sent singly
	burstWithin = 10 * time.Second
	burstQuiet  = time.Second // the summary goes out after this long without a new notice, or at the end of burstWithin
)

// burstMember is an incident's notice as part of a dispatch.
type burstMember struct {
	key string
	rev int
}

// burst separates a few notices, which are sent at once, from many, which are grouped into a summary.
type burst struct {
	recent  []time.Time // times of the latest notices, at most burstOver+1
	waiting []burstMember
	newest  time.Time
	// until is the end of the latest burst. Sentences wait for it, so that the whole burst is one sentence.
	until time.Time
}

// single counts a notice and reports whether it may be sent singly.
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

// join adds a notice to the summary that already shows its incident.
func (b *burst) join(m burstMember, now time.Time) {
	b.newest = now
	if !b.on(now) {
		b.until = now.Add(burstQuiet)
	}
	b.waiting = append(b.waiting, m)
}

// due is when the summary goes out; zero if no notice waits.
func (b *burst) due() time.Time {
	if len(b.waiting) == 0 {
		return time.Time{}
	}
	return earlier(b.newest.Add(burstQuiet), b.until)
}

// take returns the waiting notices and clears the list.
func (b *burst) take() []burstMember {
	w := b.waiting
	b.waiting = nil
	return w
}
