package escalate

import (
	"slices"
	"time"
)

// remindMost is how many times a reminder that no channel delivers is tried.
const remindMost = 3

// choose splits the channels that accept the call (at least one) into those called at once and those tried one by one
// if the first group fails. A first notice may fall back to any other channel. A reminder falls back only to later
// channels in the order: the earlier ones have told the operator already.
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
	if len(first) == 0 && news { // the ladder's channels are not configured, or may not be used now
		return able[:1], able[1:]
	}
	return first, rest
}

// calls lists the channels for an incident's notice.
func (c *Dispatcher) calls(i Incident) []string {
	if len(i.Calls) > 0 {
		return i.Calls
	}
	names := c.names()
	return c.cfg.ladder(i).between(names, -1, c.firstRung(i))
}

// firstRung is the time of the first rung of the incident's ladder.
func (c *Dispatcher) firstRung(i Incident) time.Duration {
	first, ok := c.cfg.ladder(i).next(c.names(), -1)
	if !ok {
		return 0
	}
	return first
}

// whoTold chooses the channels for a recovery: those that delivered the original notice, else the first able channel.
func (c *Dispatcher) whoTold(live []Incident, able []*worker) []*worker {
	told := slices.DeleteFunc(slices.Clone(able), func(w *worker) bool {
		return !slices.ContainsFunc(live, func(i Incident) bool { return i.toldBy(w.Name) })
	})
	if len(told) == 0 {
		return able[:min(1, len(able))]
	}
	return told
}

// toldBy reports whether the channel delivered a notice of the incident since it was last opened.
func (i Incident) toldBy(channel string) bool {
	return slices.ContainsFunc(i.Deliveries, func(d Delivery) bool { return d.Channel == channel && i.tells(d) })
}
