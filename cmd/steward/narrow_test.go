package main

import (
	"testing"
	"time"
)

func TestSinceTakesLengthsAndMoments(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.FixedZone("here", 3600))
	for text, want := range map[string]string{
		"30m": "2026-03-14T11:30:00+01:00", "3d": "2026-03-11T12:00:00+01:00", "14:00": "2026-03-13T14:00:00+01:00", "09:30:10": "2026-03-14T09:30:10+01:00",
		"2026-03-01": "2026-03-01T00:00:00+01:00", "2026-03-01 08:00": "2026-03-01T08:00:00+01:00", "2026-03-14T09:00:00Z": "2026-03-14T09:00:00Z",
		"soon": "", "-2h": "", "d": "", "-1d": "", "": "",
	} {
		got, ok := momentOf(text, now)
		if ok != (want != "") || ok && got.Format(time.RFC3339) != want {
			t.Errorf("%q: %v %v, want %q", text, got, ok, want)
		}
	}
}
