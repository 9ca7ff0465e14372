package escalate

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

const (
	// sentencePause is the pause between two sentences. The listener needs it, and it gives time to see whether the
	// second sentence starts a burst.
	sentencePause = time.Second
	// sentenceStale is the age at which a sentence is no longer spoken.
	sentenceStale = 2 * time.Minute
)

var (
	errStale     = errors.New("it waited too long to be spoken")
	errNotNeeded = errors.New("it was cut short: it is settled")
)

// line is a call's entry in one channel's queue.
type line struct {
	call   *call
	queued time.Time
	hold   time.Time // earliest start
	fold   bool      // may be merged into one sentence with other such lines
}

// speaks reports whether the channel is the voice. It takes the listener's time, and no summary popup can replace its
// sentences.
func (w *worker) speaks() bool { return w.Name == ChannelSpeech }

func (c *Dispatcher) push(w *worker, ca *call, now time.Time) {
	l := &line{call: ca, queued: now}
	if w.speaks() && ca.errand == errandTell && (c.news.on(now) || ca.summary != "") {
		l.fold, l.hold = true, c.news.until
	}
	l.fold = l.fold || w.speaks() && c.reminds(ca)
	ca.waiting++
	w.queue = append(w.queue, l)
}

// reminds reports whether the operator was told of all of the call's incidents before.
func (c *Dispatcher) reminds(ca *call) bool {
	return ca.errand == errandTell && !slices.ContainsFunc(c.live(ca), func(i Incident) bool { return i.Called.IsZero() })
}

// next removes the lines of the next job from the queue. If it returns none, later is when the next line is due
// (zero: the queue is empty).
func (w *worker) next(now time.Time) (lines []*line, later time.Time) {
	if len(w.queue) == 0 {
		return nil, time.Time{}
	}
	if ready := w.rested.Add(sentencePause); w.speaks() && now.Before(ready) {
		return nil, ready
	}
	slices.SortStableFunc(w.queue, func(a, b *line) int {
		return cmp.Or(a.call.urgency()-b.call.urgency(), a.queued.Compare(b.queued))
	})
	n := slices.IndexFunc(w.queue, func(l *line) bool {
		if now.Before(l.hold) {
			later = earlier(later, l.hold)
			return false
		}
		return true
	})
	if n < 0 {
		return nil, later
	}
	first := w.queue[n]
	w.queue = slices.DeleteFunc(w.queue, func(l *line) bool {
		if l == first || first.fold && l.fold {
			lines = append(lines, l)
			return true
		}
		return false
	})
	return lines, time.Time{}
}

// urgency orders a queue, lowest first. Withdrawals come first: a withdrawal was requested earlier than a notice in
// the queue, and may have the same popup key as the next notice.
func (ca *call) urgency() int {
	switch {
	case ca.errand == errandWithdraw:
		return 0
	case ca.errand == errandTell && ca.severity == protocol.Critical:
		return 1
	}
	return 2
}

// sweep removes queued lines whose news is outdated, so that their replacements need not wait for them. It also stops
// a sentence that is no longer needed.
func (c *Dispatcher) sweep() {
	for _, w := range c.workers {
		if w.busy && w.now.stop != nil && !slices.ContainsFunc(w.now.lines, func(l *line) bool { return len(c.live(l.call)) > 0 }) {
			close(w.now.stop)
			w.now.stop = nil
		}
		var over []*line
		w.queue = slices.DeleteFunc(w.queue, func(l *line) bool {
			if len(c.live(l.call)) > 0 {
				return false
			}
			over = append(over, l)
			return true
		})
		for _, l := range over {
			if l.call.errand == errandWithdraw { // a remaining withdrawal is collected again
				delete(c.leaving, l.call.members[0].key)
				c.ledger.signal()
				continue
			}
			c.conclude(l.call, w, result{})
		}
	}
}

// assign gives an idle worker its next job and returns when the worker may have more to do.
func (c *Dispatcher) assign(w *worker, now time.Time) (later time.Time) {
	for !w.busy {
		var lines []*line
		if lines, later = w.next(now); len(lines) == 0 {
			a, free := c.nextAnnouncement(w, now)
			if a == nil {
				return earlier(later, free)
			}
			w.busy, w.now = true, job{notice: a.notice, announcement: a}
			w.jobs <- w.now
			return time.Time{}
		}
		if j, ok := c.compose(w, lines, now); ok {
			if w.speaks() {
				j.stop = make(chan struct{})
			}
			w.busy, w.now = true, j
			w.jobs <- j
		}
	}
	return time.Time{}
}

// compose builds a job from lines and omits what is no longer needed.
func (c *Dispatcher) compose(w *worker, lines []*line, now time.Time) (job, bool) {
	if ca := lines[0].call; ca.errand == errandWithdraw {
		return job{lines: lines, notice: Notice{Key: ca.popup}, withdraw: true}, c.stale(ca, w)
	}
	j := job{told: map[string]bool{}}
	var news []Incident
	for _, l := range lines {
		live := c.live(l.call)
		if w.speaks() {
			live = slices.DeleteFunc(live, func(i Incident) bool { return c.silent(i, now) })
			live = c.sparing(l.call, live)
		}
		if len(live) == 0 {
			c.conclude(l.call, w, result{})
			continue
		}
		if w.speaks() && now.Sub(l.queued) > sentenceStale {
			c.conclude(l.call, w, result{word: ResultDropped, err: errStale, job: job{told: keysOf(live)}})
			continue
		}
		j.lines, news = append(j.lines, l), append(news, live...)
	}
	if len(news) == 0 {
		return j, false
	}
	if w.speaks() {
		c.begin(w, news)
	}
	j.told = keysOf(news)
	j.notice = c.word(w, j, news)
	j.notice.Hushed, _ = c.cfg.QuietHours.On(now)
	return j, true
}

// begin records that a sentence is about to be spoken: after a kill in mid-sentence it may be repeated once, not
// twice.
func (c *Dispatcher) begin(w *worker, news []Incident) {
	for _, i := range news {
		word := ResultBegun
		if i.waits(ResultBegun) || i.waits(ResultAgain) {
			word = ResultAgain
		}
		c.record(i.Key, Delivery{Channel: w.Name, Result: word, At: c.now(), Rev: i.Notice}, false)
	}
}

// sparing omits incidents whose sentence was begun twice without an end (two processes were killed during it) and
// whose popup is on screen.
func (c *Dispatcher) sparing(ca *call, live []Incident) []Incident {
	return slices.DeleteFunc(live, func(i Incident) bool {
		spare := i.waits(ResultAgain) && len(i.standing()) > 0
		if spare {
			ca.proved[i.Key] = true
		}
		return spare
	})
}

// word composes the notice of a job. Incidents already on the summary are shown again, but not spoken.
func (c *Dispatcher) word(w *worker, j job, news []Incident) Notice {
	ca := j.lines[0].call
	var earlier []Incident
	if !w.speaks() {
		earlier = c.onSummary(j.told)
	}
	many := ca.summary != "" || len(j.lines) > 1
	switch {
	case ca.morning && len(j.lines) == 1:
		return morningOf(c.news.key, news, earlier)
	case ca.errand == errandRecovery && many:
		return recoveriesOf(c.recoveries.key, news)
	case ca.errand == errandRecovery:
		return recoveryOf(news[0])
	case many:
		return summaryOf(c.news.key, news, earlier)
	}
	return noticeOf(news[0])
}

// onSummary lists the open incidents that are on the summary popup, except those in but.
func (c *Dispatcher) onSummary(but map[string]bool) []Incident {
	return slices.DeleteFunc(c.ledger.List(), func(i Incident) bool {
		return but[i.Key] || i.State != rules.Raised || !i.stands(c.news.key)
	})
}

func keysOf(list []Incident) map[string]bool {
	keys := map[string]bool{}
	for _, i := range list {
		keys[i.Key] = true
	}
	return keys
}
