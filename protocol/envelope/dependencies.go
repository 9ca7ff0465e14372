package envelope

import (
	"math"
	"slices"
	"strings"
)

// wait is a task in blocked_by that is not approved yet.
type wait struct {
	id  string
	why string // why its completion does not count; "" if there is no more to say
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
			why := "not done: " + o.done.output.lacks
			if o.done.output.lacks == "" {
				why = "not validated by the orchestrator yet"
			}
			list = append(list, wait{id, why})
		case r == nil && o.stage != stageApproved:
			list = append(list, wait{id: id})
		}
	}
	return list, notices
}

// waitText names the tasks that a task waits for, and why completed ones do not count.
func waitText(list ...wait) string {
	var words []string
	for _, w := range list {
		if w.why != "" {
			w.id += " (" + w.why + ")"
		}
		words = append(words, w.id)
	}
	return "waits for " + clean(strings.Join(words, ", "), maxText)
}

// findCycles returns the tasks that wait for themselves, with the members of their cycle (Tarjan's strongly connected
// components). Their wait would never end, so it does not hold them.
func findCycles(b *board) map[string]string {
	waits, cycles := map[string][]string{}, map[string]string{}
	for _, t := range b.live {
		list, _ := waitsOf(b, t)
		for _, w := range list {
			waits[t.id] = append(waits[t.id], w.id)
		}
	}
	var stack []string
	low := map[string]int{} // the first visited task of the stack that each visited task leads to
	var visit func(id string) int
	visit = func(id string) int {
		if n, visited := low[id]; visited {
			return n
		}
		own, at := len(low), len(stack)
		low[id], stack = own, append(stack, id)
		for _, next := range waits[id] {
			low[id] = min(low[id], visit(next))
		}
		if low[id] < own {
			return low[id]
		}
		members := slices.Sorted(slices.Values(stack[at:]))
		stack = stack[:at]
		way := clean(strings.Join(members[:min(len(members), maxItems)], ", "), maxText)
		for _, m := range members {
			low[m] = math.MaxInt // left behind
			if len(members) > 1 || slices.Contains(waits[m], m) {
				cycles[m] = way
			}
		}
		return math.MaxInt
	}
	for _, t := range b.live {
		visit(t.id)
	}
	return cycles
}
