package envelope

import (
	"path"
	"slices"
	"strings"
)

// wait is a task in blocked_by that is not approved yet.
type wait struct {
	id  string
	why string // why its completion does not count; "" if there is no more to say
}

// waits returns the tasks in blocked_by that are not approved yet. The notices describe conditional approvals: such
// an approval ends the wait, except for a deployment to production (protocol 004, Approval Status).
func (p *Project) waits(t *taskState) (list []wait, notices []string) {
	if t.assigned == nil || t.over() {
		return nil, nil
	}
	for _, id := range t.assigned.assignment.blockedBy {
		o := p.tasks[id]
		if slices.ContainsFunc(list, func(w wait) bool { return w.id == id }) {
			continue
		}
		r := o.judged()
		switch {
		case o == nil:
			list = append(list, wait{id: id})
		case r != nil && r.denies():
			list = append(list, wait{id, r.refusal()})
		case r != nil && r.conditional() && t.toProduction():
			list = append(list, wait{id, r.condition() + ", fix before production"})
		case r != nil && r.conditional():
			notices = append(notices, r.notice())
		case r == nil && o.state == stateReview:
			list = append(list, wait{id, "not done: " + o.done.output.lacks})
		case r == nil && o.state != stateApproved:
			list = append(list, wait{id: id})
		}
	}
	return list, notices
}

// judged returns the security review that decides the task: the review in its last completion, unless an approval
// message or a new assignment followed; nil if there is none.
func (t *taskState) judged() *review {
	if t == nil || t.validated || t.done == nil || len(t.reviews) == 0 || t.state != stateReview && t.state != stateApproved {
		return nil
	}
	if r := &t.reviews[len(t.reviews)-1]; r.at.Equal(t.done.at) {
		return r
	}
	return nil
}

// toProduction reports whether an open deployment of the task names production.
func (t *taskState) toProduction() bool {
	return slices.ContainsFunc(t.deployments(), func(m *message) bool { return m.assignment.production })
}

// waitsFor returns the ids of the tasks that t waits for.
func (p *Project) waitsFor(t *taskState) []string {
	list, _ := p.waits(t)
	ids := make([]string, len(list))
	for i, w := range list {
		ids[i] = w.id
	}
	return ids
}

// findCycles finds the tasks that wait for themselves (Tarjan's strongly connected components). Their wait would
// never end, so it does not hold them.
func (p *Project) findCycles() {
	p.cycles = map[string]string{}
	w := walk{p: p, index: map[string]int{}, low: map[string]int{}, on: map[string]bool{}}
	for _, id := range sortedKeys(p.live) {
		if len(p.waitsFor(p.live[id])) > 0 && w.index[id] == 0 {
			w.visit(id)
		}
	}
}

// walk is one search through the graph of waiting tasks.
type walk struct {
	p          *Project
	index, low map[string]int
	on         map[string]bool
	stack      []string
}

func (w *walk) visit(id string) {
	n := len(w.index) + 1
	w.index[id], w.low[id], w.on[id] = n, n, true
	w.stack = append(w.stack, id)
	self := false
	if t := w.p.live[id]; t != nil {
		for _, next := range w.p.waitsFor(t) {
			self = self || next == id
			switch {
			case w.p.live[next] == nil:
			case w.index[next] == 0:
				w.visit(next)
				w.low[id] = min(w.low[id], w.low[next])
			case w.on[next]:
				w.low[id] = min(w.low[id], w.index[next])
			}
		}
	}
	if w.low[id] != w.index[id] {
		return
	}
	at := slices.Index(w.stack, id)
	members := slices.Sorted(slices.Values(w.stack[at:]))
	w.stack = w.stack[:at]
	way := clean(strings.Join(members[:min(len(members), maxItems)], ", "), maxText)
	for _, m := range members {
		delete(w.on, m)
		if len(members) > 1 || self {
			w.p.cycles[m] = way
		}
	}
}

// block returns why the task must wait regardless of the load; "" if nothing blocks it. A task in hand is never
// blocked.
func (p *Project) block(t *taskState) string {
	if t.state != stateAssigned {
		return ""
	}
	var why []string
	if lacks := p.incomplete(t); lacks != "" {
		why = append(why, "incomplete: "+lacks)
	}
	if r := p.gateAll(t.deployments(), p.Now); r.block != "" {
		why = append(why, r.block)
	}
	if list, _ := p.waits(t); len(list) > 0 && p.cycles[t.id] == "" {
		why = append(why, waitText(list))
	}
	return strings.Join(why, "; ")
}

// incomplete returns the required fields that the task's newest assignment lacks. If the name of a held assignment is
// in use by another message, that message replaces the assignment, so nothing is missing.
func (p *Project) incomplete(t *taskState) string {
	m := t.assigned
	if m == nil || t.state != stateAssigned {
		return ""
	}
	if s := p.shelf.slots[path.Base(openName(m.file))]; m.held && s != nil && s.message != nil {
		return ""
	}
	return clean(m.assignment.lacks, maxText)
}

// waitText names the tasks that a task waits for, and why completed ones do not count.
func waitText(list []wait) string {
	words := make([]string, len(list))
	for i, w := range list {
		if words[i] = w.id; w.why != "" {
			words[i] += " (" + w.why + ")"
		}
	}
	return "waits for " + clean(strings.Join(words, ", "), maxText)
}
