package envelope

import (
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// clock is when a message was sent and when it arrived.
type clock struct {
	// at is the message's timestamp, or the time its file was written if the timestamp is missing, in the future or
	// without a zone. seen is when steward saw the message arrive; zero means that it was there before the first
	// scan. stated is the timestamp verbatim.
	at, seen time.Time
	stated   jsonfile.Stated
	stamped  bool
}

// setBy sets at. A timestamp in the future comes from a wrong clock, and a timestamp without a zone is ambiguous; in both
// cases the file's time replaces it.
func (c *clock) setBy(written time.Time) {
	if c.at = c.stated.By(written); !c.stamped {
		c.at = written.UTC()
	}
}

// came returns the earliest time at which the agent could know the message. seen replaces a timestamp from a slow
// clock.
func (c *clock) came() time.Time {
	if c.seen.Sub(c.at) > jsonfile.ClockSlack {
		return c.seen
	}
	return c.at
}

// behind returns how far the sender's clock is behind ours, as far as steward can tell; 0 if the clocks agree.
func (c *clock) behind() time.Duration {
	if c.seen.IsZero() || !c.stamped || c.stated.Zoneless {
		return 0
	}
	if d := c.seen.Sub(c.stated.At); d.Abs() > jsonfile.ClockSlack {
		return d
	}
	return 0
}

// moment is a moment as messages name it: a time, or a span such as "2 hours" after the message (protocol 004, Complete
// Task Flow).
type moment struct {
	at    jsonfile.Stated
	after time.Duration // used if at is zero
}

func (w moment) known() bool { return !w.at.At.IsZero() || w.after > 0 }

// from returns the moment for a message; zero if none exists. One clock wrote both the message and the moment, so
// both have the same error.
func (w moment) from(c *clock) time.Time {
	switch {
	case w.at.At.IsZero() && w.after > 0:
		return c.came().Add(w.after)
	case w.at.At.IsZero():
		return time.Time{}
	case w.at.Zoneless && c.stated.Zoneless:
		return c.came().Add(w.at.At.Sub(c.stated.At))
	}
	return w.at.Latest().Add(c.behind())
}

// momentOf reads a moment; zero if the value names none.
func momentOf(v jsonfile.Value) moment {
	at, p := v.Stated()
	if p.OK() {
		return moment{at: at}
	}
	text, _ := v.Text()
	after, ok := parseSpan(text)
	if !ok {
		after = 0
	}
	return moment{after: after}
}

var spanPart = folder.Pattern(`^(\d{1,6}(?:\.\d{1,6})?) ?` +
	`(seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)\b[ ,]*(?:and )?`)

// spanSeam matches the boundary between two parts: 1h30m.
var spanSeam = folder.Pattern(`([a-z])(\d)`)

var spanUnits = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': day, 'w': 7 * day}

const day = 24 * time.Hour

// maxSpan bounds a span. A longer span is no plausible deadline.
const maxSpan = 10 * 365 * day

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
		unit := spanUnits[m[2][0]]
		if err != nil || n > float64(maxSpan/unit) {
			return 0, false
		}
		sum += time.Duration(n * float64(unit))
		rest = rest[len(m[0]):]
	}
}
