package handoffs

import (
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// summary is what remains of a message that is no longer listed, and what the measures need of each message.
type summary struct {
	id, to, kind string
	work         work
	created      jsonfile.Stated
	span         time.Duration // from accepted to completed; 0 if unknown
	replies      []string
}

// has reports whether a message belongs to the workflow: by the workflow's id if the message names one, else by kind and
// spec, unless the message is older than the workflow.
func (w *workflow) has(m *summary) bool {
	switch {
	case *w == workflow{}:
		return false
	case m.work.id != "":
		return m.work.id == w.id
	case m.work.kind != "" && m.work.kind == w.id:
		return true
	case m.work.kind != "" && w.kind != "" && m.work.kind != w.kind, m.work.spec != "" && w.spec != "" && m.work.spec != w.spec:
		return false
	}
	started := w.started
	started.At = started.At.Truncate(time.Second)
	return started.At.IsZero() || m.created.At.IsZero() || m.created.CanFollow(started)
}

// measures returns the figures of protocol 001, Metrics Collected. Durations run from acceptance to completion.
func measures(s *state, messages []*summary) []protocol.Measure {
	escalations := 0
	kinds := map[string]int{} // the handoffs of the current workflow, by kind
	handoffs := 0
	spans := map[string]time.Duration{}
	for _, m := range messages {
		if m.kind == typeEscalation {
			escalations++
		}
		if m.span > 0 {
			spans[m.to] += m.span
		}
		if isWork(m.kind) && s.workflow.has(m) {
			handoffs++
			kinds[m.kind]++
		}
	}
	var list []protocol.Measure
	for _, agent := range sortedKeys(spans) {
		list = append(list, protocol.Measure{Name: "time_per_agent_seconds", Agent: agent, Value: spans[agent].Truncate(time.Second).Seconds()})
	}
	if s.workflow != (workflow{}) {
		fixes := max(kinds[typeFix], kinds[typeRereview])
		if s.hasIteration && s.iteration > 1 && s.iteration < 1e6 {
			fixes = max(fixes, int(s.iteration-1))
		}
		list = append(list, protocol.Measure{Name: "handoffs_per_workflow", Value: float64(handoffs)},
			protocol.Measure{Name: "fix_iterations", Value: float64(fixes)})
	}
	if len(messages) > 0 {
		list = append(list, protocol.Measure{Name: "escalation_rate", Value: float64(escalations) / float64(len(messages))})
	}
	return list
}
