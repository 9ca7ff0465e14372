package rules

import (
	"fmt"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// printed is Wednesday, 22 October 2025, 14:00 in Chicago (19:00 UTC), on a machine whose agent prints local times.
var printed = time.Date(2025, 10, 22, 14, 0, 0, 0, time.FixedZone("CDT", -5*3600))

var resetMessages = []struct{ text, want string }{
	{"Rate limit exceeded. Resets at 2025-10-22T21:30:00Z.", "22 21:30:00"},
	{"resets at 2025-10-22T21:30:00.123456Z", "22 21:30:00"},
	{"resets at 2025-10-22T21:30:00+0000", "22 21:30:00"},
	{"resets at 2025-10-22T23:30:00+02:00", "22 21:30:00"},
	{"available again on 2025-10-22 21:30 UTC", "22 21:30:00"},
	{"quota resets 2025-10-22 16:30:00", "22 21:30:00"},
	{"limit resets at 20:00 UTC", "22 20:00:00"},
	{"limit resets at 15:00", "22 20:00:00"},
	{"5-hour limit reached ∙ resets 3pm", "22 20:00:00"},
	{"resets (5-hour limit) at 3 p.m.", "22 20:00:00"},
	{"Your limit will reset at 3pm (America/Chicago).", "22 20:00:00"},
	{"resets 1:30 PM PDT", "22 20:30:00"},
	{"resets 12am", "23 05:00:00"},
	{"resets 9am", "23 14:00:00"},
	{"resets 1:50pm", "22 18:50:00"}, // ten minutes ago: past, not tomorrow
	{"weekly limit reached, resets Oct 24, 3pm", "24 20:00:00"},
	{"resets October 24 at 3:30 PM", "24 20:30:00"},
	{"429 Too Many Requests: retry after 120 seconds", "22 19:02:00"},
	{"Retry-After: 120", "22 19:02:00"},
	{`{"retry_after": 120}`, "22 19:02:00"},
	{"retry after 5 minutes", "22 19:05:00"},
	{"Please try again in 5m30s.", "22 19:05:30"},
	{"try again in 20s. Visit https://example.com/1234567890", "22 19:00:20"},
	{"please wait 1 hour and 30 minutes", "22 20:30:00"},
	{"retry attempt 3 of 5 in 20s", "22 19:00:20"},
	{"available again in 2 days", "24 19:00:00"},
	{"try again in 1.5h", "22 20:30:00"},
	{"try again in 500ms", "22 19:00:00.5"},
	{"x-ratelimit-reset: 1761168600", "22 21:30:00"},
	{"reset 1761168600000", "22 21:30:00"},
	{"Claude AI usage limit reached|1761168600", "22 21:30:00"},
	{"", "none"},
	{"rate limited", "none"},
	{"429 Too Many Requests, retry later", "none"},
	{"please retry, HTTP 429", "none"},
	{"2025-10-22T18:59:00Z ERROR quota exceeded", "none"}, // a log timestamp
	{"request 1234567890 was refused", "none"},
	{"resets at 25:00", "none"},
	{"resets at 2025-13-45T99:00:00Z", "none"},
}

func TestResetTime(t *testing.T) {
	for _, c := range resetMessages {
		at, ok := resetTime(c.text, printed)
		got := "none"
		if ok {
			got = at.UTC().Format("2 15:04:05.999")
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
}

func FuzzResetTime(f *testing.F) {
	for _, c := range resetMessages {
		f.Add(c.text)
	}
	f.Add("retry 999999999 days 999999999 days 999999999 days")
	f.Add("reset jan 31 24:59:59 est")
	f.Add("retry after 444444444")
	f.Fuzz(func(t *testing.T, text string) {
		at, ok := resetTime(text, printed)
		if again, same := resetTime(text, printed); same != ok || !again.Equal(at) {
			t.Fatalf("read twice: %v, %v", at, again)
		}
		if ok && at.Sub(printed).Abs() > 2*resetSpan+24*time.Hour {
			t.Fatalf("%v is far off", at)
		}
		task := protocol.Task{Request: protocol.Request{ID: "t"}, Outcome: &protocol.Outcome{Status: "failed",
			Failures: []protocol.Failure{{Code: "RATE_LIMITED", Message: text}}}}
		row := Rule{Code: "RATE_LIMITED", Action: ActionWait, Attempts: 1, Delay: time.Minute, MaxDelay: time.Hour}
		r := Judge(task, "", printed, RetryConfig{Rules: []Rule{row}, MaxAttempts: 1, MaxTimeout: time.Hour})
		if d := r.Due.Sub(printed); d < 0 || d > time.Hour+time.Second {
			t.Fatalf("waits %v", d)
		}
	})
}

func TestJitterSpreadsTasks(t *testing.T) {
	seen := make(map[float64]bool)
	for n := range 100 {
		j := jitter("task", n)
		if j < 0 || j > 0.1 || j != jitter("task", n) {
			t.Fatalf("jitter %v", j)
		}
		seen[j], seen[jitter(fmt.Sprint("task-", n), 1)] = true, true
	}
	if len(seen) < 100 {
		t.Errorf("only %d values of 200", len(seen))
	}
}
