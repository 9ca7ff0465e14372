package handoffs

import (
	"cmp"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// How long a contradiction must persist before it is reported: agents write one file after another.
const (
	contradictsFor = 30 * time.Second
	duplicateFor   = 5 * time.Second
	waitsFor       = 10 * time.Minute // for an agent to take a handoff, or to continue it
	orchestrator   = "orchestrator"
)

// conditions are the start times of the conditions that hold in one scan.
type conditions struct {
	*source
	before, held map[string]time.Time
}

// persists reports whether a condition that holds now has held for long. At the first scan, the files prove that it has
// held since the given time; a later condition starts when it is first seen. persists requests a scan for the moment at
// which its result changes.
func (c *conditions) persists(key string, since time.Time, long time.Duration) bool {
	if old, ok := c.before[key]; ok {
		since = old
	} else if !c.began.IsZero() || since.After(c.Now) {
		since = c.Now
	}
	c.held[key] = since
	due := since.Add(long)
	if c.Now.Before(due) {
		c.Patience.RetryAt(due)
		return false
	}
	return true
}

// findings lists the problems of files that can be used.
func (p *Project) findings(v *view) (list []protocol.Finding) {
	add := func(kind protocol.Kind, id string, found []protocol.Finding) {
		for _, f := range found {
			f.Subject = protocol.Subject{Kind: kind, ID: id}
			list = append(list, f)
		}
	}
	c := &conditions{p.source, p.conditions, map[string]time.Time{}}
	if v.state.ours {
		add(protocol.KindProject, stateFile, append(v.state.findings, p.contradictions(v.state, c)...))
	}
	for _, h := range v.handoffs {
		id := h.Value.id
		add(protocol.KindTask, id, h.Value.findings)
		add(protocol.KindTask, id, h.placeFindings(len(p.attempts.Of(id)) > 0))
		add(protocol.KindTask, id, v.idleFindings(h, c))
		add(protocol.KindTask, id, v.duplicates(h, c))
	}
	if p.log.bad > 0 {
		add(protocol.KindProject, logFile, []protocol.Finding{finding(codeLog, protocol.Low, "", "%d lines are not JSON objects", p.log.bad)})
	}
	p.conditions = c.held
	return list
}

// contradictions reports a workflow state that disagrees with itself or with the folders (protocol 001, Workflow
// Conflicts). The orchestrator decides, or the operator.
func (p *Project) contradictions(s *state, c *conditions) (list []protocol.Finding) {
	since := p.state.Stamp.ModTime()
	say := func(field, key, format string, args ...any) {
		if c.persists(codeWorkflow+field+key, since, contradictsFor) {
			list = append(list, finding(codeWorkflow, protocol.High, field, format, args...))
		}
	}
	var active []string
	for i := range s.agents {
		if a := &s.agents[i]; a.working() && !strings.EqualFold(a.name, orchestrator) {
			active = append(active, a.name)
		}
	}
	if len(active) > 1 && s.currentAgent != "" {
		names := folder.Line(strings.Join(active, ", "), 200)
		say("agents", names, "%s are active at once; current_agent is %s", names, s.currentAgent)
	}
	if a := s.agent(s.currentAgent); s.idleCurrent() {
		say("current_agent", a.name, "current_agent is %s, whose status is %s", a.name, cmp.Or(a.status, "missing"))
	}
	if s.lastHandoff != "" && !p.boxes.exists(s.lastHandoff) {
		say("last_handoff", s.lastHandoff, "last_handoff is %s, which lies in no folder", s.lastHandoff)
	}
	if s.hasIteration && s.iteration < 0 {
		list = append(list, finding(codeWorkflow, protocol.High, "iteration", "iteration is %d", s.iteration))
	}
	return list
}

// idleCurrent reports whether current_agent names an agent that does not work.
func (s *state) idleCurrent() bool {
	a := s.agent(s.currentAgent)
	return a != nil && !a.working() && !a.failed()
}

// placeFindings lists what contradicts the place and the route of a message.
func (h *handoff) placeFindings(requeued bool) (list []protocol.Finding) {
	m, at := &h.Value, h.where()
	if why := m.wrongRoute(); why != "" {
		list = append(list, finding(codeRoute, protocol.Medium, "to", "%s", folder.Line(why, 300)))
	}
	switch {
	case m.status == statusRejected:
		list = append(list, finding(codeRejected, protocol.Medium, "status",
			"it was rejected, for which the protocol has no folder: the operator must decide what becomes of it"))
	case m.status == statusFailed, m.kind == typeEscalation && at == completed: // an outcome; an escalation moved by its answer
	case m.status == statusCancelled && at == completed:
	case h.box != flat && m.status != "" && m.status != at.String() && !requeued:
		list = append(list, finding(codeStatus, protocol.Low, "status", "it says %s, but lies in %s/", m.status, at))
	}
	return list
}

// idleFindings reports a handoff that waits too long for its agent.
func (v *view) idleFindings(h *handoff, c *conditions) []protocol.Finding {
	m, at := &h.Value, h.where()
	begun := strings.EqualFold(m.to, orchestrator) && at == accepted // its workflow goes on
	if !m.isWork() || m.stopped() || begun || at == completed || !v.state.ours && at == accepted || at == pending && v.waits(h) != "" {
		return nil
	}
	a := v.state.agent(m.to)
	var why string // the agent will not act by itself
	switch {
	case m.to == "":
		why = "it names no agent"
	case a == nil:
		why = "no agent " + m.to + " is known"
	case !a.working():
		why = m.to + " is " + cmp.Or(a.status, "without a status")
	}
	if why == "" || !c.persists(codeUnclaimed+h.file, h.appeared, waitsFor) {
		return nil
	}
	code, severity, text := codeAbandoned, protocol.Medium, "it was accepted, but its agent does not work on it: "
	switch {
	case at == pending && a != nil && a.idle(): // the agent's normal state until it is activated
		code, severity, text = codeUnclaimed, protocol.Low, "it waits until its agent is activated: "
	case at == pending:
		code, text = codeUnclaimed, "no agent can take it: "
	}
	return []protocol.Finding{finding(code, severity, "to", "%s%s", text, why)}
}

// duplicates finds several files with one id. Such files must persist for a moment, because a client that copies and then
// deletes briefly leaves two.
func (v *view) duplicates(h *handoff, c *conditions) []protocol.Finding {
	id := h.Value.id
	var files []string
	since := h.appeared
	for _, d := range v.copies[id] {
		files = append(files, d.file)
		if d.appeared.After(since) {
			since = d.appeared
		}
	}
	if len(files) == 0 && v.closed[id] {
		files = []string{h.file, "one that ended long ago"}
	}
	if len(files) == 0 || !c.persists(codeDuplicate+id, since, duplicateFor) {
		return nil
	}
	text := folder.Line("several files have this id: "+strings.Join(files, ", "), 400)
	return []protocol.Finding{finding(codeDuplicate, protocol.High, "message_id", "%s", text)}
}
