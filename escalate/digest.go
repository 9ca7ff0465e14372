package escalate

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// digestFile is stored beside the incidents and holds the time of the last digest. digestKey is the key of the digest's
// announcement.
const (
	digestFile = "digest"
	digestKey  = "digest"
)

// digest is the daily list of the open incidents.
type digest struct {
	ledger *Ledger
	at     string    // Config.Digest
	last   time.Time // when it was last announced; zero: not read yet
	log    *slog.Logger
}

// next reports whether the digest is due, and returns when the next one is (zero: never).
func (d *digest) next(now time.Time) (next time.Time, due bool) {
	minute, err := rules.MinuteOfDay(d.at)
	if d.at == "" || err != nil {
		return time.Time{}, false
	}
	if d.last.IsZero() {
		d.last = d.read(now)
	}
	if next = rules.NextAt(d.last.In(now.Location()), minute); now.Before(next) {
		return next, false
	}
	d.last = now
	return rules.NextAt(now, minute), true
}

// read reads the time of the last digest. A time that is unreadable or in the future is replaced by now.
func (d *digest) read(now time.Time) time.Time {
	b, _ := os.ReadFile(filepath.Join(d.ledger.dir, digestFile))
	t, err := time.Parse(time.RFC3339, strings.TrimSpace(string(b)))
	if err != nil || t.After(now) {
		d.delivered(now)
		return now
	}
	return t
}

// delivered writes the time of a digest. It is called only after delivery, so that a crash does not lose a day's digest.
func (d *digest) delivered(now time.Time) {
	if err := d.ledger.put(d.ledger.dir, digestFile, []byte(wall(now).Format(time.RFC3339)+"\n")); err != nil {
		d.log.Error("write the time of the digest", "error", err)
	}
}

// digestOf lists the open incidents, including those that are only listed.
func digestOf(open []Incident) Notice {
	title := counted(len(open), "incident") + " open"
	text := listed(open, func(i Incident) string {
		return fmt.Sprintf("%s, %s: %s", i.Severity, cmp.Or(i.State, rules.Raised), i.Summary)
	})
	return Notice{Key: rules.Key("", "", "", "", "digest", ""), Severity: protocol.Low, Title: title, Text: text, Spoken: title, Quiet: true}
}
