package rules

import (
	"fmt"
	"strings"
	"time"
)

// Hours is a part of the day in local time, such as "22:00-07:00"; "" is none.
type Hours string

const clockLayout = "15:04"

// bounds gives both ends in minutes since midnight.
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

// Validate reports hours that cannot be read.
func (h Hours) Validate() error {
	if h == "" {
		return nil
	}
	_, _, err := h.bounds()
	return err
}

// On reports whether the hours are on, in the time's own zone, and when they next begin or end (zero: never). It goes by
// the clock on the wall, so that a day of 23 or 25 hours is as quiet as any other.
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

// NextAt is the next moment, later than now, at which the clock comes to show that minute, or leaps over it.
func NextAt(now time.Time, minute int) time.Time {
	for day := range 3 {
		at := time.Date(now.Year(), now.Month(), now.Day()+day, minute/60, minute%60, 0, 0, now.Location())
		if clockOf(at) != minute { // there is no such time that day
			at = leap(at, minute)
		}
		for _, twin := range [...]time.Duration{-time.Hour, 0, time.Hour} { // it may come twice
			if t := at.Add(twin); t.After(now) && (twin == 0 || clockOf(t) == minute) {
				return t
			}
		}
	}
	return now.Add(24 * time.Hour)
}

func clockOf(t time.Time) int { return t.Hour()*60 + t.Minute() }

// leap finds the moment, near a time that does not exist, at which the clock leaps over that minute.
func leap(near time.Time, minute int) time.Time {
	for m := -150; m <= 150; m++ {
		at := near.Add(time.Duration(m) * time.Minute)
		if clockOf(at) >= minute && clockOf(at.Add(-time.Minute)) < minute {
			return at
		}
	}
	return near
}
