package capacity

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// Effective is the priority of a task that has waited since the given time: one level higher per step, at most
// critical. Among critical tasks age decides, so a task that waits long enough comes first whatever arrives later.
func Effective(p protocol.Priority, since, now time.Time, step time.Duration) protocol.Priority {
	p = min(max(p, protocol.PriorityLow), protocol.PriorityCritical)
	waited := now.Sub(since)
	if since.IsZero() || waited <= 0 || step <= 0 {
		return p
	}
	return p + protocol.Priority(min(waited/step, time.Duration(protocol.PriorityCritical-p)))
}

// ordered returns the queue sorted by effective priority, then age, then name, so that there is never a tie.
func ordered(waiters []Waiter, now time.Time, step time.Duration) []Waiter {
	queue := slices.Clone(waiters)
	for i := range queue {
		if s := queue[i].Since; s.IsZero() || s.After(now) {
			queue[i].Since = now
		}
	}
	slices.SortStableFunc(queue, func(a, b Waiter) int {
		return cmp.Or(
			cmp.Compare(Effective(b.Priority, b.Since, now, step), Effective(a.Priority, a.Since, now, step)),
			a.Since.Compare(b.Since),
			compareSubjects(a.Subject, b.Subject),
		)
	})
	return queue
}

func compareSubjects(a, b protocol.Subject) int {
	return cmp.Or(
		strings.Compare(a.Project, b.Project), strings.Compare(a.Protocol, b.Protocol),
		strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.ID, b.ID),
	)
}
