package heartbeat

import "time"

// Resumed reports whether the machine slept, or its clock was set, between two looks of a running loop:
// a gap over three looks, a clock that went back by more than one, or wall clock and monotonic clock
// (where both times carry it) moving apart by more than one.
func Resumed(prev, now time.Time, lookEvery time.Duration) bool {
	if prev.IsZero() {
		return false
	}
	// Sub prefers the monotonic clock, and that one stands still while a Linux machine sleeps.
	return resumed(now.Round(0).Sub(prev.Round(0)), now.Sub(prev), lookEvery)
}

func resumed(gap, monotonic, lookEvery time.Duration) bool {
	lookEvery = max(lookEvery, leastLook)
	apart := gap - monotonic
	return gap > 3*lookEvery || gap < -lookEvery || apart > lookEvery || apart < -lookEvery
}

// leastLook keeps a busy machine that is a second late, with looks that follow each other closely, from counting as
// one that slept.
const leastLook = time.Second

// The times that JSON can write; a file's mtime can lie outside them.
const (
	firstSecond = -62135596800 // year 1
	lastSecond  = 253402300799 // year 9999
)

// wall gives the bare wall clock reading in UTC, so that a Memory read back from disk equals the one
// written. A time that could not be written counts as none: it must not keep the Memory of all agents
// from reaching the disk.
func wall(t time.Time) time.Time {
	if s := t.Unix(); s < firstSecond || s > lastSecond {
		return time.Time{}
	}
	return t.Round(0).UTC()
}
