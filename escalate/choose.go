package escalate

import (
	"slices"
	"time"
)

// remindMost is how often a reminder that no channel carries is tried.
const remindMost = 3

// choose divides the channels that serve such a call, of which there is at least one, into those that are called at once
// and those that follow one by one if these fail. The first notice may fall through to any other channel; a reminder only
// to those that stand behind: what stands before has told the human already.
func (c *Dispatcher) choose(ca *call, live []Incident, able []*worker) (first, rest []*worker) {
	if ca.errand == errandRecovery {
		return c.whoTold(live, able), nil
	}
	names, news := map[string]bool{}, false
	for _, i := range live {
		news = news || i.Called.IsZero()
		for _, name := range c.calls(i) {
			names[name] = true
		}
	}
	for _, w := range able {
		switch {
		case names[w.Name]:
			first = append(first, w)
		case news || len(first) > 0:
			rest = append(rest, w)
		}
	}
	if len(first) == 0 && news { // what the ladder names is not in use, or may not be used now
		return able[:1], able[1:]
	}
	return first, rest
}

// calls lists the channels that an incident's notice is for.
func (c *Dispatcher) calls(i Incident) []string {
	if len(i.Calls) > 0 {
		return i.Calls
	}
	names := c.names()
	return c.cfg.ladder(i).between(names, -1, c.firstRung(i))
}

// firstRung is when the ladder of an incident begins.
func (c *Dispatcher) firstRung(i Incident) time.Duration {
	first, ok := c.cfg.ladder(i).next(c.names(), -1)
	if !ok {
		return 0
	}
	return first
}

// whoTold chooses who brings good news: whoever brought the bad news, else the first who shows anything.
func (c *Dispatcher) whoTold(live []Incident, able []*worker) []*worker {
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
