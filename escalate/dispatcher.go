package escalate

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// The pace of what failed.
const (
	retryFirst   = 30 * time.Second // doubles with each failure …
	retryMost    = 15 * time.Minute // … up to this
	withdrawMost = 3                // so often a popup is asked to go away
	mostSleep    = 30 * time.Second // a timer stands still while the machine sleeps; the clock on the wall does not
)

// Dispatcher carries what the Ledger holds to the human. The ledger is its queue: what is open and has not been
// delivered is delivered, after a crash too, and nobody needs to tell it of a new incident.
type Dispatcher struct {
	ledger  *Ledger
	cfg     Config
	workers []*worker // in the order in which they are tried
	now     func() time.Time
	log     *slog.Logger
	results chan result
	// Told, if it is set before Run, hears what became of each attempt to tell the human; not of the same failure again.
	Told func(i Incident, d Delivery)

	// Run's own.
	busy       map[string]bool // incidents that are part of a call, or wait for a summary
	leaving    map[string]bool // incidents of which a popup is being taken away
	tries      map[noticeKey]*tries
	news       burst
	recoveries burst
	summaries  int // calls under way that are summaries of news
	digested   time.Time

	said sync.Mutex // guards announcements, which anybody may add to
	// announcements wait to be told beside the ledger.
	announcements []*announcement
}

// errandKey is what a back-off belongs to: a newer notice of the same incident does not wait for it.
type noticeKey struct {
	key    string
	errand noticeKind
	rev    int
}

type tries struct {
	failed int
	again  time.Time
}

// NewCourier prepares a dispatcher; Run starts it. Channels stand in the configured order (Config.Channels).
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

// Run delivers until ctx ends; then it waits for the calls under way and records those that succeeded. It may be
// called once, and one ledger has one dispatcher at a time.
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

// drain records what was delivered while the dispatcher was stopping, so that it is not delivered again.
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

// brokenOff records that a sentence ended because steward does. That is no kill: it is said again.
func (c *Dispatcher) brokenOff(r result) {
	for _, l := range r.job.lines {
		for _, m := range l.call.members {
			if r.job.told[m.key] {
				c.record(m.key, Delivery{Channel: r.worker.Name, Result: ResultFailed, At: c.now(), Rev: m.rev, Error: "steward stopped"}, false)
			}
		}
	}
}

// step does all that can be done now and says when there will be more (zero: when something changes).
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

// names lists the channels in their order.
func (c *Dispatcher) names() []string {
	var names []string
	for _, w := range c.workers {
		names = append(names, w.Name)
	}
	return names
}

// collect takes up every errand that the ledger shows, except those under way and those that wait after a failure.
func (c *Dispatcher) collect(now time.Time) (wake time.Time) {
	owed := map[noticeKey]bool{}
	var morning []member // what waited for the end of the quiet hours
	causes := c.ledger.causes()
	for _, i := range c.ledger.owed() {
		what := errandOf(i)
		owed[what] = true
		if what.errand == errandWithdraw && c.leaving[i.Key] || what.errand != errandWithdraw && c.busy[i.Key] {
			continue // a popup goes at once, even while the voice is still at it
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
		what.rev = 0 // a popup that does not go away is the same one whatever its incident does
	}
	return what
}

// take starts one errand, or puts it aside for a summary.
func (c *Dispatcher) enqueue(i Incident, what noticeKey, now time.Time) {
	m := member{key: i.Key, rev: i.Notice}
	b := &c.news
	if what.errand == errandRecovery {
		b = &c.recoveries
	}
	if what.errand == errandTell && i.stands(b.key) && !i.stands(i.Key) {
		b.join(m, now) // the summary reminds of it, with all others on it
		return
	}
	alone := b.single(now)
	// One whose own popup stands takes that one's place: it adds no window, and a summary would leave it stale.
	if alone || i.stands(i.Key) && what.errand == errandTell {
		c.start(&call{errand: what.errand, members: []member{m}}, now)
		return
	}
	b.add(m)
	if what.errand == errandTell {
		c.mute(b.until)
	}
}

// gather starts the summary of what a burst has brought.
func (c *Dispatcher) summarize(b *burst, now time.Time) {
	ca := &call{errand: errandTell, members: b.take(), summary: b.key}
	if b == &c.recoveries {
		ca.errand = errandRecovery
	} else {
		c.summaries++
	}
	c.start(ca, now)
}

// hush keeps every sentence that is not being spoken yet until the burst is over, to be part of one sentence.
// Those that wait for an earlier burst wait no longer than that.
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

// backoff says how long to wait after so many failures.
func backoff(failed int) time.Duration {
	wait := retryFirst
	for range failed - 1 {
		if wait = 2 * wait; wait >= retryMost {
			return retryMost
		}
	}
	return wait
}

// brokenKey is the incident that no channel works. It is listed only: it cannot ask to be delivered.
var brokenKey = brokenAlert("").Tidy().Key

func brokenAlert(detail string) rules.Alert {
	return rules.Alert{Kind: "notifier_broken", Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "notifier"},
		Severity: protocol.High, Summary: "No channel could reach you", Detail: detail, Foreign: true, ListOnly: true}
}

// complain enters that no channel works; mend ends that.
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
