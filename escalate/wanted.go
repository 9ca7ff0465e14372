package escalate

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// remindMost is how often a reminder that no channel carries is tried.
const remindMost = 3

// wanted are the channels of a call: those that are called at once, and those that follow one by one if these fail.
type wanted struct{ first, rest []*worker }

// wanted chooses among the channels that serve such a call; there is at least one. The first notice may fall through to any other channel; a
// reminder only to those that stand behind: what stands before has told the human already.
func (c *Courier) wanted(ca *call, live []Incident, able []*worker) wanted {
	if ca.errand == errandRecovery {
		return wanted{first: c.whoTold(live, able)}
	}
	names, news := map[string]bool{}, false
	for _, i := range live {
		news = news || i.Called.IsZero()
		for _, name := range c.calls(i) {
			names[name] = true
		}
	}
	var all wanted
	for _, w := range able {
		switch {
		case names[w.Name]:
			all.first = append(all.first, w)
		case news || len(all.first) > 0:
			all.rest = append(all.rest, w)
		}
	}
	if len(all.first) == 0 && news { // what the ladder names is not in use, or may not be used now
		return wanted{first: able[:1], rest: able[1:]}
	}
	return all
}

// calls lists the channels that an incident's notice is for.
func (c *Courier) calls(i Incident) []string {
	if len(i.Calls) > 0 {
		return i.Calls
	}
	names := c.names()
	return c.cfg.ladder(i).between(names, -1, c.firstRung(i))
}

// firstRung is when the ladder of an incident begins.
func (c *Courier) firstRung(i Incident) time.Duration {
	first, ok := c.cfg.ladder(i).next(c.names(), -1)
	if !ok {
		return 0
	}
	return first
}

// whoTold chooses who brings good news: whoever brought the bad news, else the first who shows anything.
func (c *Courier) whoTold(live []Incident, able []*worker) []*worker {
	told := slices.DeleteFunc(slices.Clone(able), func(w *worker) bool {
		return !slices.ContainsFunc(live, func(i Incident) bool { return i.toldBy(w.Name) })
	})
	if len(told) == 0 {
		return able[:min(1, len(able))]
	}
	return told
}

// toldBy reports whether the channel told of the incident since it was last opened.
func (i Incident) toldBy(channel string) bool {
	return slices.ContainsFunc(i.Deliveries, func(d Delivery) bool { return d.Channel == channel && i.tells(d) })
}

// silent reports whether nothing is to be said aloud of the incident now.
func (c *Courier) silent(i Incident, now time.Time) bool {
	on, _ := c.cfg.QuietHours.on(now)
	return i.Silent || on
}

// waits reports whether an incident's notice is put off, and until when (zero: until something changes).
func (c *Courier) waits(i Incident, causes []Incident, now time.Time) (until time.Time, yes bool) {
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
	if on, end := c.cfg.QuietHours.on(now); on && (i.Severity != protocol.Critical || c.onlySpeaks()) {
		c.putOff(i, ResultQuiet, "")
		return end, true
	}
	return time.Time{}, false
}

// onlySpeaks reports whether there is no channel that is fit for quiet hours.
func (c *Courier) onlySpeaks() bool {
	return !slices.ContainsFunc(c.workers, func(w *worker) bool { return !w.speaks() })
}

// catchUp brings a notice that was put off up to date.
func (c *Courier) catchUp(i Incident, now time.Time) Incident {
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

// putOff records, once per notice, why nothing is told yet.
func (c *Courier) putOff(i Incident, result, why string) {
	if !i.waits(result) {
		c.record(i.Key, Delivery{Channel: "none", Result: result, At: c.now(), Rev: i.Notice, Error: why}, false)
	}
}

// goodMorning tells in one notice what waited for the end of the quiet hours. What has a popup of its own keeps it.
func (c *Courier) goodMorning(waited []member, now time.Time) {
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

// explains says which kinds of incident follow from another one about the same agent, or from a machine without room.
// While the cause is open, its consequences are only listed: they do not help to find it.
var explains = map[string][]string{
	"agent_dead":  {"stalled", "overrun", "untaken", "finding"},
	"agent_error": {"stalled", "overrun"},
	"gate_shut":   {"untaken", "stalled"},
}

// causes lists the open incidents that may explain others.
func (l *Ledger) causes() []Incident {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var list []Incident
	for key := range l.open {
		if i := l.all[key]; explains[i.Kind] != nil {
			list = append(list, i)
		}
	}
	return list
}

// inhibitor is the key of the one that explains the incident, "" if there is none.
func inhibitor(i Incident, causes []Incident) string {
	for _, cause := range causes {
		if cause.explains(i) {
			return cause.Key
		}
	}
	return ""
}

// explains reports whether another incident follows from this one. Only what is graver explains anything.
func (i Incident) explains(other Incident) bool {
	if i.Severity.Rank() <= other.Severity.Rank() || !slices.Contains(explains[i.Kind], other.Kind) {
		return false
	}
	if i.Kind == "gate_shut" && i.Agent == "" {
		return true // the machine is full for everybody
	}
	return i.Agent == other.Agent && i.Project == other.Project && i.Protocol == other.Protocol
}
