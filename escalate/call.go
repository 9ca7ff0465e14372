package escalate

import (
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// call is one thing to tell, on its way through the channels.
type call struct {
	errand   noticeKind
	members  []member
	summary  string // the popup's key, for a summary of many
	morning  bool   // it tells what waited for the end of the quiet hours
	popup    string // what to take away, for errandWithdraw
	severity protocol.Severity

	rest     []*worker // still to be tried, if those before fail
	waiting  int       // lines under way
	proved   map[string]bool
	by       string // the channel that proved it last
	failures []string
}

// start sends a call to the channels that its ladder names for now, and to the others one by one if none of those
// proves it.
func (c *Dispatcher) start(ca *call, now time.Time) {
	ca.proved = map[string]bool{}
	live := c.keepLive(ca)
	silent := true
	for _, i := range live {
		if ca.severity == "" || i.Severity.Rank() > ca.severity.Rank() {
			ca.severity = i.Severity
		}
		silent = silent && c.silent(i, now)
	}
	var able []*worker
	for _, w := range c.workers {
		if w.serves(ca.errand, silent) {
			able = append(able, w)
		}
	}
	if len(live) == 0 || len(able) == 0 {
		c.unwanted(ca, live)
		return
	}
	first, rest := c.choose(ca, live, able)
	if len(first) == 0 {
		c.unwanted(ca, live)
		return
	}
	ca.rest, first = rest, c.resume(ca, first)
	for _, w := range first {
		c.push(w, ca, now)
	}
	if len(first) == 0 {
		c.settleAll(ca)
		c.finish(ca)
	}
}

// keepLive frees the members that have changed while they waited for their summary.
func (c *Dispatcher) keepLive(ca *call) []Incident {
	live := c.live(ca)
	keys := keysOf(live)
	ca.members = slices.DeleteFunc(ca.members, func(m member) bool {
		if !keys[m.key] {
			delete(c.busy, m.key)
		}
		return !keys[m.key]
	})
	return live
}

// resume leaves out the channels that carried this very notice before a restart.
func (c *Dispatcher) resume(ca *call, first []*worker) []*worker {
	if len(ca.members) > 1 {
		return first
	}
	i, _ := c.ledger.get(ca.members[0].key)
	var left []*worker
	for _, w := range first {
		if i.reached(w.Name) {
			ca.proved[i.Key] = true
			continue
		}
		left = append(left, w)
	}
	return left
}

// serves reports whether the channel is for such a call: good news is never spoken.
func (w *worker) serves(e noticeKind, silent bool) bool {
	return !w.speaks() || !silent && e != errandRecovery
}

// unwanted ends a call that no channel is for.
func (c *Dispatcher) unwanted(ca *call, live []Incident) {
	for _, i := range live {
		c.record(i.Key, Delivery{Channel: "none", Result: ResultUnwanted, At: c.now(), Rev: i.Notice}, true)
	}
	c.finish(ca)
}

// live lists the incidents of a call that still are as they were when it was made: the ledger is read again before
// every step, because a human may have acknowledged one meanwhile.
func (c *Dispatcher) live(ca *call) []Incident {
	var live []Incident
	for _, m := range ca.members {
		i, ok := c.ledger.get(m.key)
		if ok && i.Notice == m.rev && i.errand() == ca.errand {
			live = append(live, i)
		}
	}
	return live
}

// settle takes in what became of a job.
func (c *Dispatcher) settle(r result) {
	w := r.worker
	if r.err != nil && r.job.stop != nil && w.now.stop == nil {
		r.word, r.err = ResultDropped, errNotNeeded
	}
	w.busy, w.now, w.rested = false, job{}, c.now()
	if r.stack != nil {
		c.log.Error("panic", "channel", w.Name, "error", r.err, "stack", string(r.stack))
	}
	if r.job.aside != nil {
		c.asideDone(r.job.aside, w, r)
		return
	}
	for _, l := range r.job.lines {
		if l.call.errand == errandWithdraw {
			c.withdrawn(l.call, w, r)
			continue
		}
		c.conclude(l.call, w, r)
	}
}

// conclude ends one channel's part in a call: the next channel follows, or the call is over.
func (c *Dispatcher) conclude(ca *call, w *worker, r result) {
	ca.waiting--
	ca.note(w, r)
	c.report(ca, w, r)
	next := ca.waiting == 0 && len(ca.rest) > 0 && !c.allProved(ca)
	done := ca.waiting == 0 && !next
	for _, m := range ca.members {
		if r.job.told[m.key] {
			c.record(m.key, c.delivered(ca, m, w, r), done && c.settles(ca, m))
		}
	}
	if next {
		w, ca.rest = ca.rest[0], ca.rest[1:]
		c.push(w, ca, c.now())
	}
	if done {
		c.settleAll(ca)
		c.finish(ca)
	}
}

// report logs an attempt. A line that was not worth attempting any more has no word.
func (c *Dispatcher) report(ca *call, w *worker, r result) {
	switch {
	case r.err != nil:
		c.log.Warn("deliver", "key", ca.members[0].key, "incidents", len(r.job.told), "channel", w.Name, "result", r.word, "error", r.err)
	case r.word != "":
		c.log.Info("deliver", "key", ca.members[0].key, "incidents", len(r.job.told), "channel", w.Name, "result", r.word)
	}
}

// note remembers what a channel achieved.
func (ca *call) note(w *worker, r result) {
	if r.err != nil {
		ca.failures = append(ca.failures, w.Name+": "+textOf(r.err))
		return
	}
	for key := range r.job.told {
		ca.proved[key], ca.by = true, w.Name
	}
}

// settles reports whether nothing more is owed to a member once the call is over. Good news is offered once; a
// reminder that nobody carries is given up after a while, for the human was told before.
func (c *Dispatcher) settles(ca *call, m member) bool {
	if ca.proved[m.key] || ca.errand == errandRecovery {
		return true
	}
	i, _ := c.ledger.get(m.key)
	t := c.tries[errandOf(i)]
	return !i.Called.IsZero() && t != nil && t.failed+1 >= remindMost
}

// settleAll covers the members that the last channel did not tell of, but an earlier one did.
func (c *Dispatcher) settleAll(ca *call) {
	for _, m := range ca.members {
		if !c.settles(ca, m) {
			continue
		}
		if err := c.ledger.settle(m); err != nil {
			c.log.Error("settle notice", "key", m.key, "error", err)
		}
	}
}

func (c *Dispatcher) allProved(ca *call) bool {
	return !slices.ContainsFunc(c.live(ca), func(i Incident) bool { return !ca.proved[i.Key] })
}

func (c *Dispatcher) delivered(ca *call, m member, w *worker, r result) Delivery {
	d := Delivery{Channel: w.Name, Result: r.word, At: c.now(), OK: r.err == nil, Error: textOf(r.err), Rev: m.rev,
		Recovery: ca.errand == errandRecovery}
	if i, _ := c.ledger.get(m.key); i.Called.IsZero() {
		d.rung = c.firstRung(i)
	}
	if !d.Recovery && w.Withdraw != nil { // a server that took it too late, or shows nothing now, may show it yet
		d.Popup = r.job.notice.Key
	}
	return d
}

// finish ends a call. What no channel proved is tried again later.
func (c *Dispatcher) finish(ca *call) {
	if ca.summary == c.news.key {
		c.summaries--
	}
	for _, m := range ca.members {
		delete(c.busy, m.key)
	}
	c.ledger.signal() // what these incidents owe meanwhile was not taken up
	lost := false
	for _, i := range c.live(ca) {
		if ca.errand == errandTell {
			lost = lost || i.Called.IsZero()
			c.failed(errandOf(i))
		}
	}
	switch {
	case ca.by != "":
		c.resolveBroken(ca.by)
	case lost:
		c.raiseBroken(strings.Join(ca.failures, "; "))
	}
}

// failed counts a failure, sets when to try again, and says how many there have been.
func (c *Dispatcher) failed(what noticeKey) int {
	t := c.tries[what]
	if t == nil {
		t = &tries{}
		c.tries[what] = t
	}
	t.failed++
	t.again = c.now().Add(backoff(t.failed))
	return t.failed
}

// record writes a delivery to the ledger. A failure to write leaves it in memory, to be written later.
func (c *Dispatcher) record(key string, d Delivery, settled bool) {
	if i, known := c.ledger.get(key); known && c.Told != nil && d.isNews(i) {
		c.Told(i, d)
	}
	if err := c.ledger.Record(key, d, settled); err != nil {
		c.log.Error("record delivery", "key", key, "channel", d.Channel, "error", err)
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return rules.Shorten(err.Error(), rules.MaxSpoken)
}
