package escalate

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// silent reports whether the incident must not be spoken now.
func (c *Dispatcher) silent(i Incident, now time.Time) bool {
	on, _ := c.cfg.QuietHours.On(now)
	return i.Silent || on
}

// waits reports whether an incident's notice is postponed, and until when (zero: until something changes).
func (c *Dispatcher) waits(i Incident, causes []Incident, now time.Time) (until time.Time, yes bool) {
	if i.errand() != errandTell {
		return time.Time{}, false
	}
	if i.Called.IsZero() && len(i.Calls) == 0 {
		if due := i.Opening.Add(c.firstRung(i)); now.Before(due) {
			return due, true
		}
	}
	if by := inhibitor(i, causes); by != "" {
		c.putOff(i, ResultInhibited, "see incident "+by)
		return time.Time{}, true
	}
	if on, end := c.cfg.QuietHours.On(now); on && (i.Severity != protocol.Critical || c.onlySpeaks()) {
		c.putOff(i, ResultQuiet, "")
		return end, true
	}
	return time.Time{}, false
}

// onlySpeaks reports whether no channel is suitable for quiet hours.
func (c *Dispatcher) onlySpeaks() bool {
	return !slices.ContainsFunc(c.workers, func(w *worker) bool { return !w.speaks() })
}

// catchUp extends a postponed notice to the channels that became due meanwhile.
func (c *Dispatcher) catchUp(i Incident, now time.Time) Incident {
	if _, due := catchUp(i, c.cfg.ladder(i), c.names(), wall(now)); !due {
		return i
	}
	up, err := c.ledger.change(i.Key, func(i Incident) (Incident, bool, error) {
		i, due := catchUp(i, c.cfg.ladder(i), c.names(), wall(now))
		return i, due, nil
	})
	if err != nil {
		c.log.Error("write incident", "key", i.Key, "error", err)
	}
	return up
}

// putOff records, once per notice, why the notice is postponed.
func (c *Dispatcher) putOff(i Incident, result, why string) {
	if !i.waits(result) {
		c.record(i.Key, Delivery{Channel: "none", Result: result, At: c.now(), Rev: i.Notice, Error: why}, false)
	}
}

// goodMorning starts one summary of the notices that waited for the end of the quiet hours. An incident with its own
// popup gets a call of its own, which replaces that popup.
func (c *Dispatcher) goodMorning(waited []member, now time.Time) {
	var together []member
	summary := false
	for _, m := range waited {
		i, _ := c.ledger.get(m.key)
		if i.stands(m.key) {
			c.start(&call{errand: errandTell, members: []member{m}}, now)
			continue
		}
		together, summary = append(together, m), summary || i.stands(c.news.key)
	}
	switch {
	case len(together) == 0:
	case len(together) == 1 && !summary:
		c.start(&call{errand: errandTell, members: together}, now)
	default:
		c.summaries++
		c.start(&call{errand: errandTell, members: together, summary: c.news.key, morning: true}, now)
	}
}
