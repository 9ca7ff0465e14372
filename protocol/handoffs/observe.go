package handoffs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Observe returns the current snapshot. With hints, it rereads only the hinted messages and the few shared files.
func (p *Project) Observe(ctx context.Context, look protocol.Look) protocol.Snapshot {
	s, there := p.Look(ctx, look)
	if !there {
		return s
	}
	names, wide := p.hinted(look.Hints)
	p.readState()
	p.readLog()
	p.readTombs()
	p.ledger.Refresh(p.Root, &p.Patience, p.Now)
	p.readBoxes(look.Full() || wide || p.began.IsZero(), names)
	p.describe(&s)
	s.Locate(Base)
	if p.began.IsZero() {
		p.began = p.Now
	}
	p.retire()
	s.Again = p.Patience.Again()
	return s
}

// hinted returns the names of the messages that the hints name. A hint that names a whole folder is wide.
func (p *Project) hinted(hints []string) (names map[string]bool, wide bool) {
	names = map[string]bool{}
	for _, hint := range hints {
		rel, ok := strings.CutPrefix(hint, Base+"/")
		if !ok {
			wide = wide || hint == Base
			continue
		}
		if _, name, ok := placeOf(rel); ok {
			names[name] = true
		}
		for _, at := range places {
			wide = wide || rel == at.dir()
		}
	}
	return names, wide
}

// describe fills in the snapshot.
func (p *Project) describe(s *protocol.Snapshot) {
	st, ours := p.theState()
	p.turnTo(st.workflow)
	main, doubles := p.sorted()
	ids := sortedKeys(main)
	for _, id := range ids {
		p.follow(main[id])
		p.sends(&main[id].Value)
		p.takes(main[id])
	}
	if ours {
		p.heed(st)
	}
	hands := p.inHand(ids, main)
	s.Agents = p.agents(st, ours, hands, ids, main)
	s.Tasks = p.tasks(ids, main)
	s.Questions = p.pleas(ids, main)
	locks, wrong := p.locks(st)
	s.Locks = locks
	s.Findings = p.findings(st, ours, ids, main, doubles)
	s.Findings = append(s.Findings, wrong...)
	s.Faults = append(s.Faults, p.faults(ours)...)
	s.Events = p.events()
	s.Measures = p.measures(st)
}

// sorted picks the message that counts for each id: the one with the most progress. doubles lists all messages of each id
// that has several.
func (p *Project) sorted() (main map[string]*note, doubles map[string][]*note) {
	main = make(map[string]*note, len(p.notes))
	all := map[string][]*note{}
	for _, n := range p.notes {
		if !n.counts() || !usable(n.Value.id) {
			continue
		}
		id := n.Value.id
		all[id] = append(all[id], n)
	}
	doubles = map[string][]*note{}
	for id, list := range all {
		if len(list) > 1 {
			slices.SortFunc(list, func(a, b *note) int {
				return cmp.Or(cmp.Compare(b.where(), a.where()), strings.Compare(a.file, b.file))
			})
			doubles[id] = list
		}
		main[id] = list[0]
	}
	return main, doubles
}

// inHand lists the accepted handoffs per agent.
func (p *Project) inHand(ids []string, main map[string]*note) map[string][]string {
	hands := map[string][]string{}
	for _, id := range ids {
		if n := main[id]; n.Value.isWork() && n.where() == accepted && !n.Value.stopped() && n.Value.to != "" {
			hands[n.Value.to] = append(hands[n.Value.to], id)
		}
	}
	return hands
}

// beat returns the entry as a heartbeat. A time without a zone is taken as the latest time that it can mean.
func (m *member) beat(now time.Time) protocol.Beat {
	at := m.last
	if m.zoneless {
		at = at.Add(jsonfile.ZoneSlack)
	}
	return protocol.Beat{Mark: string(m.sum), At: capped(at, now), Stated: m.last, Zoneless: m.zoneless}
}

// agents lists the agents of the state file. Without that file, it lists the agents that messages name; nothing else is
// known of them.
func (p *Project) agents(s *state, ours bool, hands map[string][]string, ids []string, main map[string]*note) []protocol.Agent {
	list := make([]protocol.Agent, 0, len(s.agents))
	for i := range s.agents {
		m := &s.agents[i]
		a := protocol.Agent{Name: m.name, Status: m.status, Idle: !m.working(), Tasks: hands[m.name]}
		a.Beat = m.beat(p.Now)
		a.Signs = p.signs(s, m.name)
		if m.failed() {
			a.Failed, a.Complaint = true, cmp.Or(m.complaint, "its status is "+m.status)
		}
		list = append(list, a)
	}
	if ours {
		return list
	}
	named := map[string]bool{}
	for _, id := range ids {
		if n := main[id]; n.where() != completed {
			for _, name := range []string{n.Value.from, n.Value.to} {
				if usable(name) && !strings.EqualFold(name, human) {
					named[name] = true
				}
			}
		}
	}
	for _, name := range sortedKeys(named) {
		list = append(list, protocol.Agent{Name: name, Idle: true, Tasks: hands[name]})
	}
	return list
}

// signs fingerprints the signs of an agent's life outside its own entry: its locks, the newest message that it sent, and
// when it last took a handoff.
func (p *Project) signs(s *state, agent string) string {
	list := append(p.claims(s, agent), p.sent[agent])
	if at := p.tookAt(agent); !at.IsZero() {
		list = append(list, "took "+jsonfile.FormatTime(at))
	}
	return string(jsonfile.SumOf([]byte(strings.Join(list, "\n"))))
}

// tasks lists the handoffs that require work.
func (p *Project) tasks(ids []string, main map[string]*note) []protocol.Task {
	list := make([]protocol.Task, 0, len(ids))
	for _, id := range ids {
		n := main[id]
		m := &n.Value
		if !m.isWork() {
			continue
		}
		t := protocol.Task{ID: id, Agent: m.to, Source: m.from, Type: m.kind, Title: m.title, Priority: m.priority, Timeout: protocol.NoTimeout,
			Created: capped(m.created.By(n.appeared), p.Now), Appeared: n.appeared, Foreign: true, Requeue: true, Attempts: p.ledger.Of(id),
			Ref: protocol.Ref{Path: n.file, Sum: string(n.Sum)}}
		switch at := n.where(); {
		case m.status == statusFailed:
			t.Outcome = p.failed(n)
		case m.status == statusRejected && n.at != completed:
			t.Visible, t.Awaits = at == pending, "a decision of the human: "+cmp.Or(m.to, "its agent")+" rejected it"
		case at == accepted:
			t.Named, t.Started = "accepted", n.accepted()
		case at == completed:
			t.Outcome = &protocol.Outcome{Status: "completed", At: n.ended(), Appeared: n.appeared, Agent: m.to, Summary: m.summary, Ref: t.Ref}
		default:
			t.Visible = true
		}
		if t.Outcome != nil && t.Outcome.At.Before(p.Since) {
			continue
		}
		list = append(list, t)
	}
	return list
}

// pleas lists the escalations that are neither answered nor closed (protocol 001, Escalation).
func (p *Project) pleas(ids []string, main map[string]*note) []protocol.Question {
	answered := map[string]bool{}
	for _, id := range ids {
		for _, to := range main[id].Value.replies {
			answered[to] = true
		}
	}
	var list []protocol.Question
	for _, id := range ids {
		n := main[id]
		m := &n.Value
		if m.kind != typeEscalation || n.where() == completed || answered[id] || p.tally.answered[id] > 0 {
			continue
		}
		k := protocol.Question{ID: id, Agent: m.from, Task: m.about, Text: m.call.text, Detail: m.call.detail, Options: slices.Clone(m.call.options),
			Blocking: m.call.blocking, Severity: protocol.Medium, Ref: protocol.Ref{Path: n.file, Sum: string(n.Sum)}}
		switch {
		case m.call.critical:
			k.Severity = protocol.Critical
		case m.call.blocking:
			k.Severity = protocol.High
		}
		list = append(list, k)
	}
	return list
}

// faults lists the files that cannot be used. It omits a state file that never belonged to this protocol, which is its
// owner's concern.
func (p *Project) faults(ours bool) []protocol.Fault {
	return slices.DeleteFunc(p.Faults(), func(f protocol.Fault) bool {
		return f.Path == p.Shown(stateFile) && !ours && !p.claimed && !p.hasBox()
	})
}

func (p *Project) hasBox() bool {
	st, err := p.Root.Stat(boxDir)
	return err == nil && st.Mode.IsDir()
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
