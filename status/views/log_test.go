package views

import (
	"strings"
	"testing"

	"github.com/livhana/steward/status"
)

// Only a delivery with proof counts as having told the operator; details follow, a line each.
func TestJournalWords(t *testing.T) {
	for _, c := range []struct {
		kind, verb, text, err, want string
		details                     string
	}{
		{"alert", "alert", "Task t1 failed\nAgent: codex\n\nNow: nothing", "", "raised an alert: Task t1 failed", "Agent: codex|Now: nothing"},
		{"resolve", "resolve", "", "", "closed the incident", ""},
		{"delivery", "desktop", "shown", "", "told the human through desktop: shown", ""},
		{"delivery", "speech", "spoken, that it is over", "", "told the human through speech: spoken, that it is over", ""},
		{"delivery", "speech", "failed", "no loudspeaker", "could not tell the human through speech (no loudspeaker)", ""},
	} {
		var e status.Entry
		e.Kind, e.Verb, e.Text, e.Error = c.kind, c.verb, c.text, c.err
		what, details := told(e, noon)
		if got := strings.Join(details, "|"); what != c.want || got != c.details {
			t.Errorf("%s: %q, %q", c.kind, what, got)
		}
	}
}
