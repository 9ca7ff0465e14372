package task

import (
	"cmp"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
)

// Nothing says why there is no task to take. Of the held tasks it names the one that is due first, with the reason for
// its hold and the time it is due.
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
	text := "task " + terminal.Clean(first.ID) + ": " + Standing(first)
	if at := dueAt(first); !at.IsZero() {
		text += ", due in " + Span(at.Sub(now))
	}
	if n := len(held) - 1; n > 0 {
		text += fmt.Sprintf("; %d more held", n)
	}
	return text
}

// dueAt is the earliest time at which a held task may start; zero when unknown.
func dueAt(d agentstatus.Detail) time.Time {
	if d.Hold == nil {
		return d.Due
	}
	return cmp.Or(d.Due, d.Hold.NotBefore)
}
