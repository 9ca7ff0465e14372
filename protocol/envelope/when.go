package envelope

import (
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// when is a moment as messages name it: a time, or a span such as "2 hours" after the message (protocol 004, Complete
// Task Flow).
type when struct {
	at    jsonfile.Stated
	after time.Duration // used if at is zero
}

func (w when) known() bool { return !w.at.At.IsZero() || w.after > 0 }

// from returns the moment for a message; zero if there is none. One clock wrote both the message and the moment, so
// both have the same error.
func (w when) from(m *message) time.Time {
	switch {
	case w.at.At.IsZero() && w.after > 0:
		return m.came().Add(w.after)
	case w.at.At.IsZero():
		return time.Time{}
	case w.at.Zoneless && m.stated.Zoneless:
		return m.came().Add(w.at.At.Sub(m.stated.At))
	}
	return w.at.Latest().Add(m.off())
}

// place sets the message's file and time. A timestamp in the future comes from a wrong clock, and a timestamp without
// a zone is ambiguous; in both cases the file's time replaces it.
func (m *message) place(file string, written time.Time) {
	m.file = file
	if m.at = m.stated.By(written); !m.stamped {
		m.at = written.UTC()
	}
}

// came returns the earliest time at which the agent could know the message. seen replaces a timestamp from a slow
// clock.
func (m *message) came() time.Time {
	if m.seen.Sub(m.at) > jsonfile.ClockSlack {
		return m.seen
	}
	return m.at
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// off returns how far the sender's clock is behind ours, as far as steward can tell; 0 if the clocks agree.
func (m *message) off() time.Duration {
	if m.seen.IsZero() || !m.stamped || m.stated.Zoneless {
		return 0
	}
	if d := m.seen.Sub(m.stated.At); d.Abs() > jsonfile.ClockSlack {
		return d
	}
	return 0
}

// moment reads a field that names a moment. An unreadable value is only a low finding; it sets no deadline.
func (c *check) moment(o jsonfile.Object, key string) when {
	v := o.Get(key)
	if at, p := v.Stated(); p == jsonfile.Present {
		return when{at: at}
	} else if p != jsonfile.Wrong {
		return when{}
	}
	text, _ := v.Text()
	if after, ok := parseSpan(text); ok {
		return when{after: after}
	}
	if text == "" {
		text = string(v.Raw())
	}
	c.note(protocol.Low, "time", key, key+" is neither a time nor a span of time: "+strconv.Quote(folder.Short(text, 60)))
	return when{}
}

var spanPart = lazily(`^(\d{1,6}(?:\.\d{1,6})?) ?(seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)\b[ ,]*(?:and )?`)

// spanSeam matches the boundary between two parts: 1h30m.
var spanSeam = lazily(`([a-z])(\d)`)

// parseSpan parses "2 hours", "in 2h", "1 day and 30 minutes", "1h30m".
func parseSpan(text string) (time.Duration, bool) {
	rest := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(text)), "in ")
	rest = spanSeam().ReplaceAllString(rest, "$1 $2")
	var sum time.Duration
	for parts := 0; ; parts++ {
		m := spanPart().FindStringSubmatch(rest)
		if m == nil || parts == 4 {
			return sum, rest == "" && sum > 0
		}
		n, err := strconv.ParseFloat(m[1], 64)
		unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[m[2][0]]
		if err != nil || n > float64(maxSpan/unit) {
			return 0, false
		}
		sum += time.Duration(n * float64(unit))
		rest = rest[len(m[0]):]
	}
}

// maxSpan bounds a span. A longer span is no plausible deadline.
const maxSpan = 10 * 365 * 24 * time.Hour
