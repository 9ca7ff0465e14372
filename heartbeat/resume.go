package heartbeat

import "time"

// Resumed reports whether the machine slept or its clock was set between two scans of a running loop: a gap of more
// than three intervals, a clock that went back by more than one, or wall clock and monotonic clock (where both times
// carry it) diverging by more than one.
func Resumed(prev, now time.Time, lookEvery time.Duration) bool {
	if prev.IsZero() {
		return false
	}
	// Sub prefers the monotonic clock, which stands still while a Linux machine sleeps.
	return resumed(now.Round(0).Sub(prev.Round(0)), now.Sub(prev), lookEvery)
}

func resumed(gap, monotonic, lookEvery time.Duration) bool {
	lookEvery = max(lookEvery, leastLook)
	apart := gap - monotonic
	return gap > 3*lookEvery || gap < -lookEvery || apart > lookEvery || apart < -lookEvery
}

// leastLook is the smallest interval assumed, so that with very frequent scans a busy machine that is a second late
// does not count as one that slept. See docs/decisions.md, "A resume needs a gap of at least three seconds".
const leastLook = time.Second

// The range of times that JSON can represent; the mtime of a file can lie outside it.
const (
	firstSecond = -62135596800 // year 1
	lastSecond  = 253402300799 // year 9999
)

// wall returns the bare wall clock reading in UTC, so that a Memory read back from disk equals the one written. A time
// that JSON cannot represent becomes zero; otherwise it would keep the Memory of every agent from being written.
func wall(t time.Time) time.Time {
	if s := t.Unix(); s < firstSecond || s > lastSecond {
		return time.Time{}
	}
	return t.Round(0).UTC()
}
