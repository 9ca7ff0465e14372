package rules

import (
	"fmt"
	"strings"
	"time"
)

// Hours is a daily time range in local time, such as "22:00-07:00"; "" means none.
type Hours string

const clockLayout = "15:04"

// bounds returns both ends in minutes since midnight.
func (h Hours) bounds() (from, to int, err error) {
	first, last, ok := strings.Cut(string(h), "-")
	if from, err = MinuteOfDay(strings.TrimSpace(first)); err == nil && ok {
		to, err = MinuteOfDay(strings.TrimSpace(last))
	}
	if err != nil || !ok {
		return 0, 0, fmt.Errorf("%q is not a time range; write it like \"22:00-07:00\"", string(h))
	}
	if from == to {
		return 0, 0, fmt.Errorf("%q begins and ends at the same time", string(h))
	}
	return from, to, nil
}

func MinuteOfDay(text string) (int, error) {
	t, err := time.Parse(clockLayout, text)
	return t.Hour()*60 + t.Minute(), err
}

// Validate reports an invalid range.
func (h Hours) Validate() error {
	if h == "" {
		return nil
	}
	_, _, err := h.bounds()
	return err
}

// On reports whether now is within the hours, in the location of now, and when that next changes (zero: never). It
// uses the wall clock, so that days of 23 or 25 hours work as well.
func (h Hours) On(now time.Time) (on bool, change time.Time) {
	from, to, err := h.bounds()
	if h == "" || err != nil {
		return false, time.Time{}
	}
	at := clockOf(now)
	if from < to {
		on = at >= from && at < to
	} else {
		on = at >= from || at < to
	}
	if on {
		return true, NextAt(now, to)
	}
	return false, NextAt(now, from)
}

// NextAt returns the next time after now at which the wall clock reaches that minute of the day, or skips it.
func NextAt(now time.Time, minute int) time.Time {
	for day := range 3 {
		at := time.Date(now.Year(), now.Month(), now.Day()+day, minute/60, minute%60, 0, 0, now.Location())
		if clockOf(at) != minute { // that time does not exist on that day
			at = leap(at, minute)
		}
		for _, twin := range [...]time.Duration{-time.Hour, 0, time.Hour} { // the time may occur twice
			if t := at.Add(twin); t.After(now) && (twin == 0 || clockOf(t) == minute) {
				return t
			}
		}
	}
	return now.Add(24 * time.Hour)
}

func clockOf(t time.Time) int { return t.Hour()*60 + t.Minute() }

// leap returns the time, near one that does not exist, at which the wall clock skips that minute.
func leap(near time.Time, minute int) time.Time {
	for m := -150; m <= 150; m++ {
		at := near.Add(time.Duration(m) * time.Minute)
		if clockOf(at) >= minute && clockOf(at.Add(-time.Minute)) < minute {
			return at
		}
	}
	return near
}
