package handoffs

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// How long a contradiction must persist before it is reported: agents write one file after another.
const (
	standsFor   = 30 * time.Second
	doubleFor   = 5 * time.Second
	waitsFor    = 10 * time.Minute // for an agent to take a handoff, or to continue it
	stateKey    = "state.json"
	orchestrate = "orchestrator"
)

// standing reports whether a condition that holds now has held for long. At the first scan, the files prove that it has
// held since the given time; a later condition starts when it is first seen. standing requests a scan for the moment at
// which its result changes.
func (p *Project) standing(held map[string]time.Time, key string, since time.Time, long time.Duration) bool {
	if old, ok := p.stands[key]; ok {
		since = old
	} else if !p.began.IsZero() || since.After(p.Now) {
		since = p.Now
	}
	held[key] = since
	due := since.Add(long)
	if p.Now.Before(due) {
		p.Patience.RetryAt(due)
		return false
	}
	return true
}

// findings lists the problems of files that can be used.
func (p *Project) findings(s *state, ours bool, ids []string, main map[string]*note, doubles map[string][]*note) []protocol.Finding {
	held := map[string]time.Time{}
	var list []protocol.Finding
	project := protocol.Subject{Kind: protocol.KindProject, ID: stateKey}
	if ours {
		for _, i := range append(s.issues, p.contradictions(s, held)...) {
			list = append(list, i.about(project))
		}
	}
	for _, id := range ids {
		subject := protocol.Subject{Kind: protocol.KindTask, ID: id}
		for _, i := range p.issuesOf(main[id], s, ours, held) {
			list = append(list, i.about(subject))
		}
		if i, ok := p.double(id, main[id], doubles[id], held); ok {
			list = append(list, i.about(subject))
		}
	}
	if p.log.bad > 0 {
		list = append(list, issue{codeLog, "", fmt.Sprintf("%d lines are not JSON objects", p.log.bad), protocol.Low}.
			about(protocol.Subject{Kind: protocol.KindProject, ID: logFile}))
	}
	p.stands = held
	return list
}

// contradictions reports a workflow state that disagrees with itself or with the folders (protocol 001, Workflow
// Conflicts). The operator decides; steward never writes these keys.
func (p *Project) contradictions(s *state, held map[string]time.Time) (list []issue) {
	since := p.state.Stamp.ModTime()
	say := func(field, key, format string, args ...any) {
		if p.standing(held, codeWorkflow+field+key, since, standsFor) {
			list = append(list, issue{codeWorkflow, field, fmt.Sprintf(format, args...), protocol.High})
		}
	}
	var active []string
	for i := range s.agents {
		if m := &s.agents[i]; m.working() && !strings.EqualFold(m.name, orchestrate) {
			active = append(active, m.name)
		}
	}
	if len(active) > 1 && s.agent != "" {
		who := folder.Line(strings.Join(active, ", "), 200)
		say("agents", who, "%s are active at once; current_agent is %s", who, s.agent)
	}
	if m, ok := s.member(s.agent); ok && !m.working() && !m.failed() {
		say("current_agent", s.agent, "current_agent is %s, whose status is %s", s.agent, cmp.Or(m.status, "missing"))
	}
	if s.last != "" && !p.exists(s.last) {
		say("last_handoff", s.last, "last_handoff is %s, which lies in no folder", s.last)
	}
	if s.hasIteration && s.iteration < 0 {
		list = append(list, issue{codeWorkflow, "iteration", fmt.Sprintf("iteration is %d", s.iteration), protocol.High})
	}
	return list
}

// exists reports whether there is a handoff with that id, or with that id in its file name.
func (p *Project) exists(id string) bool {
	if p.tally.ids[id] > 0 {
		return true
	}
	for _, n := range p.notes {
		if n.counts() && n.Value.id == id {
			return true
		}
	}
	id = strings.TrimSuffix(id, ".json")
	if !usable(id) {
		return false
	}
	for _, at := range places {
		for _, name := range []string{id, "handoff-" + id, strings.TrimPrefix(id, "handoff-")} {
			if _, err := p.Root.Stat(at.dir() + "/" + name + ".json"); err == nil && name != "" {
				return true
			}
		}
	}
	return false
}

// issuesOf lists the problems of one message.
func (p *Project) issuesOf(n *note, s *state, ours bool, held map[string]time.Time) []issue {
	m, at := &n.Value, n.where()
	list := m.issues[:len(m.issues):len(m.issues)]
	if why := m.strays(); why != "" {
		list = append(list, issue{codeRoute, "to", folder.Line(why, 300), protocol.Medium})
	}
	switch {
	case m.status == statusRejected:
		list = append(list, issue{codeRejected, "status", "it was rejected, for which the protocol has no folder: somebody must decide what becomes of it", protocol.Medium})
	case m.status == statusFailed, m.kind == typeEscalation && at == completed: // an outcome; an escalation moved by its answer
	case n.at != flat && m.status != "" && m.status != at.String() && len(p.ledger.Of(m.id)) == 0:
		list = append(list, issue{codeStatus, "status", fmt.Sprintf("it says %s, but lies in %s/", m.status, at), protocol.Low})
	}
	if !m.isWork() || m.stopped() || at == completed || !ours && at == accepted {
		return list
	}
	why := idleness(s, m.to)
	if why != "" && p.standing(held, codeUnclaimed+n.file, n.appeared, waitsFor) {
		switch m, known := s.member(m.to); {
		case at == pending && known && m.rests(): // the agent's normal state until it is activated
			list = append(list, issue{codeUnclaimed, "to", "it waits until somebody activates its agent: " + why, protocol.Low})
		case at == pending:
			list = append(list, issue{codeUnclaimed, "to", "nobody is there to take it: " + why, protocol.Medium})
		default:
			list = append(list, issue{codeAbandoned, "to", "it was accepted, but nobody works on it: " + why, protocol.Medium})
		}
	}
	return list
}

// idleness returns why an agent will not act by itself; "" if it may.
func idleness(s *state, name string) string {
	m, known := s.member(name)
	switch {
	case name == "":
		return "it names no agent"
	case !known:
		return "no agent " + name + " is known"
	case !m.working():
		return name + " is " + cmp.Or(m.status, "without a status")
	}
	return ""
}

// double finds several files with one id. Such files must persist for a moment, because a client that copies and then
// deletes briefly leaves two.
func (p *Project) double(id string, n *note, all []*note, held map[string]time.Time) (issue, bool) {
	var files []string
	since := n.appeared
	for _, d := range all {
		files = append(files, d.file)
		if d.appeared.After(since) {
			since = d.appeared
		}
	}
	switch {
	case len(all) > 1:
	case p.tally.ids[id] > 0:
		files = []string{n.file, "one that ended long ago"}
	default:
		return issue{}, false
	}
	if !p.standing(held, codeDuplicate+id, since, doubleFor) {
		return issue{}, false
	}
	return issue{codeDuplicate, "message_id", folder.Line("several files have this id: "+strings.Join(files, ", "), 400), protocol.High}, true
}
