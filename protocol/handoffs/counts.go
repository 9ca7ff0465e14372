package handoffs

import (
	"maps"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// closed is a message that is no longer listed. It costs only this entry until its file changes.
type closed struct {
	box         box
	mtime, size int64
	message     *summary // nil: skipped unread
}

// summary is what the counts need from a message.
type summary struct {
	id, to, kind string
	work         work
	created      jsonfile.Stated
	span         time.Duration // from accepted to completed; 0 if unknown
	replies      []string
}

// counts are totals over the closed messages, so that no scan has to visit them.
type counts struct {
	workflow workflow // which workflow the sums are about
	sums     sums
	ids      map[string]int // files per id
	answered map[string]int // answers per escalation
}

// sums are the counts behind the measures.
type sums struct {
	messages, escalations     int
	handoffs, fixes, rereview int // of the current workflow
	spans                     map[string]time.Duration
}

// add counts a message; with sign -1, it removes the message from the sums.
func (s *sums) add(m *summary, flow *workflow, sign int) {
	s.messages += sign
	if m.kind == typeEscalation {
		s.escalations += sign
	}
	if m.span > 0 {
		if s.spans == nil {
			s.spans = map[string]time.Duration{}
		}
		if s.spans[m.to] += time.Duration(sign) * m.span; s.spans[m.to] <= 0 {
			delete(s.spans, m.to)
		}
	}
	if !flow.has(m) || !isWork(m.kind) {
		return
	}
	switch m.kind {
	case typeFix:
		s.fixes += sign
	case typeRereview:
		s.rereview += sign
	}
	s.handoffs += sign
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

// add counts a closed message; with sign -1, it removes the message from the counts.
func (c *counts) add(m *summary, sign int) {
	c.sums.add(m, &c.workflow, sign)
	addTo(c.ids, m.id, sign)
	for _, id := range m.replies {
		addTo(c.answered, id, sign)
	}
}

func addTo(counts map[string]int, key string, n int) {
	if counts[key] += n; counts[key] <= 0 {
		delete(counts, key)
	}
}

// setWorkflow counts the closed messages again when the current workflow has changed.
func (c *counts) setWorkflow(flow workflow, all map[string]*closed) {
	if c.workflow == flow {
		return
	}
	c.workflow, c.sums = flow, sums{}
	for _, m := range all {
		if m.message != nil {
			c.sums.add(m.message, &flow, +1)
		}
	}
}

// measures returns the figures of protocol 001, Metrics Collected. Durations run from acceptance to completion.
func (b *boxes) measures(s *state) []protocol.Measure {
	all, flow := b.counts.sums, b.counts.workflow
	all.spans = maps.Clone(all.spans)
	for _, h := range b.listed {
		if h.counts() {
			all.add(b.tracker.summary(h), &flow, +1)
		}
	}
	var list []protocol.Measure
	for _, agent := range sortedKeys(all.spans) {
		list = append(list, protocol.Measure{Name: "time_per_agent_seconds", Agent: agent, Value: all.spans[agent].Truncate(time.Second).Seconds()})
	}
	if flow != (workflow{}) {
		fixes := max(all.fixes, all.rereview)
		if s.hasIteration && s.iteration > 1 && s.iteration < 1e6 {
			fixes = max(fixes, int(s.iteration-1))
		}
		list = append(list, protocol.Measure{Name: "handoffs_per_workflow", Value: float64(all.handoffs)},
			protocol.Measure{Name: "fix_iterations", Value: float64(fixes)})
	}
	if all.messages > 0 {
		list = append(list, protocol.Measure{Name: "escalation_rate", Value: float64(all.escalations) / float64(all.messages)})
	}
	return list
}
