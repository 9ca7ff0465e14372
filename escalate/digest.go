package escalate

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// digestFile is stored beside the incidents and holds the time of the last digest.
const (
	digestFile = "digest"
	digestKey  = "digest"
)

// digest is the daily list of the open incidents.
type digest struct {
	incidents *Incidents
	at        string    // Config.Digest
	last      time.Time // when it was last announced; zero: not read yet
	log       *slog.Logger
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
	b, _ := os.ReadFile(filepath.Join(d.incidents.dir, digestFile))
	t, err := time.Parse(time.RFC3339, strings.TrimSpace(string(b)))
	if err != nil || t.After(now) {
		d.delivered(now)
		return now
	}
	return t
}

// delivered writes the time of a digest. It is called only after delivery, so that a crash does not lose a day's digest.
func (d *digest) delivered(now time.Time) {
	if err := d.incidents.put(d.incidents.dir, digestFile, []byte(wall(now).Format(time.RFC3339)+"\n")); err != nil {
		d.log.Error("write the time of the digest", "error", err)
	}
}

// compose lists the open incidents, including those that are only listed; false if there are none.
func (d *digest) compose() (Notice, bool) {
	open := d.incidents.List()
	title := counted(len(open), "incident") + " open"
	text := listed(open, func(i Incident) string {
		return fmt.Sprintf("%s, %s: %s", i.Severity, cmp.Or(i.State, rules.Raised), i.Summary)
	})
	return Notice{Key: rules.Key("", "", "", "", "digest", ""), Severity: protocol.Low, Title: title, Text: text, Spoken: title, Quiet: true}, len(open) > 0
}

// announce sends a message that is no incident to the first channel in its rest that is not the voice.
func (c *Dispatcher) announce(d *dispatch) {
	n := slices.IndexFunc(d.rest, func(w *channelState) bool { return !w.speaks() })
	if n < 0 {
		return
	}
	w := d.rest[n]
	d.job, d.rest = jobAnnounce, d.rest[n+1:]
	w.queue = append(w.queue, &queued{dispatch: d, since: c.now()})
}

// announced processes the result of such a message. After a failure the next channel gets it.
func (c *Dispatcher) announced(d *dispatch, w *channelState, r deliveryResult) {
	if r.err != nil {
		c.log.Warn("announce", "channel", w.Name, "result", r.word, "error", r.err)
		c.announce(d)
		return
	}
	if d.popup == digestKey {
		c.digest.delivered(c.now())
	}
	c.log.Info("announced", "channel", w.Name, "result", r.word, "text", r.call.notice.Title)
}

// refresh updates the summary on a channel's screen to the incidents that remain. It waits for a pause, because many
// incidents are often settled at once.
func (c *Dispatcher) refresh(w *channelState) {
	now := c.now()
	born := now
	for _, old := range w.remove(func(q *queued) bool { return q.job == jobAnnounce && q.popup == newsKey }) {
		born = old.since
	}
	d := &dispatch{job: jobAnnounce, popup: newsKey, compose: func() (Notice, bool) {
		left := onSummary(c.incidents, nil)
		if len(left) == 0 {
			return Notice{}, false
		}
		n := summaryOf(newsKey, left, nil)
		n.Hushed = true
		return n, true
	}}
	w.queue = append(w.queue, &queued{dispatch: d, since: born, hold: earlier(now.Add(2*burstQuiet), born.Add(burstWithin))})
}

// saying is a sentence that is no incident.
type saying struct{ about, project, text string }

// mostSaid limits the sentences that wait for the dispatcher.
const mostSaid = 32

// Say has a sentence spoken that is no incident. It replaces one about the same subject that was not spoken yet. It is
// dropped without a voice, in the quiet hours, and when it has waited for too long.
func (c *Dispatcher) Say(about, project, text string) {
	select {
	case c.said <- saying{about, project, text}:
	default:
		c.log.Warn("too many sentences wait; one is dropped", "about", about)
	}
}

func (c *Dispatcher) speak(s saying) {
	born := c.now()
	d := &dispatch{job: jobAnnounce, popup: "said " + s.about, compose: func() (Notice, bool) {
		now := c.now()
		quiet, _ := c.routes.cfg.QuietHours.On(now)
		return Notice{Severity: protocol.Info, Title: s.text, Project: s.project, Spoken: s.text, Quiet: true}, !quiet && now.Sub(born) <= sentenceStale
	}}
	for _, w := range c.channels {
		if w.speaks() {
			w.remove(func(q *queued) bool { return q.job == jobAnnounce && q.popup == d.popup })
			w.queue = append(w.queue, &queued{dispatch: d, since: born})
		}
	}
}
