package measure

import (
	"bytes"
	"errors"
	"time"
)

// The meaning of the kernel's stall times (Linux: PSI) for the share of memory. If some programs were stalled on memory
// for a tenth of the last two seconds, memory is nearly used up, whatever the page counts say. If all were stalled for
// a twentieth, it is used up.
const (
	pressureWindow = 2 * time.Second
	someAtWarn     = 0.10
	fullAtCritical = 0.05
)

// bootCalm is how long after boot stalls are ignored, because everything starts at once then.
const bootCalm = time.Minute

// waited is how long programs were stalled on a resource, in µs since boot: some of them, and all at once.
type waited struct{ some, full uint64 }

// parsePressure reads /proc/pressure/*. The shortest average in it covers ten seconds, which is too slow, so the totals
// are compared instead. Old kernels have no "full" for the processor.
func parsePressure(text []byte) (waited, error) {
	var w waited
	seen := false
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		kind, rest, _ := bytes.Cut(line, []byte{' '})
		_, total, _ := bytes.Cut(rest, []byte("total="))
		n, ok := single(total)
		if !ok {
			return waited{}, errors.New("read pressure: a line without its total")
		}
		switch string(kind) {
		case "some":
			w.some, seen = n, true
		case "full":
			w.full = n
		}
	}
	if !seen {
		return waited{}, errors.New("read pressure: nothing usable is there")
	}
	return w, nil
}

// stalls are the readings for the processor and for memory.
type stalls struct{ cpu, memory waiting }

// waiting keeps the readings of the last seconds.
type waiting struct {
	past [12]waitedAt
	next int
}

type waitedAt struct {
	waited
	at time.Time
}

// add records a reading and returns the shares of the last two seconds or, with less frequent samples, of the time
// since the previous reading. They are unknown until a reading is that old: over half a second one short spike would
// look like pressure.
func (g *waiting) add(w waited, now time.Time) (some, full float64, known bool) {
	var base, newest waitedAt
	for _, p := range g.past {
		age := now.Sub(p.at)
		if !p.at.IsZero() && age >= pressureWindow && age <= longest && p.at.After(base.at) {
			base = p
		}
		if p.at.After(newest.at) {
			newest = p
		}
	}
	if since := now.Sub(newest.at); since < 0 { // a stepped clock
		*g = waiting{}
	} else if since < shortest {
		return g.shares(base, w, now)
	}
	g.past[g.next] = waitedAt{w, now}
	g.next = (g.next + 1) % len(g.past)
	return g.shares(base, w, now)
}

func (g *waiting) shares(base waitedAt, w waited, now time.Time) (some, full float64, known bool) {
	if base.at.IsZero() || w.some < base.some || w.full < base.full {
		return 0, 0, false
	}
	window := float64(now.Sub(base.at).Microseconds())
	return min(float64(w.some-base.some)/window, 1), min(float64(w.full-base.full)/window, 1), true
}

// need returns the smallest share of memory implied by the stalls; 0 for none.
func need(some, full float64) float64 {
	switch {
	case full >= fullAtCritical:
		return usedAtCritical
	case some >= someAtWarn:
		return usedAtWarn
	}
	return 0
}
