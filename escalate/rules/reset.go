package rules

import (
	"strconv"
	"strings"
	"time"
)

// The formats in which programs print the end of a limit.
var (
	resetWord  = lazily(`(?i)reset|retry|again|available|wait|until|renew|refresh`)
	retryAfter = lazily(`(?i)retry[-_ ]after["']?\s*[:=]?\s*["']?(\d{1,9})(?:["',;.\s}]|$)`)
	datetime   = lazily(`(?i)^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(:\d{2})?(?:\.\d{1,9})?\s?(?:(Z|UTC|GMT)\b|([+-]\d{2}):?(\d{2}))?`)
	epoch      = lazily(`^(\d{10})(?:\d{3})?(?:\D|$)`)
	monthDay   = lazily(`(?i)\b((?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?(?:\s+\d{4},?)?\s+(?:at\s+)?`)
	clock      = lazily(`(?i)^(\d{1,2})(?::(\d{2})(?::(\d{2}))?)?(?:\s*([ap])\.?m\b\.?)?(?:\s*\(?(utc|gmt|z|e[sd]t|c[sd]t|m[sd]t|p[sd]t|cest|cet|bst)\b)?`)
	duration   = lazily(`(?i)^(\d{1,9}(?:\.\d{1,9})?)\s*(days?|d|hours?|hrs?|h|milliseconds?|millis|ms|minutes?|mins?|m|seconds?|secs?|s)(?:[^a-z]|$)`)
	between    = lazily(`(?i)^[\s,]*(?:and\s+)?`)
)

// zones maps unambiguous zone abbreviations to their offset in hours. Any other zone name is read as the machine's
// own zone: an agent prints its local time, and a lookup would make the ruling depend on the machine's files.
var zones = map[string]int{
	"utc": 0, "gmt": 0, "z": 0, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6,
	"pst": -8, "pdt": -7, "cet": 1, "cest": 2, "bst": 1,
}

const (
	resetText   = 4096             // bytes of a message that are scanned
	resetWindow = 72               // bytes after "reset", "retry", … in which the time is expected
	resetSlack  = 15 * time.Minute // a time of day up to this long before the message is past, not tomorrow's
	resetSpan   = 366 * 24 * time.Hour
)

// resetTime finds the time at which a limit ends in a message written at the given time, whose location applies to
// times without a zone. The result may be before at. When in doubt, it finds none.
func resetTime(text string, at time.Time) (time.Time, bool) {
	text = text[:min(len(text), resetText)]
	for _, loc := range resetWord().FindAllStringIndex(text, -1) {
		tail := text[loc[1]:min(len(text), loc[1]+resetWindow)]
		if m := monthDay().FindStringSubmatchIndex(tail); m != nil {
			if t, ok := dayClock(tail[m[2]:m[3]], tail[m[4]:m[5]], tail[m[1]:], at); ok {
				return t, true
			}
		}
		for _, i := range numbers(tail) {
			if t, ok := timeAt(tail[i:], at); ok {
				return t, true
			}
		}
	}
	if m := retryAfter().FindStringSubmatch(text); m != nil {
		seconds, _ := strconv.Atoi(m[1]) // nine digits at most
		return at.Add(min(time.Duration(seconds)*time.Second, resetSpan)), true
	}
	for _, i := range numbers(text) { // "usage limit reached|1761168600": a complete future time needs no preceding keyword
		if t, ok := instantAt(text[i:], at); ok && t.After(at) {
			return t, true
		}
	}
	return time.Time{}, false
}

// numbers returns the positions at which numbers start.
func numbers(s string) []int {
	var found []int
	digit := func(i int) bool { return s[i] >= '0' && s[i] <= '9' }
	for i := range len(s) {
		if digit(i) && (i == 0 || !digit(i-1) && s[i-1] != '.' && s[i-1] != ':') {
			found = append(found, i)
		}
	}
	return found
}

// timeAt parses an instant, a time of day or a duration at the start of s.
func timeAt(s string, at time.Time) (time.Time, bool) {
	if t, ok := instantAt(s, at); ok {
		return t, true
	}
	if t, ok := clockAt(s, at); ok {
		if t.Before(at.Add(-resetSlack)) {
			t = t.AddDate(0, 0, 1)
		}
		return t, true
	}
	d, ok := durationAt(s)
	return at.Add(d), ok
}

// instantAt parses a date with a time, or epoch seconds or milliseconds. A value more than a year away is some other
// number.
func instantAt(s string, at time.Time) (time.Time, bool) {
	var t time.Time
	if m := epoch().FindStringSubmatch(s); m != nil {
		seconds, _ := strconv.ParseInt(m[1], 10, 64)
		t = time.Unix(seconds, 0).In(at.Location())
	} else if m := datetime().FindStringSubmatch(s); m != nil {
		if m[3] == "" {
			m[3] = ":00"
		}
		layout, value, in := "2006-01-02T15:04:05", m[1]+"T"+m[2]+m[3], at.Location()
		switch {
		case m[4] != "":
			in = time.UTC
		case m[5] != "":
			layout, value = layout+"-0700", value+m[5]+m[6]
		}
		var err error
		if t, err = time.ParseInLocation(layout, value, in); err != nil {
			return t, false
		}
	}
	return t, !t.IsZero() && t.Sub(at).Abs() < resetSpan
}

// clockAt parses "15:00 UTC", "3pm", "3:04:05 pm" on the day of at.
func clockAt(s string, at time.Time) (time.Time, bool) {
	m := clock().FindStringSubmatch(s)
	if m == nil || m[2] == "" && m[4] == "" {
		return time.Time{}, false
	}
	hour, _ := strconv.Atoi(m[1])
	minute, _ := strconv.Atoi(m[2])
	second, _ := strconv.Atoi(m[3])
	if m[4] != "" {
		if hour < 1 || hour > 12 {
			return time.Time{}, false
		}
		hour %= 12
		if strings.EqualFold(m[4], "p") {
			hour += 12
		}
	}
	if hour > 24 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	if offset, ok := zones[strings.ToLower(m[5])]; ok {
		at = at.In(time.FixedZone(m[5], offset*3600))
	}
	return time.Date(at.Year(), at.Month(), at.Day(), hour, minute, second, 0, at.Location()), true
}

// dayClock parses the time of day after a month and a day; it uses the year that brings the result closest to at.
func dayClock(month, day, rest string, at time.Time) (time.Time, bool) {
	t, ok := clockAt(rest, at)
	m, err := time.Parse("Jan 2", strings.ToUpper(month[:1])+strings.ToLower(month[1:])+" "+day)
	if !ok || err != nil {
		return t, false
	}
	t = time.Date(t.Year(), m.Month(), m.Day(), t.Hour(), t.Minute(), t.Second(), 0, t.Location())
	switch half := resetSpan / 2; {
	case t.Sub(at) < -half:
		t = t.AddDate(1, 0, 0)
	case t.Sub(at) > half:
		t = t.AddDate(-1, 0, 0)
	}
	return t, true
}

// durationAt parses "120 seconds", "5m30s", "1 hour and 30 minutes".
func durationAt(s string) (sum time.Duration, found bool) {
	for {
		m := duration().FindStringSubmatchIndex(s)
		if m == nil {
			return sum, found
		}
		n, _ := strconv.ParseFloat(s[m[2]:m[3]], 64)
		sum = min(sum+scale(unitOf(s[m[4]:m[5]]), n, resetSpan), resetSpan)
		found = true
		s = s[m[5]:]
		s = s[len(between().FindString(s)):]
	}
}

func unitOf(word string) time.Duration {
	switch word = strings.ToLower(word); {
	case strings.HasPrefix(word, "mil"), word == "ms":
		return time.Millisecond
	case word[0] == 'm':
		return time.Minute
	case word[0] == 'h':
		return time.Hour
	case word[0] == 'd':
		return 24 * time.Hour
	}
	return time.Second
}

// scale multiplies without overflow, up to longest (0: no limit). The limit of a century keeps sums of times valid.
func scale(d time.Duration, by float64, longest time.Duration) time.Duration {
	const century = 100 * 365 * 24 * time.Hour
	if longest <= 0 || longest > century {
		longest = century
	}
	if v := float64(d) * by; v < float64(longest) {
		return time.Duration(v)
	}
	return longest
}
