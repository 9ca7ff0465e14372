package escalate

import (
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
)

// push queues a dispatch for a channel.
func (c *Dispatcher) push(w *channelState, d *dispatch, now time.Time) {
	q := &queued{dispatch: d, since: now}
	if w.speaks() && d.job == jobTell {
		if c.news.on(now) || d.summary != "" {
			q.fold, q.hold = true, c.news.until
		}
		isFirst := slices.ContainsFunc(d.live(c.incidents), func(i Incident) bool { return i.Called.IsZero() })
		q.fold = q.fold || !isFirst
	}
	d.waiting++
	w.queue = append(w.queue, q)
}

// sweep removes queued entries whose news is outdated, so that their replacements need not wait for them. It also stops
// a sentence that is no longer needed. See docs/decisions.md, "An answer stops the voice".
func (c *Dispatcher) sweep() {
	outdated := func(q *queued) bool { return q.job != jobAnnounce && len(q.live(c.incidents)) == 0 }
	for _, w := range c.channels {
		if w.busy && w.now.stop != nil && !slices.ContainsFunc(w.now.queued, func(q *queued) bool { return !outdated(q) }) {
			close(w.now.stop)
			w.now.stop = nil
		}
		for _, q := range w.remove(outdated) {
			if q.job == jobWithdraw { // a remaining withdrawal is collected again
				delete(c.leaving, q.members[0].key)
				c.incidents.signal()
				continue
			}
			c.conclude(q.dispatch, w, deliveryResult{})
		}
	}
}

// assign gives an idle channel its next call and returns when the channel may have more to do.
func (c *Dispatcher) assign(w *channelState, now time.Time) time.Time {
	for !w.busy {
		taken, later := w.next(now)
		if len(taken) == 0 {
			return later
		}
		if j, ok := c.compose(w, taken, now); ok {
			w.start(j)
		}
	}
	return time.Time{}
}

// compose builds a call from queued entries and omits what is no longer needed.
func (c *Dispatcher) compose(w *channelState, taken []*queued, now time.Time) (call, bool) {
	switch d := taken[0].dispatch; d.job {
	case jobWithdraw:
		return call{queued: taken, notice: Notice{Key: d.popup}, withdraw: true}, c.needsWithdrawal(d, w)
	case jobAnnounce:
		n, ok := d.compose()
		return call{queued: taken, notice: n}, ok
	}
	var j call
	var news []Incident
	for _, q := range taken {
		live := q.live(c.incidents)
		if w.speaks() {
			live = slices.DeleteFunc(live, func(i Incident) bool { return c.routes.silent(i, now) })
			live = q.spare(live)
		}
		switch {
		case len(live) == 0:
			c.conclude(q.dispatch, w, deliveryResult{})
		case w.speaks() && now.Sub(q.since) > sentenceStale:
			c.conclude(q.dispatch, w, deliveryResult{word: ResultDropped, err: errStale, call: call{told: keysOf(live)}})
		default:
			j.queued, news = append(j.queued, q), append(news, live...)
		}
	}
	if len(news) == 0 {
		return j, false
	}
	j.told = keysOf(news)
	var earlier []Incident // incidents already on the summary are shown again, but not spoken
	if w.speaks() {
		c.begin(w.Name, news)
	} else {
		earlier = onSummary(c.incidents, j.told)
	}
	j.notice = noticeFor(j.queued, news, earlier)
	j.notice.Hushed, _ = c.routes.cfg.QuietHours.On(now)
	return j, true
}

// noticeFor composes the notice of a call.
func noticeFor(entries []*queued, news, earlier []Incident) Notice {
	d := entries[0].dispatch
	many := d.summary != "" || len(entries) > 1
	switch {
	case d.morning && len(entries) == 1:
		return morningOf(newsKey, news, earlier)
	case d.job == jobRecovery && many:
		return recoveriesOf(recoveriesKey, news)
	case d.job == jobRecovery:
		return recoveryOf(news[0])
	case many:
		return summaryOf(newsKey, news, earlier)
	}
	return noticeOf(news[0])
}

// onSummary lists the open incidents that are on the summary popup, except those in but.
func onSummary(l *Incidents, but map[string]bool) []Incident {
	return slices.DeleteFunc(l.List(), func(i Incident) bool {
		return but[i.Key] || i.State != rules.Raised || !i.showsPopup(newsKey)
	})
}

func keysOf(list []Incident) map[string]bool {
	keys := map[string]bool{}
	for _, i := range list {
		keys[i.Key] = true
	}
	return keys
}
