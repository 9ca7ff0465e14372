package task

import (
	"cmp"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol/agentstatus"
)

// Nothing says why there is no task to take, with the tasks that are held back: of these it names the one that is due
// first, what keeps it, and when it may come.
func Nothing(held []agentstatus.Detail, now time.Time) string {
	if len(held) == 0 {
		return "nothing waits"
	}
	first := held[0]
	for _, d := range held[1:] {
		if at := dueAt(d); !at.IsZero() && (dueAt(first).IsZero() || at.Before(dueAt(first))) {
			first = d
		}
	}
	text := "task " + Plain(first.ID) + ": " + Standing(first)
	if at := dueAt(first); !at.IsZero() {
		text += ", due in " + Span(at.Sub(now))
	}
	if n := len(held) - 1; n > 0 {
		text += fmt.Sprintf("; %d more held", n)
	}
	return text
}

// dueAt is when a held task may come at the earliest; zero if nobody knows.
func dueAt(d agentstatus.Detail) time.Time {
	if d.Hold == nil {
		return d.Due
	}
	return cmp.Or(d.Due, d.Hold.NotBefore)
}
