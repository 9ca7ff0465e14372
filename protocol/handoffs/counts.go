package handoffs

import (
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// closed is a message that is no longer listed. It costs only this entry until its file changes.
type closed struct {
	at          box
	mtime, size int64
	fact        *event // nil: skipped unread
}

// event is what the figures need from a message.
type event struct {
	id, to, kind               string
	workflow, workflowID, spec string
	created                    jsonfile.Stated
	span                       time.Duration // from accepted to completed; 0 if unknown
	replies                    []string
}

// counts are totals over the closed messages, so that no scan has to visit them.
type counts struct {
	flow     workflow // which workflow the counts are about
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

// add counts a message; with sign -1, it removes the message from the counts.
func (s *sums) add(f *event, flow *workflow, sign int) {
	s.messages += sign
	if f.kind == typeEscalation {
		s.escalations += sign
	}
	if f.span > 0 {
		if s.spans == nil {
			s.spans = map[string]time.Duration{}
		}
		if s.spans[f.to] += time.Duration(sign) * f.span; s.spans[f.to] <= 0 {
			delete(s.spans, f.to)
		}
	}
	if !flow.has(f) {
		return
	}
	switch f.kind {
	case typeCompletion, typeEscalation, typeAnswer:
		return
	case typeFix:
		s.fixes += sign
	case typeRereview:
		s.rereview += sign
	}
	s.handoffs += sign
}

// has reports whether a message belongs to the workflow: by the workflow's id if the message names one, else by kind and
// spec, unless the message is older than the workflow.
func (w *workflow) has(f *event) bool {
	switch {
	case *w == workflow{}:
		return false
	case f.workflowID != "":
		return f.workflowID == w.id
	case f.workflow != "" && f.workflow == w.id:
		return true
	case f.workflow != "" && w.kind != "" && f.workflow != w.kind, f.spec != "" && w.spec != "" && f.spec != w.spec:
		return false
	}
	started := w.started
	started.At = started.At.Truncate(time.Second)
	return started.At.IsZero() || f.created.At.IsZero() || f.created.CanFollow(started)
}

// factOf returns what the figures need from a listed message.
func (p *Project) factOf(n *note) *event {
	m := &n.Value
	f := &event{id: m.id, to: m.to, kind: m.kind, workflow: m.workflow, workflowID: m.workflowID, spec: m.spec, created: m.created, replies: m.replies}
	if m.isWork() && n.where() == completed {
		if from := p.acceptedAt(n); !from.IsZero() && n.ended().After(from) {
			f.span = n.ended().Sub(from)
		}
	}
	return f
}

// close removes a message from the list and adds it to the counts.
func (p *Project) close(n *note) {
	c := &closed{at: n.at, mtime: n.Stamp.MtimeNs, size: n.Stamp.Size}
	if n.Good {
		c.fact = p.factOf(n)
		p.count(c.fact, +1)
		p.sends(&n.Value)
		p.story.forget(n.Value.id, n.file)
	}
	p.closed[n.file] = c
	p.Patience.Clear(n.file)
	delete(p.notes, n.file)
}

// sends records an agent's newest message, which is a sign of its life. What other agents do with the message, and its
// removal from the list, are no signs of life.
func (p *Project) sends(m *message) {
	if newest := m.created.At.Format("20060102150405.000") + " " + m.id; m.from != "" && newest > p.sent[m.from] && len(p.sent) < 2*maxEntries {
		p.sent[m.from] = newest
	}
}

// takes records when an agent last took a handoff: the newest time at which a file arrived among the accepted ones, or
// changed there. The time only advances, so a handoff that leaves, or that steward requeues, is no sign of life.
func (p *Project) takes(n *note) {
	if n.where() != accepted {
		return
	}
	at := came(n.Stamp)
	if n.Stamp.CtimeNs == 0 && !n.early {
		at = n.noticed // without a change time, a rename leaves no trace in the file
	}
	advance(p.took, n.Value.to, at)
}

// tookAt returns when the agent last took a handoff, by the files, the log, or steward's record of requeued handoffs.
// After a restart, the files alone may no longer show it.
func (p *Project) tookAt(agent string) time.Time {
	at := p.took[agent]
	for _, other := range []time.Time{p.log.took[agent], p.tombs.took[agent]} {
		if other.After(at) {
			at = other
		}
	}
	return at.Truncate(time.Second)
}

// advance moves an agent's time forward, never back.
func advance(times map[string]time.Time, agent string, at time.Time) {
	if old, known := times[agent]; agent != "" && at.After(old) && (known || len(times) < 2*maxEntries) {
		times[agent] = at
	}
}

// drop forgets a closed message.
func (p *Project) drop(file string) {
	if c := p.closed[file]; c.fact != nil {
		p.count(c.fact, -1)
	}
	delete(p.closed, file)
}

func (p *Project) count(f *event, sign int) {
	t := &p.tally
	if t.ids == nil {
		t.ids, t.answered = map[string]int{}, map[string]int{}
	}
	t.sums.add(f, &t.flow, sign)
	if t.ids[f.id] += sign; t.ids[f.id] <= 0 {
		delete(t.ids, f.id)
	}
	for _, id := range f.replies {
		if t.answered[id] += sign; t.answered[id] <= 0 {
			delete(t.answered, id)
		}
	}
}

// turnTo recounts when the current workflow has changed.
func (p *Project) turnTo(flow workflow) {
	if p.tally.flow == flow {
		return
	}
	p.tally.flow, p.tally.sums = flow, sums{}
	for _, c := range p.closed {
		if c.fact != nil {
			p.tally.sums.add(c.fact, &flow, +1)
		}
	}
}

// measures returns the figures of protocol 001, Metrics Collected. Durations run from acceptance to completion.
func (p *Project) measures(s *state) []protocol.Measure {
	all := p.tally.sums
	all.spans = map[string]time.Duration{}
	for agent, span := range p.tally.sums.spans {
		all.spans[agent] = span
	}
	for _, n := range p.notes {
		if n.counts() {
			all.add(p.factOf(n), &p.tally.flow, +1)
		}
	}
	var list []protocol.Measure
	for _, agent := range sortedKeys(all.spans) {
		list = append(list, protocol.Measure{Name: "time_per_agent_seconds", Agent: agent, Value: all.spans[agent].Truncate(time.Second).Seconds()})
	}
	if p.tally.flow != (workflow{}) {
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
