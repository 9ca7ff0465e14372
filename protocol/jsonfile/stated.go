package jsonfile

import "time"

// ClockSlack is how far a stated time may differ from the time at which it appeared before the two count as
// contradictory.
const ClockSlack = 2 * time.Minute

// Stated is a time as written in a file. A time without a zone is parsed as UTC but may be any zone: see Zoneless.
type Stated struct {
	At       time.Time
	Zoneless bool
}

// Stated is Time, plus whether the time names a zone.
func (v Value) Stated() (Stated, Presence) {
	at, p := v.Time()
	if !p.OK() {
		return Stated{}, p
	}
	return Stated{at, v.Zoneless()}, p
}

// ParseStated parses a text as ParseTime does; zero if it is no time.
func ParseStated(text string) Stated {
	at, _ := parseTime(text)
	return Stated{at, zoneless(text)}
}

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

// zoneLead is how far ahead of UTC a local time can be (Kiritimati).
const zoneLead = 14 * time.Hour

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
