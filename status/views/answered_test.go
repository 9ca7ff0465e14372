package views

import (
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/status/terminal"
)

// TestAnswerSaysWhatItSettles: own words settle the incident, and a question that was asked again is not the first one.
func TestAnswerSaysWhatItSettles(t *testing.T) {
	i := escalate.Incident{Content: escalate.Content{Summary: "BACKEND asks", Project: "p", About: "p:plea/q-1"},
		Revisions: escalate.Revisions{Opened: 1}, Climb: escalate.Climb{Opening: noon.Add(-time.Minute)}, Closing: escalate.Closing{Answer: &escalate.Answer{Label: "Use JWT"}}}
	say := func(i escalate.Incident) string {
		p := &terminal.Page{Width: terminal.Unbounded, Now: noon}
		Answered(p, AnsweredIncident{i})
		return p.String()
	}
	const own, again = "your own words settle the incident", "it was asked again at 11:59:00, after it had been settled; this answers the question of then"
	if got := say(i); !strings.Contains(got, own) || strings.Contains(got, "asked again") {
		t.Errorf("own words: %s", got)
	}
	i.Opened, i.Answer.Option = 4, "1"
	if got := say(i); !strings.Contains(got, again) || strings.Contains(got, own) {
		t.Errorf("asked again: %s", got)
	}
}
