package escalate

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// Retry timing and limits.
const (
	retryFirst   = 30 * time.Second // doubles with each failure …
	retryMost    = 15 * time.Minute // … up to this
	withdrawMost = 3                // attempts to withdraw a popup
	mostSleep    = 30 * time.Second // timers stop while the machine sleeps; the wall clock does not
)

// Dispatcher delivers the Ledger's incidents to the operator. The ledger is its queue: every open, undelivered
// incident is delivered, also after a crash, and callers need not announce a new incident.
type Dispatcher struct {
	ledger  *Ledger
	cfg     Config
	workers []*worker // in the order in which they are tried
	now     func() time.Time
	log     *slog.Logger
	results chan result
	// Told, if set before Run, is called with the result of each delivery attempt, but not with repeats of the same
	// failure.
	Told func(i Incident, d Delivery)

	// Used by Run only.
	busy       map[string]bool // incidents in a call or waiting for a summary
	leaving    map[string]bool // incidents whose popup is being withdrawn
	tries      map[noticeKey]*tries
	news       burst
	recoveries burst
	summaries  int // summaries of news in progress
	digested   time.Time

	said sync.Mutex // guards announcements, to which any goroutine may add
	// announcements are messages outside the ledger that wait for delivery.
	announcements []*announcement
}

// noticeKey identifies a retry back-off. A newer notice of the same incident has its own key and does not wait for
// the back-off.
type noticeKey struct {
	key    string
	errand noticeKind
	rev    int
}

type tries struct {
	failed int
	again  time.Time
}

// NewDispatcher creates a dispatcher; Run starts it. Channels are in the configured order (Config.Channels).
func NewDispatcher(l *Ledger, cfg Config, channels []Channel, now func() time.Time, log *slog.Logger) *Dispatcher {
	c := &Dispatcher{ledger: l, cfg: cfg, now: now, log: log, results: make(chan result, len(channels)),
		busy: map[string]bool{}, leaving: map[string]bool{}, tries: map[noticeKey]*tries{},
		news:       burst{key: rules.Key("", "", "", "", "summary", "news")},
		recoveries: burst{key: rules.Key("", "", "", "", "summary", "recoveries")},
	}
	for _, ch := range channels {
		c.workers = append(c.workers, &worker{Channel: ch, jobs: make(chan job, 1)})
	}
	return c
}

// Run delivers until ctx ends, then waits for the calls in progress and records those that succeeded. It may be
// called once, and a ledger has at most one running dispatcher.
func (c *Dispatcher) Run(ctx context.Context) error {
	var crew sync.WaitGroup
	for _, w := range c.workers {
		crew.Go(func() { w.serve(ctx, c.results) })
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
			crew.Wait()
			c.drain()
			return nil
		case <-c.ledger.changed:
		case r := <-c.results:
			c.settle(r)
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
				continue
			}
			if r.worker.speaks() {
				c.brokenOff(r)
			}
		default:
			return
		}
	}
}

// brokenOff records that a sentence was interrupted because steward stopped. Unlike after a kill, the sentence is
// simply spoken again.
func (c *Dispatcher) brokenOff(r result) {
	for _, l := range r.job.lines {
		for _, m := range l.call.members {
			if r.job.told[m.key] {
				c.record(m.key, Delivery{Channel: r.worker.Name, Result: ResultFailed, At: c.now(), Rev: m.rev, Error: "steward stopped"}, false)
			}
		}
	}
}

// step does everything that is due and returns when the next work is due (zero: when something changes).
func (c *Dispatcher) step(now time.Time) time.Time {
	wake, err := c.ledger.advance(c.cfg, c.names(), now)
	if flushed := c.ledger.Flush(); err != nil || flushed != nil {
		wake = earlier(wake, now.Add(retryFirst))
	}
	c.sweep()
	wake = earlier(wake, c.collect(now))
	wake = earlier(wake, c.digest(now))
	for _, b := range []*burst{&c.news, &c.recoveries} {
		if due := b.due(); !due.IsZero() && !now.Before(due) {
			c.summarize(b, now)
		}
		wake = earlier(wake, b.due())
	}
	for _, w := range c.workers {
		wake = earlier(wake, c.assign(w, now))
	}
	return wake
}

// names lists the channels in order.
func (c *Dispatcher) names() []string {
	var names []string
	for _, w := range c.workers {
		names = append(names, w.Name)
	}
	return names
}

// collect starts every errand in the ledger, except those in progress and those waiting after a failure.
func (c *Dispatcher) collect(now time.Time) (wake time.Time) {
	owed := map[noticeKey]bool{}
	var morning []member // notices that waited for the end of the quiet hours
	causes := c.ledger.causes()
	for _, i := range c.ledger.owed() {
		what := errandOf(i)
		owed[what] = true
		if what.errand == errandWithdraw && c.leaving[i.Key] || what.errand != errandWithdraw && c.busy[i.Key] {
			continue // a popup is withdrawn at once, even while the voice is still speaking
		}
		if t := c.tries[what]; t != nil && now.Before(t.again) {
			wake = earlier(wake, t.again)
			continue
		}
		if until, waits := c.waits(i, causes, now); waits {
			wake = earlier(wake, until)
			continue
		}
		if what.errand == errandWithdraw {
			c.leaving[i.Key] = true
			c.withdraw(i, member{key: i.Key, rev: i.Notice}, now)
			continue
		}
		c.busy[i.Key] = true
		if i = c.catchUp(i, now); what.errand == errandTell && i.waits(ResultQuiet) {
			morning = append(morning, member{key: i.Key, rev: i.Notice})
			continue
		}
		c.enqueue(i, what, now)
	}
	c.goodMorning(morning, now)
	for what := range c.tries {
		if !owed[what] {
			delete(c.tries, what)
		}
	}
	return wake
}

func errandOf(i Incident) noticeKey {
	what := noticeKey{key: i.Key, errand: i.errand(), rev: i.Notice}
	if what.errand == errandWithdraw {
		what.rev = 0 // failures to withdraw a popup count together, whatever its incident does meanwhile
	}
	return what
}

// enqueue starts one errand, or adds it to a summary.
func (c *Dispatcher) enqueue(i Incident, what noticeKey, now time.Time) {
	m := member{key: i.Key, rev: i.Notice}
	b := &c.news
	if what.errand == errandRecovery {
		b = &c.recoveries
	}
	if what.errand == errandTell && i.stands(b.key) && !i.stands(i.Key) {
		b.join(m, now) // the summary on screen shows it, so the summary is its reminder
		return
	}
	alone := b.single(now)
	// A notice whose incident has its own popup replaces that popup: it adds no window, and a summary would leave the
	// popup outdated.
	if alone || i.stands(i.Key) && what.errand == errandTell {
		c.start(&call{errand: what.errand, members: []member{m}}, now)
		return
	}
	b.add(m)
	if what.errand == errandTell {
		c.mute(b.until)
	}
}

// summarize starts the summary of a burst.
func (c *Dispatcher) summarize(b *burst, now time.Time) {
	ca := &call{errand: errandTell, members: b.take(), summary: b.key}
	if b == &c.recoveries {
		ca.errand = errandRecovery
	} else {
		c.summaries++
	}
	c.start(ca, now)
}

// mute postpones every sentence that is not being spoken yet to the end of the burst, to be merged into one sentence.
// Sentences that already wait for an earlier burst are not postponed further.
func (c *Dispatcher) mute(until time.Time) {
	for _, w := range c.workers {
		if !w.speaks() {
			continue
		}
		for _, l := range w.queue {
			if !l.fold {
				l.fold, l.hold = true, until
			}
		}
	}
}

// backoff returns the delay after that many failures.
func backoff(failed int) time.Duration {
	wait := retryFirst
	for range failed - 1 {
		if wait = 2 * wait; wait >= retryMost {
			return retryMost
		}
	}
	return wait
}

// brokenKey is the incident that no channel works. It is only listed, because it cannot be delivered.
var brokenKey = brokenAlert("").Tidy().Key

func brokenAlert(detail string) rules.Alert {
	return rules.Alert{Kind: "notifier_broken", Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "notifier"},
		Severity: protocol.High, Summary: "No channel could reach you", Detail: detail, Foreign: true, ListOnly: true}
}

// raiseBroken raises the incident that no channel works; resolveBroken resolves it.
func (c *Dispatcher) raiseBroken(detail string) {
	if _, _, err := c.ledger.Raise(brokenAlert(detail), c.now()); err != nil {
		c.log.Error("raise notifier_broken", "error", err)
	}
}

func (c *Dispatcher) resolveBroken(channel string) {
	if i, ok := c.ledger.get(brokenKey); !ok || i.State == rules.Resolved {
		return
	}
	if _, err := c.ledger.Resolve(brokenKey, rules.ByFiles, channel+" delivers again", c.now()); err != nil {
		c.log.Error("resolve notifier_broken", "error", err)
	}
}
