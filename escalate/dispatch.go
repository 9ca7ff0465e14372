package escalate

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// dispatch is one notice, one withdrawal of a popup, or one message that is no incident, on its way through the channels.
type dispatch struct {
	job      jobKind
	members  []burstMember
	summary  string                // the popup's key if it is a summary of several incidents
	morning  bool                  // the summary of the notices that waited for the end of the quiet hours
	popup    string                // key of the popup to remove (jobWithdraw) or to show (jobAnnounce)
	compose  func() (Notice, bool) // jobAnnounce: makes the notice just before delivery; false: not needed any more
	severity protocol.Severity

	rest     []*channelState // channels to try if the earlier ones fail
	waiting  int             // channels that have not finished yet
	proved   map[string]bool // keys of the incidents that a channel has delivered
	by       string          // the last channel that proved delivery
	failures []string
}

// live lists the incidents of a dispatch that have not changed since it was made. The incidents are read again before every
// step, because the operator may have acknowledged an incident meanwhile.
func (d *dispatch) live(l *Incidents) []Incident {
	var live []Incident
	for _, m := range d.members {
		if i, ok := l.get(m.key); ok && i.Notice == m.rev && i.job() == d.job {
			live = append(live, i)
		}
	}
	return live
}

// spare omits incidents whose sentence was begun twice without an end (two processes were killed during it) and whose
// popup is on screen.
func (d *dispatch) spare(live []Incident) []Incident {
	return slices.DeleteFunc(live, func(i Incident) bool {
		spared := i.hasResult(ResultAgain) && len(i.popupsShown()) > 0
		if spared {
			d.proved[i.Key] = true
		}
		return spared
	})
}

// note records the outcome of one channel in the dispatch.
func (d *dispatch) note(channel string, r deliveryResult) {
	if r.err != nil {
		d.failures = append(d.failures, channel+": "+textOf(r.err))
		return
	}
	for key := range r.call.told {
		d.proved[key], d.by = true, channel
	}
}

// start sends a dispatch to the channels that its ladder names now. If none of them proves delivery, the remaining
// channels are tried one by one.
func (c *Dispatcher) start(d *dispatch, now time.Time) {
	d.proved = map[string]bool{}
	live := c.dropChanged(d)
	silent := true
	for _, i := range live {
		if d.severity == "" || i.Severity.Rank() > d.severity.Rank() {
			d.severity = i.Severity
		}
		silent = silent && c.routes.silent(i, now)
	}
	able := slices.DeleteFunc(slices.Clone(c.channels), func(w *channelState) bool { return !w.serves(d.job, silent) })
	var first []*channelState
	if len(live) > 0 && len(able) > 0 {
		first, d.rest = c.routes.choose(d.job, live, able)
	}
	if len(first) == 0 { // no channel accepts it
		for _, i := range live {
			c.record(i.Key, Delivery{Channel: "none", Result: ResultUnwanted, Rev: i.Notice}, true)
		}
		c.finish(d)
		return
	}
	if len(d.members) == 1 { // skip the channels that delivered this same notice before a restart
		first = slices.DeleteFunc(slices.Clone(first), func(w *channelState) bool {
			reached := live[0].reached(w.Name)
			d.proved[live[0].Key] = d.proved[live[0].Key] || reached
			return reached
		})
	}
	for _, w := range first {
		c.push(w, d, now)
	}
	if len(first) == 0 {
		c.settleAll(d)
		c.finish(d)
	}
}

// dropChanged drops the members that changed while they waited for their summary, and returns the others.
func (c *Dispatcher) dropChanged(d *dispatch) []Incident {
	live := d.live(c.incidents)
	keys := keysOf(live)
	d.members = slices.DeleteFunc(d.members, func(m burstMember) bool {
		if !keys[m.key] {
			delete(c.busy, m.key)
		}
		return !keys[m.key]
	})
	return live
}

// settle processes the result of a call.
func (c *Dispatcher) settle(r deliveryResult) {
	w := r.channel
	if r.err != nil && r.call.stop != nil && w.now.stop == nil {
		r.word, r.err = ResultDropped, errNotNeeded
	}
	w.busy, w.now, w.rested = false, call{}, c.now()
	if r.stack != nil {
		c.log.Error("panic", "channel", w.Name, "error", r.err, "stack", string(r.stack))
	}
	for _, q := range r.call.queued {
		switch q.job {
		case jobWithdraw:
			c.withdrawn(q.dispatch, w, r)
		case jobAnnounce:
			c.announced(q.dispatch, w, r)
		default:
			c.conclude(q.dispatch, w, r)
		}
	}
}

// conclude ends one channel's part in a dispatch: the next channel is tried, or the dispatch is finished. A result
// without a word means that the channel skipped the attempt because it was no longer needed.
func (c *Dispatcher) conclude(d *dispatch, w *channelState, r deliveryResult) {
	d.waiting--
	d.note(w.Name, r)
	log := c.log.With("key", d.members[0].key, "incidents", len(r.call.told), "channel", w.Name, "result", r.word)
	switch {
	case r.err != nil:
		log.Warn("deliver", "error", r.err)
	case r.word != "":
		log.Info("deliver")
	}
	allProved := !slices.ContainsFunc(d.live(c.incidents), func(i Incident) bool { return !d.proved[i.Key] })
	next := d.waiting == 0 && len(d.rest) > 0 && !allProved
	done := d.waiting == 0 && !next
	for _, m := range d.members {
		if r.call.told[m.key] {
			c.record(m.key, c.delivered(d, m, w, r), done && c.settles(d, m))
		}
	}
	if next {
		w, d.rest = d.rest[0], d.rest[1:]
		c.push(w, d, c.now())
	}
	if done {
		c.settleAll(d)
		c.finish(d)
	}
}

// settles reports whether a member needs no further attempt once the dispatch is over. A recovery is offered once. A
// reminder that no channel delivers is abandoned after remindMost failures, because the operator was told before.
func (c *Dispatcher) settles(d *dispatch, m burstMember) bool {
	if d.proved[m.key] || d.job == jobRecovery {
		return true
	}
	i, _ := c.incidents.get(m.key)
	failed := c.retries[jobOf(i)].failed
	return !i.Called.IsZero() && failed > 0 && failed+1 >= remindMost
}

// settleAll settles the members that an earlier channel delivered and the last channel did not include.
func (c *Dispatcher) settleAll(d *dispatch) {
	for _, m := range d.members {
		if !c.settles(d, m) {
			continue
		}
		if err := c.incidents.settle(m); err != nil {
			c.log.Error("settle notice", "key", m.key, "error", err)
		}
	}
}

func (c *Dispatcher) delivered(d *dispatch, m burstMember, w *channelState, r deliveryResult) Delivery {
	out := Delivery{Channel: w.Name, Result: r.word, OK: r.err == nil, Error: textOf(r.err), Rev: m.rev, Recovery: d.job == jobRecovery}
	if i, _ := c.incidents.get(m.key); i.Called.IsZero() {
		out.rung = c.routes.firstRung(i)
	}
	if !out.Recovery && w.Withdraw != nil { // after a timeout, or if it shows nothing now, the server may still show the popup later
		out.Popup = r.call.notice.Key
	}
	return out
}

// finish ends a dispatch. A notice that no channel proved is retried later.
func (c *Dispatcher) finish(d *dispatch) {
	if d.summary == newsKey {
		c.summaries--
	}
	for _, m := range d.members {
		delete(c.busy, m.key)
	}
	c.incidents.signal() // collect skipped these incidents while they were busy
	lost := false
	for _, i := range d.live(c.incidents) {
		if d.job == jobTell {
			lost = lost || i.Called.IsZero()
			c.retries.failed(jobOf(i), c.now())
		}
	}
	switch {
	case d.by != "":
		c.resolveBroken(d.by)
	case lost:
		c.raiseBroken(strings.Join(d.failures, "; "))
	}
}

// withdraw starts the withdrawal of the incident's first remaining popup.
func (c *Dispatcher) withdraw(i Incident, now time.Time) {
	popup := i.popupsToRemove()[0]
	d := &dispatch{job: jobWithdraw, members: []burstMember{{i.Key, i.Notice}}, popup: popup.Popup}
	n := slices.IndexFunc(c.channels, func(w *channelState) bool { return w.Name == popup.Channel && w.Withdraw != nil })
	if n < 0 {
		c.gone(d, popup.Channel, ResultStuck, errors.New("the channel is not in use any more"))
		return
	}
	c.push(c.channels[n], d, now)
}

// gone records that a popup was withdrawn, or that withdrawal was abandoned.
func (c *Dispatcher) gone(d *dispatch, channel, result string, err error) {
	m := d.members[0]
	c.record(m.key, Delivery{Channel: channel, Result: result, OK: err == nil, Error: textOf(err), Rev: m.rev}, false)
	delete(c.leaving, m.key)
}

// needsWithdrawal reports whether to withdraw a popup. A summary popup stays while it shows other incidents, or
// is about to be replaced.
func (c *Dispatcher) needsWithdrawal(d *dispatch, w *channelState) bool {
	if d.popup != newsKey || c.summaries == 0 && len(onSummary(c.incidents, map[string]bool{d.members[0].key: true})) == 0 {
		return true
	}
	c.gone(d, w.Name, ResultWithdrawn, nil)
	if c.summaries == 0 { // otherwise a new summary is already in progress
		c.refresh(w)
	}
	return false
}

func (c *Dispatcher) withdrawn(d *dispatch, w *channelState, r deliveryResult) {
	m := d.members[0]
	if r.err == nil {
		c.gone(d, w.Name, ResultWithdrawn, nil)
		return
	}
	c.log.Warn("withdraw", "key", m.key, "channel", w.Name, "error", r.err)
	if c.retries.failed(jobKey{key: m.key, job: jobWithdraw}, c.now()) >= withdrawMost {
		c.gone(d, w.Name, ResultStuck, r.err)
		return
	}
	delete(c.leaving, m.key)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return rules.Shorten(err.Error(), rules.MaxSpoken)
}
