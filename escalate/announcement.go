package escalate

import (
	"slices"
	"sync"
	"time"
)

// announcement is a popup or a push message outside the ledger: the daily digest or a refreshed summary. It is never spoken,
// and not the job of any incident.
type announcement struct {
	key    string
	notice Notice
	tried  []*channelState
	// only restricts the announcement to one channel. compose makes the notice just before delivery; false means that it
	// is no longer needed.
	only    *channelState
	compose func() (Notice, bool)
	after   time.Time // earliest delivery
	born    time.Time
}

// mayUse reports whether the channel may deliver the announcement, now or later, and has not tried it yet.
func (a *announcement) mayUse(w *channelState) bool {
	return !w.speaks() && !slices.Contains(a.tried, w) && (a.only == nil || a.only == w)
}

// renew composes the announcement's notice from the current state.
func (a *announcement) renew() (ok bool) {
	a.notice, ok = a.compose()
	return ok
}

// announcements are the messages outside the ledger that wait for delivery. Any goroutine may add one.
type announcements struct {
	mu      sync.Mutex
	waiting []*announcement
}

// put adds an announcement, which replaces a waiting one with the same key.
func (q *announcements) put(a *announcement) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(old *announcement) bool { return old.key == a.key })
	q.waiting = append(q.waiting, a)
}

// born is when the waiting announcement with that key was first requested; otherwise now.
func (q *announcements) born(key string, now time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range q.waiting {
		if a.key == key {
			return a.born
		}
	}
	return now
}

// next removes and returns the next announcement that the channel may deliver. If it returns nil, later is when to try
// again (zero: no announcement waits).
func (q *announcements) next(w *channelState, now time.Time) (a *announcement, later time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	due := func(a *announcement) bool { return a.mayUse(w) && !now.Before(a.after) }
	q.waiting = slices.DeleteFunc(q.waiting, func(a *announcement) bool {
		return due(a) && a.compose != nil && !a.renew()
	})
	n := slices.IndexFunc(q.waiting, due)
	if n < 0 {
		for _, a := range q.waiting {
			if a.mayUse(w) {
				later = earlier(later, a.after)
			}
		}
		return nil, later
	}
	a = q.waiting[n]
	q.waiting = slices.Delete(q.waiting, n, n+1)
	a.tried = append(a.tried, w)
	return a, time.Time{}
}

func (c *Dispatcher) announce(a *announcement) {
	c.announcements.put(a)
	c.ledger.signal()
}

// refreshKey is the key of the announcement that updates the summary.
const refreshKey = "summary"

// refresh updates the summary on a channel's screen to the incidents that remain. It waits for a pause, because many
// incidents are often settled at once.
func (c *Dispatcher) refresh(w *channelState) {
	now := c.now()
	born := c.announcements.born(refreshKey, now)
	after := earlier(now.Add(2*burstQuiet), born.Add(burstWithin))
	c.announce(&announcement{key: refreshKey, only: w, born: born, after: after, compose: func() (Notice, bool) {
		left := onSummary(c.ledger, nil)
		if len(left) == 0 {
			return Notice{}, false
		}
		n := summaryOf(newsKey, left, nil)
		n.Hushed = true
		return n, true
	}})
}

// announced processes the result of an announcement. After a failure the next channel that may deliver it gets it.
func (c *Dispatcher) announced(a *announcement, w *channelState, r result) {
	if r.err == nil {
		if a.key == digestKey {
			c.digest.delivered(c.now())
		}
		c.log.Info("announced", "channel", w.Name, "result", r.word, "text", a.notice.Title)
		return
	}
	c.log.Warn("announce", "channel", w.Name, "result", r.word, "error", r.err)
	if slices.ContainsFunc(c.channels, a.mayUse) {
		c.announce(a)
	}
}
