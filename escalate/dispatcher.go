package escalate

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/livhana/steward/escalate/rules"
)

// mostSleep bounds a wait of the dispatcher: timers stop while the machine sleeps; the wall clock does not.
const mostSleep = 30 * time.Second

// Dispatcher delivers the incidents to the operator. They are its queue: every open, undelivered
// incident is delivered, also after a crash, and callers need not announce a new incident.
type Dispatcher struct {
	recorder
	routes   routes
	channels []*channelState // in the order in which they are tried
	results  chan deliveryResult
	said     chan saying

	// Used by Run only.
	busy       map[string]bool // incidents in a dispatch or waiting for a summary
	leaving    map[string]bool // incidents whose popup is being withdrawn
	retries    retries
	news       burst
	recoveries burst
	summaries  int // summaries of news in progress
	digest     digest
}

// NewDispatcher creates a dispatcher; Run starts it. Channels are in the configured order (Config.Channels).
func NewDispatcher(l *Incidents, cfg Config, channels []Channel, now func() time.Time, log *slog.Logger) *Dispatcher {
	c := &Dispatcher{recorder: recorder{incidents: l, now: now, log: log}, routes: routes{cfg: cfg}, results: make(chan deliveryResult, len(channels)), said: make(chan saying, mostSaid),
		busy: map[string]bool{}, leaving: map[string]bool{}, retries: retries{}, digest: digest{incidents: l, at: cfg.Digest, log: log}}
	for _, ch := range channels {
		c.routes.channels = append(c.routes.channels, ch.Name)
		c.channels = append(c.channels, &channelState{caller: &caller{Channel: ch, calls: make(chan call, 1)}})
	}
	return c
}

// Run delivers until ctx ends, then waits for the calls in progress and records those that succeeded. It may be
// called once, and a folder of incidents has at most one running dispatcher.
func (c *Dispatcher) Run(ctx context.Context) error {
	var callers sync.WaitGroup
	for _, w := range c.channels {
		callers.Go(func() { w.serve(ctx, w, c.results) })
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		if wake := c.step(c.now()); !wake.IsZero() {
			timer.Reset(min(max(0, wake.Sub(c.now())), mostSleep))
			due = timer.C
		}
		select {
		case <-ctx.Done():
			callers.Wait()
			c.drain()
			return nil
		case <-c.incidents.changed:
		case r := <-c.results:
			c.settle(r)
		case s := <-c.said:
			c.speak(s)
		case <-due:
		}
	}
}

// drain records the deliveries that completed while the dispatcher was stopping, so that they are not repeated.
func (c *Dispatcher) drain() {
	for {
		select {
		case r := <-c.results:
			if r.err == nil {
				c.settle(r)
			} else if r.channel.speaks() {
				c.interrupted(r)
			}
		default:
			return
		}
	}
}

// step does everything that is due and returns when the next work is due (zero: when something changes).
func (c *Dispatcher) step(now time.Time) time.Time {
	wake, err := c.incidents.advance(c.routes.cfg, c.routes.channels, now)
	if flushed := c.incidents.Flush(); err != nil || flushed != nil {
		wake = earlier(wake, now.Add(retryFirst))
	}
	c.sweep()
	wake = earlier(wake, c.collect(now))
	next, due := c.digest.next(now)
	if due {
		c.announce(&dispatch{popup: digestKey, compose: c.digest.compose, rest: c.channels})
	}
	wake = earlier(wake, next)
	for _, b := range []*burst{&c.news, &c.recoveries} {
		if due := b.due(); !due.IsZero() && !now.Before(due) {
			c.summarize(b, now)
		}
		wake = earlier(wake, b.due())
	}
	for _, w := range c.channels {
		wake = earlier(wake, c.assign(w, now))
	}
	return wake
}

// collect starts the job of every incident, except those in progress and those waiting after a failure.
func (c *Dispatcher) collect(now time.Time) (wake time.Time) {
	owed := map[jobKey]bool{}
	var morning []burstMember // notices that waited for the end of the quiet hours
	causes := c.incidents.causes()
	for _, i := range c.incidents.owed() {
		what := jobOf(i)
		owed[what] = true
		if what.job == jobWithdraw && c.leaving[i.Key] || what.job != jobWithdraw && c.busy[i.Key] {
			continue // a popup is withdrawn at once, even while the voice is still speaking
		}
		if again := c.retries.after(what); now.Before(again) {
			wake = earlier(wake, again)
			continue
		}
		if p, waits := c.routes.postpone(i, causes, now); waits {
			c.postponed(i, p)
			wake = earlier(wake, p.until)
			continue
		}
		if what.job == jobWithdraw {
			c.leaving[i.Key] = true
			c.withdraw(i, now)
			continue
		}
		c.busy[i.Key] = true
		if i = c.catchUp(i, c.routes, now); what.job == jobTell && i.hasResult(ResultQuiet) {
			morning = append(morning, burstMember{key: i.Key, rev: i.Notice})
			continue
		}
		c.enqueue(i, what.job, now)
	}
	c.startMorning(morning, now)
	c.retries.keep(owed)
	return wake
}

// enqueue starts one job, or adds it to a summary.
func (c *Dispatcher) enqueue(i Incident, job jobKind, now time.Time) {
	m := burstMember{key: i.Key, rev: i.Notice}
	b := &c.news
	if job == jobRecovery {
		b = &c.recoveries
	}
	if job == jobTell && i.showsPopup(newsKey) && !i.showsPopup(i.Key) {
		b.join(m, now) // the summary on screen shows it, so the summary is its reminder
		return
	}
	alone := b.single(now)
	// A notice whose incident has its own popup replaces that popup: it adds no window, and a summary would leave the
	// popup outdated.
	if alone || i.showsPopup(i.Key) && job == jobTell {
		c.start(&dispatch{job: job, members: []burstMember{m}}, now)
		return
	}
	b.waiting = append(b.waiting, m)
	if job == jobTell {
		for _, w := range c.channels {
			w.mute(b.until)
		}
	}
}

// summarize starts the summary of a burst.
func (c *Dispatcher) summarize(b *burst, now time.Time) {
	d := &dispatch{job: jobRecovery, members: b.take(), summary: recoveriesKey}
	if b == &c.news {
		d.job, d.summary = jobTell, newsKey
		c.summaries++
	}
	c.start(d, now)
}

// startMorning starts one summary of the notices that waited for the end of the quiet hours. An incident with its own
// popup gets a dispatch of its own, which replaces that popup.
func (c *Dispatcher) startMorning(waited []burstMember, now time.Time) {
	var together []burstMember
	summary := false
	for _, m := range waited {
		i, _ := c.incidents.get(m.key)
		if i.showsPopup(m.key) {
			c.start(&dispatch{job: jobTell, members: []burstMember{m}}, now)
			continue
		}
		together, summary = append(together, m), summary || i.showsPopup(newsKey)
	}
	switch {
	case len(together) == 0:
	case len(together) == 1 && !summary:
		c.start(&dispatch{job: jobTell, members: together}, now)
	default:
		c.summaries++
		c.start(&dispatch{job: jobTell, members: together, summary: newsKey, morning: true}, now)
	}
}

// The popup keys of the two summaries; there is at most one popup of each.
var (
	newsKey       = rules.Key("", "", "", "", "summary", "news")
	recoveriesKey = rules.Key("", "", "", "", "summary", "recoveries")
)
