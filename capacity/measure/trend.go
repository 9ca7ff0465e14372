package measure

import (
	"time"

	"github.com/livhana/steward/capacity"
)

const (
	// soon: a table that fills up within this time counts as full for a task that starts now.
	soon = 30 * time.Second
	// sight: a predicted end further away than this is a guess.
	sight = 10 * time.Minute
	// step: a rate measured over less time is mostly chance.
	step = 400 * time.Millisecond
)

// files is the system's open file table.
type files struct{ open, limit uint64 }

// used returns the used share. A limit such as 2^63-1, the Linux default, is real, so the share is correctly near 0.
// The superuser may exceed the limit; the share is then 1.
func (f files) used() float64 {
	if f.limit == 0 {
		return 0
	}
	return min(float64(f.open)/float64(f.limit), 1)
}

// trend measures how fast a table fills up.
type trend struct {
	files
	at   time.Time
	pace float64 // increase per second
	hot  int     // consecutive readings that predict that it will be full soon
}

// add records a reading. The rate covers only the last seconds, because earlier time says nothing about a leak that has
// just begun. Programs open many files at start and then no more: a use below an eighth of the limit is ignored, and up
// to a half it takes two readings. See docs/decisions.md, "File descriptors are forecast".
func (t *trend) add(f files, now time.Time) {
	gap := now.Sub(t.at)
	if t.at.IsZero() || gap < 0 || gap > longest || f.limit != t.limit {
		*t = trend{files: f, at: now}
		return
	}
	if gap < step {
		return
	}
	t.pace = (float64(f.open) - float64(t.open)) / gap.Seconds()
	t.files, t.at = f, now
	if left := t.left(); left > 0 && left < soon {
		t.hot++
	} else {
		t.hot = 0
	}
}

// left returns the time until the table is full; 0 if no end is foreseeable.
func (t *trend) left() time.Duration {
	if t.limit == 0 || float64(t.open) < float64(t.limit)/8 {
		return 0
	}
	if t.open >= t.limit {
		return time.Second
	}
	if t.pace <= 0 {
		return 0
	}
	seconds := (float64(t.limit) - float64(t.open)) / t.pace
	if seconds >= sight.Seconds() {
		return 0
	}
	return max(time.Duration(seconds)*time.Second, time.Second)
}

// closing reports whether the table will be full soon.
func (t *trend) closing() bool {
	return t.hot >= 2 || t.hot >= 1 && float64(t.open) >= float64(t.limit)/2
}

// count adds one kind of descriptors to the load. words states the cause if it is full.
func (t *trend) count(load *capacity.Load, words func() string) {
	used := t.used()
	if t.closing() {
		used = 1
	}
	if used >= 0.5 && used > load.Files.Or(0) {
		because(load, capacity.DimFiles, words())
	}
	load.Files = capacity.Used(max(used, load.Files.Or(0)))
	left := t.left()
	if left > 0 && !t.closing() {
		left = max(left, soon) // a single reading must not raise an alert
	}
	if left > 0 && (load.Exhausted == 0 || left < load.Exhausted) {
		load.Exhausted = left
	}
}
