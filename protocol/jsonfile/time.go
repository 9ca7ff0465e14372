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

// Stated is a time as written in a file. A time without a zone (datetime.now().isoformat() in Python, date +%FT%T) is
// the writer's local time: it is parsed as UTC but may be any zone. It can order the entries of one file, but cannot
// tell an age.
type Stated struct {
	At       time.Time // in UTC; it may lie in the future, and the caller must cap it
	Zoneless bool
}

// Stated is a string or a number in one of the forms that ParseStated knows.
func (v Value) Stated() (Stated, Presence) {
	p := v.is('"', '0')
	if p != Present {
		return Stated{}, p
	}
	text := string(v.Raw())
	if v.n.kind == '"' {
		text = unquote(v.Raw())
	}
	s := ParseStated(text)
	if s.At.IsZero() {
		return s, Wrong
	}
	return s, p
}

// Time is Stated().At.
func (v Value) Time() (time.Time, Presence) {
	s, p := v.Stated()
	return s.At, p
}

// Time is Get(key).Time().
func (o Object) Time(key string) (time.Time, Presence) { return o.Get(key).Time() }

// Stated is Get(key).Stated().
func (o Object) Stated(key string) (Stated, Presence) { return o.Get(key).Stated() }

// FirstStated is the first of the fields that holds a time.
func (o Object) FirstStated(keys ...string) Stated {
	for _, key := range keys {
		if s, p := o.Stated(key); p.OK() {
			return s
		}
	}
	return Stated{}
}

// Go accepts a fraction of any length where a layout has none.
var layouts = [...]string{
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04:05Z07",
	noZone,
}

const noZone = "2006-01-02T15:04:05"

// ParseStated parses the forms that agents write: RFC 3339 with any fraction, an offset with or without colon, no
// offset, a space instead of the T or before the offset, and seconds, milli-, micro- or nanoseconds since 1970. The
// result is zero if the text is no time.
func ParseStated(text string) Stated {
	s := strings.ToUpper(strings.TrimSpace(text))
	if len(s) < len(noZone) || s[4] != '-' {
		return Stated{At: parseEpoch(s)}
	}
	s, utc := strings.CutSuffix(s, "UTC")
	// Python's isoformat() + "Z" writes both.
	if rest, both := strings.CutSuffix(strings.TrimSuffix(s, " "), "+00:00Z"); both {
		s = rest + "Z"
	}
	if len(s) > 10 && s[10] == ' ' {
		s = s[:10] + "T" + s[11:]
	}
	s = strings.ReplaceAll(s, " ", "")
	for _, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil && t.Year() > 0 {
			return Stated{t.UTC(), layout == noZone && !utc}
		}
	}
	return Stated{}
}

// The magnitude determines the unit: 1e8 seconds is 1973, 1e11 seconds the year 5138.
const oldest, units = int64(1e8), int64(1e11)

func parseEpoch(s string) time.Time {
	i, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f >= float64(oldest) && f < math.MaxInt64) {
			return time.Time{}
		}
		if f < float64(units) {
			whole, part := math.Modf(f)
			return time.Unix(int64(whole), int64(math.Round(part*1e6))*1e3).UTC()
		}
		i = int64(f)
	}
	switch {
	case i < oldest:
		return time.Time{}
	case i < units:
		return time.Unix(i, 0).UTC()
	case i < units*1e3:
		return time.UnixMilli(i).UTC()
	case i < units*1e6:
		return time.UnixMicro(i).UTC()
	}
	return time.Unix(0, i).UTC()
}

// How far a local time can be behind UTC (Baker Island) and ahead of it (Kiritimati): a time without a zone that reads
// as t was written at t + ZoneSlack at the latest.
const (
	ZoneSlack = 12 * time.Hour
	zoneLead  = 14 * time.Hour
)

// ClockSlack is how far a stated time may differ from the time at which it appeared before the two count as
// contradictory.
const ClockSlack = 2 * time.Minute

// Latest is the latest moment that the time can mean; zero if there is no time.
func (s Stated) Latest() time.Time {
	if s.Zoneless {
		return s.At.Add(ZoneSlack)
	}
	return s.At
}

// Earliest is the earliest moment that the time can mean; zero if there is no time.
func (s Stated) Earliest() time.Time {
	if s.Zoneless {
		return s.At.Add(-zoneLead)
	}
	return s.At
}

// CanFollow reports whether the time can equal t or be later. Two times without a zone are assumed to share a zone.
func (s Stated) CanFollow(t Stated) bool {
	if s.Zoneless && t.Zoneless {
		return !s.At.Before(t.At)
	}
	return !s.Latest().Before(t.Earliest())
}

// By is the latest moment that the time can mean in a file whose last write was at written. If the time is later than
// the write, the clock was wrong and the write counts.
func (s Stated) By(written time.Time) time.Time {
	at := s.Latest()
	if !written.IsZero() && at.After(written) {
		return written.UTC()
	}
	return at
}

// Seen is By for a time that steward saw appear with that write: if the two disagree, the time of the write counts.
func (s Stated) Seen(written time.Time) time.Time {
	at := s.By(written)
	if !at.IsZero() && (s.Zoneless || written.Sub(at) > ClockSlack) {
		return written.UTC()
	}
	return at
}
