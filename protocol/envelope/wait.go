package envelope

import (
	"slices"
	"strings"
)

// waitsFor lists the ids in blocked_by that are not approved yet.
func (p *Project) waitsFor(t *life) []string {
	if t.assigned == nil || t.over() {
		return nil
	}
	var list []string
	for _, id := range t.assigned.assignment.blockedBy {
		if o := p.tasks[id]; (o == nil || o.state != stateApproved) && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// findCycles finds the tasks that wait for themselves (Tarjan's strongly connected components): nobody would ever
// let them in, so nobody holds them.
func (p *Project) findCycles() {
	p.cycles = map[string]string{}
	w := walk{p: p, index: map[string]int{}, low: map[string]int{}, on: map[string]bool{}}
	for _, id := range sortedKeys(p.live) {
		if len(p.waitsFor(p.live[id])) > 0 && w.index[id] == 0 {
			w.visit(id)
		}
	}
}

// walk is one search through what waits for what.
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

// block says why the task must wait whatever the load; "" when nothing blocks it. What is in hand waits no more.
func (p *Project) block(t *life) string {
	if t.state != stateAssigned {
		return ""
	}
	var why []string
	if r := p.gateAll(t.deployments(), p.Now); r.block != "" {
		why = append(why, r.block)
	}
	if wait := p.waitsFor(t); len(wait) > 0 && p.cycles[t.id] == "" {
		why = append(why, "waits for "+clean(strings.Join(wait, ", "), maxText))
	}
	return strings.Join(why, "; ")
}
