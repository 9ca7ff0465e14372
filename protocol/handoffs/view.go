package handoffs

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// view is what one scan sees: the state file, and the messages by id.
type view struct {
	now      time.Time
	state    *state
	handoffs []*handoff            // for each id the message that counts, the one with the most progress; sorted by id
	copies   map[string][]*handoff // the messages of each id that has several
	closed   map[string]bool       // the ids of the closed messages
	answered map[string]bool       // the ids that answers name
	claims   map[string]claimRecord
}

func (p *Project) view() *view {
	v := &view{now: p.Now, state: p.state.current(), copies: map[string][]*handoff{}, closed: map[string]bool{}, answered: map[string]bool{},
		claims: p.claims.records}
	for _, c := range p.boxes.closed {
		if m := c.message; m != nil {
			v.closed[m.id] = true
			v.answer(m.replies)
		}
	}
	all := map[string][]*handoff{}
	for _, h := range p.boxes.listed {
		if id := h.Value.id; h.counts() && usable(id) {
			all[id] = append(all[id], h)
		}
	}
	for _, id := range sortedKeys(all) {
		list := all[id]
		if len(list) > 1 {
			slices.SortFunc(list, func(a, b *handoff) int {
				return cmp.Or(cmp.Compare(b.where(), a.where()), strings.Compare(a.file, b.file))
			})
			v.copies[id] = list
		}
		v.handoffs = append(v.handoffs, list[0])
		v.answer(list[0].Value.replies)
	}
	return v
}

func (v *view) answer(ids []string) {
	for _, id := range ids {
		v.answered[id] = true
	}
}

// find returns the message that counts for an id, or nil.
func (v *view) find(id string) *handoff {
	i, ok := slices.BinarySearchFunc(v.handoffs, id, func(h *handoff, id string) int { return strings.Compare(h.Value.id, id) })
	if !ok {
		return nil
	}
	return v.handoffs[i]
}

// agents lists the agents of the state file. Without that file, it lists the agents that messages name; nothing else is
// known of them.
func (v *view) agents(signs func(*state, string) string) []protocol.Agent {
	accepts := map[string][]string{}
	named := map[string]bool{}
	for _, h := range v.handoffs {
		m, at := &h.Value, h.where()
		if m.isWork() && at == accepted && !m.stopped() && m.to != "" {
			accepts[m.to] = append(accepts[m.to], m.id)
		}
		for _, name := range []string{m.from, m.to} {
			if at != completed && usable(name) && !strings.EqualFold(name, human) {
				named[name] = true
			}
		}
	}
	list := make([]protocol.Agent, 0, len(v.state.agents))
	if !v.state.ours {
		for _, name := range sortedKeys(named) {
			list = append(list, protocol.Agent{Name: name, Idle: true, Tasks: accepts[name]})
		}
	}
	for i := range v.state.agents {
		e := &v.state.agents[i]
		a := protocol.Agent{Name: e.name, Status: e.status, Idle: !e.working(), Tasks: accepts[e.name], Signs: signs(v.state, e.name),
			Beat: protocol.Beat{Mark: string(e.sum), At: capped(e.last.Latest(), v.now), Stated: e.last.At, Zoneless: e.last.Zoneless}}
		if e.failed() {
			a.Failed, a.Complaint = true, cmp.Or(e.complaint, "its status is "+e.status)
		}
		list = append(list, a)
	}
	return list
}

// tasks lists the handoffs that require work, without those that ended before since.
func (v *view) tasks(since time.Time, attempts func(id string) []protocol.Attempt) []protocol.Task {
	list := make([]protocol.Task, 0, len(v.handoffs))
	for _, h := range v.handoffs {
		m := &h.Value
		if !m.isWork() {
			continue
		}
		ref := protocol.Ref{Path: h.file, Sum: string(h.Sum)}
		t := protocol.Task{Request: protocol.Request{
			ID: m.id, Agent: m.to, Source: m.from, Type: m.kind, Title: m.title, Priority: m.priority, Timeout: protocol.NoTimeout,
			Created: capped(m.created.By(h.appeared), v.now), Ref: ref,
		}, Appeared: h.appeared, Handling: protocol.Handling{Foreign: true, Requeue: true}, Record: protocol.Record{Attempts: attempts(m.id)}}
		switch at := h.where(); {
		case m.status == statusFailed:
			// Protocol 001, Retry Protocol, retries a recoverable error and hands a fatal one to the human. An error that names
			// neither kind also goes to the operator.
			failed := capped(h.Stamp.ModTime(), v.now)
			if h.appeared.After(failed) {
				failed = h.appeared
			}
			t.Outcome = &protocol.Outcome{Status: "failed", At: failed, Appeared: failed, Failures: []protocol.Failure{m.failure}}
		case m.status == statusRejected && h.box != completed:
			t.Awaits = awaitsRejected(m)
		case at == accepted:
			t.Named, t.Started = "accepted", h.accepted()
			if k, ok := v.claims[m.id]; ok {
				t.Progress = protocol.Progress{Percent: k.Percent, Step: k.Step, At: k.Stepped}
				if w := k.worker(h); w != nil {
					t.Workers, t.Claim = []protocol.Identity{*w}, k.sum
				}
			}
		case at == completed:
			t.Outcome = &protocol.Outcome{Status: "completed", At: h.ended(), Appeared: h.appeared}
		default:
			t.Visible, t.Awaits = true, v.waits(h)
		}
		if o := t.Outcome; o != nil {
			o.Agent, o.Summary, o.Ref = m.to, m.summary, ref
			if o.At.Before(since) {
				continue
			}
		}
		list = append(list, t)
	}
	return list
}

// questions lists the escalations that are neither answered nor closed (protocol 001, Escalation).
func (v *view) questions() (list []protocol.Question) {
	for _, h := range v.handoffs {
		m := &h.Value
		if m.kind != typeEscalation || h.where() == completed || v.answered[m.id] {
			continue
		}
		if about := v.find(m.about); about != nil && about.Value.status == statusFailed && m.call.reason == reasonFatal {
			continue // the incident about the failure asks the same
		}
		q := protocol.Question{ID: m.id, Agent: m.from, Task: m.about, Text: m.call.text, Detail: m.call.detail, Options: slices.Clone(m.call.options),
			Blocking: m.call.blocking, Severity: protocol.Medium, Ref: protocol.Ref{Path: h.file, Sum: string(h.Sum)}}
		switch {
		case m.call.critical:
			q.Severity = protocol.Critical
		case m.call.blocking:
			q.Severity = protocol.High
		}
		list = append(list, q)
	}
	return list
}

// awaitsRejected says what a rejected handoff waits for.
func awaitsRejected(m *handoffMessage) string {
	text := "a decision of the human: " + cmp.Or(m.to, "its agent") + " rejected it"
	if m.reason != "" {
		text += ": " + m.reason
	}
	return text
}

// waits says what a pending handoff waits for; "" if its agent can take it.
func (v *view) waits(h *handoff) string {
	m := &h.Value
	if w := &v.state.workflow; m.isWork() && strings.EqualFold(m.to, orchestrator) && w.running() {
		return "the end of workflow " + w.id
	}
	for _, q := range v.questions() {
		if q.Task == m.id && q.Blocking {
			return "an answer to escalation " + q.ID
		}
	}
	return ""
}

// answers returns the answers to escalations about a handoff, oldest first.
func (v *view) answers(h *handoff) (list []*handoff) {
	for _, a := range v.handoffs {
		if a.Value.kind == typeAnswer {
			if e := v.escalation(&a.Value); e != nil && e.Value.about == h.Value.id {
				list = append(list, a)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *handoff) int { return a.Value.created.At.Compare(b.Value.created.At) })
	return list
}

// delivered returns the messages that leave pending/ when the agent of a handoff gets the answers to its questions, and the
// answers as text.
func (v *view) delivered(h *handoff) (ids []string, note string) {
	for _, a := range v.answers(h) {
		m, e := &a.Value, v.escalation(&a.Value)
		if a.where() != pending {
			continue
		}
		if ids = append(ids, m.id); e.where() == pending {
			ids = append(ids, e.Value.id)
		}
		note = strings.TrimPrefix(note+"; ", "; ") + "answer to \"" + e.Value.call.text + "\": " + m.call.text
		if m.call.detail != "" {
			note += " (" + m.call.detail + ")"
		}
	}
	return ids, note
}
