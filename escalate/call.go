package escalate

import (
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// call is one notice, or one withdrawal of a popup, on its way through the channels.
type call struct {
	errand   noticeKind
	members  []member
	summary  string // the popup's key if the call is a summary of several incidents
	morning  bool   // the summary of the notices that waited for the end of the quiet hours
	popup    string // key of the popup to remove, for errandWithdraw
	severity protocol.Severity

	rest     []*worker // channels to try if the earlier ones fail
	waiting  int       // channels that have not finished yet
	proved   map[string]bool
	by       string // the last channel that proved delivery
	failures []string
}

// start sends a call to the channels that its ladder names now. If none of them proves delivery, the remaining
// channels are tried one by one.
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

// keepLive drops the members that changed while they waited for their summary.
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

// resume skips the channels that delivered this same notice before a restart.
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

// serves reports whether the channel accepts such a call. A recovery is never spoken.
func (w *worker) serves(e noticeKind, silent bool) bool {
	return !w.speaks() || !silent && e != errandRecovery
}

// unwanted ends a call that no channel accepts.
func (c *Dispatcher) unwanted(ca *call, live []Incident) {
	for _, i := range live {
		c.record(i.Key, Delivery{Channel: "none", Result: ResultUnwanted, At: c.now(), Rev: i.Notice}, true)
	}
	c.finish(ca)
}

// live lists the incidents of a call that have not changed since it was made. The ledger is read again before every
// step, because the operator may have acknowledged an incident meanwhile.
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

// settle processes the result of a job.
func (c *Dispatcher) settle(r result) {
	w := r.worker
	if r.err != nil && r.job.stop != nil && w.now.stop == nil {
		r.word, r.err = ResultDropped, errNotNeeded
	}
	w.busy, w.now, w.rested = false, job{}, c.now()
	if r.stack != nil {
		c.log.Error("panic", "channel", w.Name, "error", r.err, "stack", string(r.stack))
	}
	if r.job.announcement != nil {
		c.announcementDone(r.job.announcement, w, r)
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

// conclude ends one channel's part in a call: the next channel is tried, or the call is finished.
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

// report logs a delivery attempt. The result has no word if the channel skipped the attempt because it was no longer
// needed.
func (c *Dispatcher) report(ca *call, w *worker, r result) {
	switch {
	case r.err != nil:
		c.log.Warn("deliver", "key", ca.members[0].key, "incidents", len(r.job.told), "channel", w.Name, "result", r.word, "error", r.err)
	case r.word != "":
		c.log.Info("deliver", "key", ca.members[0].key, "incidents", len(r.job.told), "channel", w.Name, "result", r.word)
	}
}

// note records the outcome of one channel in the call.
func (ca *call) note(w *worker, r result) {
	if r.err != nil {
		ca.failures = append(ca.failures, w.Name+": "+textOf(r.err))
		return
	}
	for key := range r.job.told {
		ca.proved[key], ca.by = true, w.Name
	}
}

// settles reports whether a member needs no further attempt once the call is over. A recovery is offered once. A
// reminder that no channel delivers is abandoned after remindMost failures, because the operator was told before.
func (c *Dispatcher) settles(ca *call, m member) bool {
	if ca.proved[m.key] || ca.errand == errandRecovery {
		return true
	}
	i, _ := c.ledger.get(m.key)
	t := c.tries[errandOf(i)]
	return !i.Called.IsZero() && t != nil && t.failed+1 >= remindMost
}

// settleAll settles the members that an earlier channel delivered and the last channel did not include.
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
	if !d.Recovery && w.Withdraw != nil { // after a timeout, or if it shows nothing now, the server may still show the popup later
		d.Popup = r.job.notice.Key
	}
	return d
}

// finish ends a call. A notice that no channel proved is retried later.
func (c *Dispatcher) finish(ca *call) {
	if ca.summary == c.news.key {
		c.summaries--
	}
	for _, m := range ca.members {
		delete(c.busy, m.key)
	}
	c.ledger.signal() // collect skipped these incidents while they were busy
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

// failed counts a failure, schedules the retry and returns the number of failures so far.
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

// record writes a delivery to the ledger. If the write fails, the delivery stays in memory and is written later.
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
