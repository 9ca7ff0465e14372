package escalate

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// routes says which channels deliver an incident's notice, and when.
type routes struct {
	cfg      Config
	channels []string // the names of the channels, in order
}

// silent reports whether the incident must not be spoken now.
func (r routes) silent(i Incident, now time.Time) bool {
	on, _ := r.cfg.QuietHours.On(now)
	return i.Silent || on
}

// postponement is why a notice waits: a result to be recorded ("" for the first rung of its ladder, which is not
// recorded), and the end of the wait (zero: when something changes).
type postponement struct {
	result, why string
	until       time.Time
}

// postpone reports whether an incident's notice must wait. See docs/decisions.md, "Quiet hours follow the wall clock".
func (r routes) postpone(i Incident, causes []Incident, now time.Time) (p postponement, waits bool) {
	if i.job() != jobTell {
		return p, false
	}
	if i.Called.IsZero() && len(i.Calls) == 0 {
		if due := i.Opening.Add(r.firstRung(i)); now.Before(due) {
			return postponement{until: due}, true
		}
	}
	if by := inhibitor(i, causes); by != "" {
		return postponement{result: ResultInhibited, why: "see incident " + by}, true
	}
	onlyVoice := !slices.ContainsFunc(r.channels, func(name string) bool { return name != ChannelSpeech })
	if on, end := r.cfg.QuietHours.On(now); on && (i.Severity != protocol.Critical || onlyVoice) {
		return postponement{result: ResultQuiet, until: end}, true
	}
	return p, false
}

// calls lists the channels for an incident's notice.
func (r routes) calls(i Incident) []string {
	if len(i.Calls) > 0 {
		return i.Calls
	}
	return r.cfg.ladder(i).between(r.channels, -1, r.firstRung(i))
}

// firstRung is the time of the first rung of the incident's ladder.
func (r routes) firstRung(i Incident) time.Duration {
	first, _ := r.cfg.ladder(i).next(r.channels, -1)
	return first
}

// choose splits the channels that accept a dispatch (at least one) into those called at once and those tried one by one
// if the first group fails. A first notice may fall back to any other channel. A reminder falls back only to later
// channels in the order: the earlier ones have told the operator already.
// See docs/decisions.md, "The first notice falls through to every channel; a reminder goes only to its own".
func (r routes) choose(job jobKind, live []Incident, able []*channelState) (first, rest []*channelState) {
	if job == jobRecovery {
		return recoveryChannels(live, able), nil
	}
	names, news := map[string]bool{}, false
	for _, i := range live {
		news = news || i.Called.IsZero()
		for _, name := range r.calls(i) {
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

// recoveryChannels chooses the channels for a recovery: those that delivered the original notice, else the first.
func recoveryChannels(live []Incident, able []*channelState) []*channelState {
	told := slices.DeleteFunc(slices.Clone(able), func(w *channelState) bool {
		return !slices.ContainsFunc(live, func(i Incident) bool { return i.toldBy(w.Name) })
	})
	if len(told) == 0 {
		return able[:min(1, len(able))]
	}
	return told
}

// consequences maps a kind of incident to the kinds that follow from it, for the same agent or, when the machine is
// full, for all agents. While the cause is open, its consequences are only listed, because they do not help to find
// the cause. See docs/decisions.md, "Which incident explains which is a table in the code".
var consequences = map[string][]string{
	"agent_dead":  {"stalled", "overrun", "untaken", "finding"},
	"agent_error": {"stalled", "overrun"},
	"agent_hung":  {"stalled", "overrun"},
	"gate_shut":   {"untaken", "stalled"},
}

// inhibitor returns the key of the incident that explains this one, or "" if none exists.
func inhibitor(i Incident, causes []Incident) string {
	n := slices.IndexFunc(causes, func(cause Incident) bool { return cause.explains(i) })
	if n < 0 {
		return ""
	}
	return causes[n].Key
}

// explains reports whether the other incident follows from this one. Only a more severe incident explains another.
func (i Incident) explains(other Incident) bool {
	if i.Severity.Rank() <= other.Severity.Rank() || !slices.Contains(consequences[i.Kind], other.Kind) {
		return false
	}
	if i.Kind == "gate_shut" && i.Agent == "" {
		return true // the machine is full for every agent
	}
	return i.Agent == other.Agent && i.Project == other.Project && i.Protocol == other.Protocol
}
