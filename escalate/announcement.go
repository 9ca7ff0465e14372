package escalate

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// announcement is a popup or a push message outside the ledger: the daily digest or a refreshed summary. It is not the
// errand of any incident.
type announcement struct {
	key    string
	notice Notice
	tried  map[*worker]bool
	// only restricts the announcement to one channel. fresh composes the notice just before delivery; false means
	// that it is no longer needed.
	only  *worker
	fresh func() (Notice, bool)
	after time.Time // earliest delivery
	born  time.Time
}

// mayTell reports whether the channel may deliver the announcement, now or later, and has not tried it yet.
func (a *announcement) mayTell(w *worker) bool {
	return !w.speaks() && !a.tried[w] && (a.only == nil || a.only == w)
}

func (c *Dispatcher) put(a *announcement) {
	c.said.Lock()
	defer c.said.Unlock()
	c.announcements = slices.DeleteFunc(c.announcements, func(old *announcement) bool { return old.key == a.key })
	c.announcements = append(c.announcements, a)
	c.ledger.signal()
}

// nextAnnouncement removes and returns the next announcement that the channel may deliver. If it returns nil, later is when
// to try again (zero: no announcement waits).
func (c *Dispatcher) nextAnnouncement(w *worker, now time.Time) (a *announcement, later time.Time) {
	c.said.Lock()
	defer c.said.Unlock()
	due := func(a *announcement) bool { return a.mayTell(w) && !now.Before(a.after) }
	c.announcements = slices.DeleteFunc(c.announcements, func(a *announcement) bool { return due(a) && a.fresh != nil && !a.renew() })
	n := slices.IndexFunc(c.announcements, due)
	if n < 0 {
		for _, a := range c.announcements {
			if a.mayTell(w) {
				later = earlier(later, a.after)
			}
		}
		return nil, later
	}
	a = c.announcements[n]
	c.announcements = slices.Delete(c.announcements, n, n+1)
	a.tried[w] = true
	return a, time.Time{}
}

// announcementDone processes the result of an announcement. After a failure the next channel that may deliver it gets it.
func (c *Dispatcher) announcementDone(a *announcement, w *worker, r result) {
	if r.err == nil {
		if a.key == digestKey {
			c.keepDigest(c.now()) // written only after delivery, so that a crash does not lose a day's digest
		}
		c.log.Info("told in passing", "channel", w.Name, "result", r.word, "text", a.notice.Title)
		return
	}
	c.log.Warn("told in passing", "channel", w.Name, "result", r.word, "error", r.err)
	if slices.ContainsFunc(c.workers, a.mayTell) {
		c.put(a)
	}
}

// renew composes the announcement's notice from the current state.
func (a *announcement) renew() (ok bool) {
	a.notice, ok = a.fresh()
	return ok
}

// refresh updates the summary on a channel's screen to the incidents that remain. It waits for a pause, because many
// incidents are often settled at once.
func (c *Dispatcher) refresh(w *worker) {
	now := c.now()
	born := now
	c.said.Lock()
	for _, a := range c.announcements {
		if a.key == summaryKey {
			born = a.born
		}
	}
	c.said.Unlock()
	after := earlier(now.Add(2*burstQuiet), born.Add(burstWithin))
	c.put(&announcement{key: summaryKey, only: w, born: born, after: after, tried: map[*worker]bool{}, fresh: func() (Notice, bool) {
		left := c.onSummary(nil)
		if len(left) == 0 {
			return Notice{}, false
		}
		n := summaryOf(c.news.key, left, nil)
		n.Hushed = true
		return n, true
	}})
}

// digestFile is stored beside the incidents and holds the time of the last digest. The other constants are keys of
// announcements.
const (
	digestFile = "digest"
	digestKey  = "digest"
	summaryKey = "summary"
)

// digest queues the daily list of open incidents and returns when the next one is due.
func (c *Dispatcher) digest(now time.Time) (next time.Time) {
	minute, err := rules.MinuteOfDay(c.cfg.Digest)
	if c.cfg.Digest == "" || err != nil {
		return time.Time{}
	}
	if c.digested.IsZero() {
		c.digested = c.lastDigest(now)
	}
	next = rules.NextAt(c.digested.In(now.Location()), minute)
	if now.Before(next) {
		return next
	}
	c.digested = now
	if open := c.ledger.List(); len(open) > 0 {
		c.put(&announcement{key: digestKey, notice: digestOf(open), tried: map[*worker]bool{}})
	}
	return rules.NextAt(now, minute)
}

// lastDigest reads the time of the last digest. A time that is unreadable or in the future is replaced by now.
func (c *Dispatcher) lastDigest(now time.Time) time.Time {
	b, _ := os.ReadFile(filepath.Join(c.ledger.dir, digestFile))
	t, err := time.Parse(time.RFC3339, strings.TrimSpace(string(b)))
	if err != nil || t.After(now) {
		c.keepDigest(now)
		return now
	}
	return t
}

func (c *Dispatcher) keepDigest(now time.Time) {
	if err := c.ledger.put(c.ledger.dir, digestFile, []byte(wall(now).Format(time.RFC3339)+"\n")); err != nil {
		c.log.Error("write the time of the digest", "error", err)
	}
}

// digestOf lists the open incidents, including those that are only listed.
func digestOf(open []Incident) Notice {
	title := fmt.Sprintf("%s open", counted(len(open), "incident"))
	var lines []string
	for _, i := range open[:min(len(open), linesInSummary)] {
		lines = append(lines, fmt.Sprintf("%s, %s: %s", i.Severity, cmp.Or(i.State, rules.Raised), i.Summary))
	}
	if rest := len(open) - len(lines); rest > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more: steward incidents", rest))
	}
	return Notice{Key: rules.Key("", "", "", "", "digest", ""), Severity: protocol.Low, Title: title, Text: strings.Join(lines, "\n"), Spoken: title, Quiet: true}
}
