package terminal

import (
	"regexp"
	"strings"
	"sync"
	"time"
)

// stamps matches the time formats in steward's own sentences; all are in UTC, as in the files.
var stamps = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\d{4}-\d\d-\d\d \d\d:\d\d UTC|\d{1,2} [A-Z][a-z][a-z] \d\d:\d\d UTC|\d\d:\d\d:\d\d(?: UTC|Z)|\d\d:\d\d UTC)\b`)
})

// stampForms are the layouts, and the form shown for each.
var stampForms = []struct{ layout, shown string }{
	{"2006-01-02T15:04:05Z", time.DateTime}, {"2006-01-02 15:04 UTC", "2006-01-02 15:04"}, {"2 Jan 15:04 UTC", "2 Jan 15:04"},
	{"15:04:05 UTC", time.TimeOnly}, {"15:04:05Z", time.TimeOnly}, {"15:04 UTC", "15:04"},
}

// LocalTimes replaces UTC times by local times, like all other times of a page. If the local zone is UTC, the text
// stays unchanged. A time without a date uses the present offset.
func LocalTimes(text string, now time.Time) string {
	if _, offset := now.Zone(); offset == 0 || !strings.Contains(text, "UTC") && !strings.Contains(text, "Z") {
		return text
	}
	return stamps().ReplaceAllStringFunc(text, func(stamp string) string {
		for _, form := range stampForms {
			t, err := time.Parse(form.layout, stamp)
			if err != nil {
				continue
			}
			switch utc := now.UTC(); {
			case strings.HasPrefix(form.layout, "15"):
				t = time.Date(utc.Year(), utc.Month(), utc.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
			case t.Year() == 0:
				t = time.Date(utc.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
			}
			return t.In(now.Location()).Format(form.shown)
		}
		return stamp
	})
}
