package envelope

import (
	"slices"
	"strings"
)

// wait is a task in blocked_by that is not approved yet.
type wait struct {
	id  string
	why string // why its completion does not count; "" if there is no more to say
}

func (w wait) String() string {
	if w.why == "" {
		return w.id
	}
	return w.id + " (" + w.why + ")"
}

// waitsOf returns the tasks in blocked_by that are not approved yet. The notices describe conditional approvals: such
// an approval ends the wait, except for a deployment to production (protocol 004, Approval Status).
func waitsOf(b *board, t *task) (list []wait, notices []string) {
	if t.assigned == nil || t.over() {
		return nil, nil
	}
	production := slices.ContainsFunc(t.deployments(), func(m *message) bool { return m.assignment.production })
	for _, id := range t.assigned.assignment.blockedBy {
		if slices.ContainsFunc(list, func(w wait) bool { return w.id == id }) {
			continue
		}
		o := b.tasks[id]
		r := o.judged()
		switch {
		case o == nil:
			list = append(list, wait{id: id})
		case r != nil && r.denies():
			list = append(list, wait{id, r.refusal()})
		case r != nil && r.conditional() && production:
			list = append(list, wait{id, r.condition() + ", fix before production"})
		case r != nil && r.conditional():
			notices = append(notices, r.notice())
		case r == nil && o.stage == stageReview:
			list = append(list, wait{id, "not done: " + o.done.output.lacks})
		case r == nil && o.stage != stageApproved:
			list = append(list, wait{id: id})
		}
	}
	return list, notices
}

// waitText names the tasks that a task waits for, and why completed ones do not count.
func waitText(list ...wait) string {
	words := make([]string, len(list))
	for i, w := range list {
		words[i] = w.String()
	}
	return "waits for " + clean(strings.Join(words, ", "), maxText)
}

// cycleSearch is one search through the graph of waiting tasks (Tarjan's strongly connected components).
type cycleSearch struct {
	board      *board
	index, low map[string]int
	on         map[string]bool
	stack      []string
	cycles     map[string]string
}

// findCycles returns the tasks that wait for themselves, with the members of their cycle. Their wait would never end, so
// it does not hold them.
func findCycles(b *board) map[string]string {
	s := cycleSearch{board: b, index: map[string]int{}, low: map[string]int{}, on: map[string]bool{}, cycles: map[string]string{}}
	for _, id := range sortedKeys(b.live) {
		if list, _ := waitsOf(b, b.live[id]); len(list) > 0 && s.index[id] == 0 {
			s.visit(id)
		}
	}
	return s.cycles
}

func (s *cycleSearch) visit(id string) {
	n := len(s.index) + 1
	s.index[id], s.low[id], s.on[id] = n, n, true
	s.stack = append(s.stack, id)
	self := false
	waits, _ := waitsOf(s.board, s.board.live[id])
	for _, w := range waits {
		self = self || w.id == id
		switch {
		case s.board.live[w.id] == nil:
		case s.index[w.id] == 0:
			s.visit(w.id)
			s.low[id] = min(s.low[id], s.low[w.id])
		case s.on[w.id]:
			s.low[id] = min(s.low[id], s.index[w.id])
		}
	}
	if s.low[id] != s.index[id] {
		return
	}
	at := slices.Index(s.stack, id)
	members := slices.Sorted(slices.Values(s.stack[at:]))
	s.stack = s.stack[:at]
	way := clean(strings.Join(members[:min(len(members), maxItems)], ", "), maxText)
	for _, m := range members {
		delete(s.on, m)
		if len(members) > 1 || self {
			s.cycles[m] = way
		}
	}
}
