package jsonfile

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// timeForm is the only time format that steward writes.
const timeForm = "2006-01-02T15:04:05Z"

// FormatTime writes t as 2006-01-02T15:04:05Z, in UTC and without fractions.
func FormatTime(t time.Time) string { return t.UTC().Format(timeForm) }

// Go accepts a fraction of any length where a layout has none.
var layouts = [...]string{
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04:05Z07",
	noZone,
}

const noZone = "2006-01-02T15:04:05"

// ParseTime parses the forms that agents write: RFC 3339 with any fraction, an offset with or without colon, no offset
// (parsed as UTC: see Zoneless), a space instead of the T or before the offset, and seconds, milli-, micro- or
// nanoseconds since 1970, as a number or as text. v is a Value, string, float64, int or int64. The result is in UTC; it
// may lie in the future, and the caller must cap it.
func ParseTime(v any) (time.Time, bool) {
	switch v := v.(type) {
	case Value:
		if s, p := v.Text(); p == Present {
			return parseTime(s)
		}
		if _, p := v.Number(); p == Present {
			return parseEpoch(string(v.Raw()))
		}
	case string:
		return parseTime(v)
	case float64:
		return epoch(v)
	case int:
		return epochInt(int64(v))
	case int64:
		return epochInt(v)
	}
	return time.Time{}, false
}

// ZoneSlack is how far behind UTC a local time can be (Baker Island). A time without a zone that reads as t was written
// at t + ZoneSlack at the latest.
const ZoneSlack = 12 * time.Hour

// Zoneless reports whether the value is a time without a zone: datetime.now().isoformat() in Python, date +%FT%T. Such
// a time is the writer's local time. It can order the entries of one file, but cannot tell an age.
func (v Value) Zoneless() bool {
	s, p := v.Text()
	return p == Present && zoneless(s)
}

func zoneless(s string) bool {
	if s = strings.TrimSpace(s); len(s) < len(noZone) || s[4] != '-' {
		return false
	}
	_, ok := parseTime(s)
	// After the date, only an offset contains a sign.
	return ok && !strings.ContainsAny(s[10:], "Zz+-") && !strings.HasSuffix(strings.ToUpper(s), "UTC")
}

func parseTime(s string) (time.Time, bool) {
	s = strings.TrimSpace(s)
	if len(s) < len(noZone) || s[4] != '-' {
		return parseEpoch(s)
	}
	s = strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(s), "UTC"), " ")
	// Python's isoformat() + "Z" writes both.
	if s = strings.TrimSuffix(s, "+00:00Z"); s == "" || s[len(s)-1] == 'Z' {
		s = strings.TrimSuffix(s, "Z") + "Z"
	}
	if s[10] == ' ' {
		s = s[:10] + "T" + s[11:]
	}
	s = strings.ReplaceAll(s, " ", "")
	for _, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil && t.Year() > 0 {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

func parseEpoch(s string) (time.Time, bool) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return epochInt(i)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return time.Time{}, false
	}
	return epoch(f)
}

// The magnitude determines the unit: 1e8 seconds is 1973, 1e11 seconds the year 5138.
const oldest, units = int64(1e8), int64(1e11)

func epochInt(i int64) (time.Time, bool) {
	switch {
	case i < oldest:
		return time.Time{}, false
	case i < units:
		return time.Unix(i, 0).UTC(), true
	case i < units*1e3:
		return time.UnixMilli(i).UTC(), true
	case i < units*1e6:
		return time.UnixMicro(i).UTC(), true
	}
	return time.Unix(0, i).UTC(), true
}

func epoch(f float64) (time.Time, bool) {
	switch {
	case math.IsNaN(f) || f < float64(oldest) || f >= math.MaxInt64:
		return time.Time{}, false
	case f < float64(units):
		whole, part := math.Modf(f)
		return time.Unix(int64(whole), int64(math.Round(part*1e6))*1e3).UTC(), true
	}
	return epochInt(int64(f))
}
