package handoffs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Observe returns the current snapshot. With hints, it rereads only the hinted messages and the few shared files.
func (p *Project) Observe(ctx context.Context, order protocol.ScanOrder) protocol.Snapshot {
	s, there := p.Scan(ctx, order)
	if !there {
		return s
	}
	p.state.read()
	p.log.read()
	p.releases.read()
	p.attempts.Refresh(p.Root, &p.Patience, p.Now)
	p.claims.read()
	p.boxes.read(hinted(order.Hints))
	p.describe(&s)
	s.Locate(Base)
	if p.began.IsZero() {
		p.began = p.Now
	}
	p.boxes.retire()
	s.Again = p.Patience.Again()
	return s
}

// hinted returns the names of the messages that the hints name.
func hinted(hints []string) map[string]bool {
	names := map[string]bool{}
	for _, hint := range hints {
		rel, _ := strings.CutPrefix(hint, Base+"/")
		if _, name, ok := placeOf(rel); ok {
			names[name] = true
		}
	}
	return names
}

// describe fills in the snapshot.
func (p *Project) describe(s *protocol.Snapshot) {
	v := p.view()
	for _, h := range v.handoffs {
		p.tracker.follow(h)
		p.signs.addSent(&h.Value)
		p.signs.addTaken(h)
	}
	if v.state.ours {
		p.tracker.followAgents(v.state)
	}
	s.Agents = v.agents(p.signsOf)
	s.Tasks = v.tasks(p.Since, p.attempts.Of)
	s.Questions = v.questions()
	locks, wrong := p.grants.locks(v.state)
	s.Locks = locks
	s.Findings = append(p.findings(v), wrong...)
	s.Faults = append(s.Faults, p.faults(v.state.ours)...)
	s.Events = p.tracker.events()
	if v.due() != nil || slices.ContainsFunc(s.Findings, arbitrable) {
		s.Due = []string{orchestrator}
	}
	s.Measures = measures(v.state, p.boxes.summaries())
}

// arbitrable reports whether the orchestrator settles a finding by itself.
func arbitrable(f protocol.Finding) bool {
	return f.Code == codeWorkflow && slices.Contains([]string{"current_agent", "last_handoff", "iteration"}, f.Field)
}

// faults lists the files that cannot be used. It omits a state file that never belonged to this protocol, which is its
// owner's concern.
func (p *Project) faults(ours bool) []protocol.Fault {
	return slices.DeleteFunc(p.Faults(), func(f protocol.Fault) bool {
		if f.Path != p.Shown(stateFile) || ours || p.state.mentionsOurs {
			return false
		}
		st, err := p.Root.Stat(boxDir)
		return err != nil || !st.Mode.IsDir()
	})
}

// signsOf fingerprints an agent's signs of life: its locks, including those that steward released, the newest message
// that it sent, and when it last took a handoff by the files, the log, or steward's record of requeued handoffs. After a
// restart, the files alone may no longer show it.
func (p *Project) signsOf(s *state, agent string) string {
	list := slices.Clone(p.releases.holders[agent])
	for i := range s.locks {
		if l := &s.locks[i]; l.agent == agent {
			list = append(list, l.sign)
		}
	}
	slices.Sort(list)
	list = append(slices.Compact(list), p.signs.sent[agent])
	took := slices.MaxFunc([]time.Time{p.signs.took[agent], p.log.took[agent], p.releases.took[agent]}, time.Time.Compare)
	if at := took.Truncate(time.Second); !at.IsZero() {
		list = append(list, "took "+jsonfile.FormatTime(at))
	}
	return string(jsonfile.SumOf([]byte(strings.Join(list, "\n"))))
}

// summary is what remains of a message that is no longer listed, and what the measures need of each message.
type summary struct {
	id, to, kind string
	work         workRef
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
		if isWork(m.kind) && !strings.EqualFold(m.to, orchestrator) && s.workflow.has(m) { // without the user's request
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
