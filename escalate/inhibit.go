package escalate

import "slices"

// consequences maps a kind of incident to the kinds that follow from it, for the same agent or, when the machine is
// full, for all agents. While the cause is open, its consequences are only listed, because they do not help to find
// the cause.
var consequences = map[string][]string{
	"agent_dead":  {"stalled", "overrun", "untaken", "finding"},
	"agent_error": {"stalled", "overrun"},
	"agent_hung":  {"stalled", "overrun"},
	"gate_shut":   {"untaken", "stalled"},
}

// causes lists the open incidents that may explain others.
func (l *Ledger) causes() []Incident {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var list []Incident
	for key := range l.open {
		if i := l.all[key]; consequences[i.Kind] != nil {
			list = append(list, i)
		}
	}
	return list
}

// inhibitor returns the key of the incident that explains this one, or "" if there is none.
func inhibitor(i Incident, causes []Incident) string {
	for _, cause := range causes {
		if cause.explains(i) {
			return cause.Key
		}
	}
	return ""
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
