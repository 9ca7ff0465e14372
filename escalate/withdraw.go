package escalate

import (
	"errors"
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
)

// withdraw starts the withdrawal of the incident's first remaining popup.
func (c *Dispatcher) withdraw(i Incident, m member, now time.Time) {
	d := i.lingering()[0]
	ca := &call{errand: errandWithdraw, members: []member{m}, popup: d.Popup}
	n := slices.IndexFunc(c.workers, func(w *worker) bool { return w.Name == d.Channel && w.Withdraw != nil })
	if n < 0 {
		c.gone(ca, d.Channel, ResultStuck, errors.New("the channel is not in use any more"))
		return
	}
	c.push(c.workers[n], ca, now)
}

// summaryNeeded reports whether the summary popup still shows other incidents, or is about to be replaced.
func (c *Dispatcher) summaryNeeded(but string) bool {
	return c.summaries > 0 || slices.ContainsFunc(c.ledger.List(), func(i Incident) bool {
		return i.Key != but && i.State == rules.Raised && i.stands(c.news.key)
	})
}

// gone records that a popup was withdrawn, or that withdrawal was abandoned.
func (c *Dispatcher) gone(ca *call, channel, result string, err error) {
	m := ca.members[0]
	c.record(m.key, Delivery{Channel: channel, Result: result, At: c.now(), OK: err == nil, Error: textOf(err), Rev: m.rev}, false)
	delete(c.leaving, m.key)
}

// stale reports whether a popup is to be withdrawn. A summary popup stays while it is needed for other incidents.
func (c *Dispatcher) stale(ca *call, w *worker) bool {
	if ca.popup != c.news.key || !c.summaryNeeded(ca.members[0].key) {
		return true
	}
	c.gone(ca, w.Name, ResultWithdrawn, nil)
	if c.summaries == 0 { // otherwise a new summary is already in progress
		c.refresh(w)
	}
	return false
}

func (c *Dispatcher) withdrawn(ca *call, w *worker, r result) {
	m := ca.members[0]
	if r.err == nil {
		c.gone(ca, w.Name, ResultWithdrawn, nil)
		return
	}
	c.log.Warn("withdraw", "key", m.key, "channel", w.Name, "error", r.err)
	if c.failed(noticeKey{key: m.key, errand: errandWithdraw}) >= withdrawMost {
		c.gone(ca, w.Name, ResultStuck, r.err)
		return
	}
	delete(c.leaving, m.key)
}
