package rules

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/protocol"
	"pgregory.net/rapid"
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

func failedTask(id, code, severity, message string) protocol.Task {
	return protocol.Task{Request: protocol.Request{ID: id}, Outcome: &protocol.Outcome{Status: "failed",
		Failures: []protocol.Failure{{Code: code, Severity: severity, Message: message, File: "scripts/x.sh", Line: 12}}}}
}

func announce(t *testing.T, task protocol.Task) (summary, spoken, detail string) {
	t.Helper()
	return Announce(task, Judge(task, "agentstatus", printed, builtinRules(t)), "Jesse")
}

// TestCriticalWords checks the sentences for critical errors. The document prescribes the first one verbatim
// (protocol 000, Test 4).
func TestCriticalWords(t *testing.T) {
	for code, want := range map[string]string{
		"GIT_CONFLICT":      "Critical error: Git conflict detected. Your input needed.",
		"VALIDATION_FAILED": "Critical error: Validation failed. Your input needed.",
		"UNKNOWN_ERROR":     "Critical error: Unknown error. Your input needed.",
		"CAPACITY_EXCEEDED": "Critical error: Capacity exceeded. Your input needed.",
		"FILE_NOT_FOUND":    "Critical error: File not found. Your input needed.",
		"PERMISSION_DENIED": "Critical error: Permission denied. Your input needed.",
		"TIMEOUT":           "Critical error: Timeout. Your input needed.",
		"EXECUTION_FAILED":  "Critical error: Execution failed. Your input needed.",
		"RATE_LIMITED":      "Critical error: Rate limited. Your input needed.",
		"AGENT_LOST":        "Critical error: Agent lost. Your input needed.",
	} {
		summary, spoken, _ := announce(t, failedTask("deploy", code, "fatal", "m"))
		if summary != want+" (deploy, x.sh:12)" || spoken != want {
			t.Errorf("%s: %q, %q", code, summary, spoken)
		}
	}
}

func TestAnnounce(t *testing.T) {
	uuid := "3f2a9c1e-0000-4000-8000-000000000001"
	long := failedTask("deploy-voice", "PERMISSION_DENIED", "error", "m")
	long.Outcome.Failures[0].File = "/home/jesse/LivHana-SoT/scripts/deployment/production/voice/x.sh"
	titled := failedTask(uuid, "PERMISSION_DENIED", "error", "m")
	titled.Title = "deploy voice-service"
	pathed := titled
	pathed.Title = "Task execute /home/jesse/LivHana-SoT/scripts/deployment/START.sh"
	blocked := protocol.Task{Request: protocol.Request{ID: "merge"}, Outcome: &protocol.Outcome{Status: "blocked", Summary: "waits for a key"}}
	for name, c := range map[string]struct {
		task            protocol.Task
		summary, spoken string
	}{
		"place": {failedTask("deploy-voice", "PERMISSION_DENIED", "error", "m"),
			"Task deploy-voice failed: Permission denied (scripts/x.sh:12)", "Task deploy-voice failed: Permission denied."},
		"long path":       {long, "Task deploy-voice failed: Permission denied (x.sh:12)", "Task deploy-voice failed: Permission denied."},
		"title":           {titled, "Task deploy voice-service failed: Permission denied (scripts/x.sh:12)", "Task deploy voice-service failed: Permission denied."},
		"a path as title": {pathed, "Task execute START.sh failed: Permission denied (scripts/x.sh:12)", "Task execute START.sh failed: Permission denied."},
		"no title": {failedTask(uuid, "PERMISSION_DENIED", "error", ""),
			"Task 3f2a9c1e failed: Permission denied (scripts/x.sh:12)", "Task 3f2a9c1e failed: Permission denied."},
		"blocked": {blocked, "Task merge is blocked: waits for a key", "Task merge is blocked: waits for a key."},
	} {
		summary, spoken, _ := announce(t, c.task)
		if summary != c.summary || spoken != c.spoken {
			t.Errorf("%s:\n%q\n%q", name, summary, spoken)
		}
	}
}

func TestAnnounceDetail(t *testing.T) {
	task := failedTask("deploy-voice", "FILE_NOT_FOUND", "error", "no such file:\n\tkey.pem\x00 \x1b[31mred\x1b[0m")
	task.Agent, task.Title, task.Directive = "codex-cursor", "voice-service", "ship it, today"
	task.Attempts = []protocol.Attempt{
		{N: 1, Action: "defer", Rule: "code=CAPACITY_EXCEEDED", Code: "CAPACITY_EXCEEDED", Due: printed, Committed: true},
		{N: 2, Action: "retry", Rule: "code=FILE_NOT_FOUND", Code: "FILE_NOT_FOUND", Due: printed.Add(time.Hour), Committed: true},
	}
	task.Outcome.ForHuman = []string{"supply the key"}
	_, _, detail := announce(t, task)
	want := `Task: voice-service
Agent: codex-cursor
Error: FILE_NOT_FOUND (error): no such file: key.pem red
Where: scripts/x.sh:12
Jesse said: “ship it, today”
Attempts made: 2
Tried: Capacity exceeded, put off to 2025-10-22T19:00:00Z
Tried: File not found, run again to 2025-10-22T20:00:00Z
FILE_NOT_FOUND: attempt 2 of 2 failed (rule: code).
The agent suggests: supply the key`
	if detail != want {
		t.Errorf("got:\n%s\nwant:\n%s", detail, want)
	}
}

// TestWordsAreClean checks that for any file content the texts fit and contain nothing that breaks a channel.
func TestWordsAreClean(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringN(200, 3000, -1), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{"\x00", "\u202etxt.exe", "a\x1b]0;title\x07b", "\u200b", strings.Repeat("é", 500)}))
	rapid.Check(t, func(rt *rapid.T) {
		task := failedTask(text.Draw(rt, "id"), text.Draw(rt, "code"), rapid.SampledFrom([]string{"fatal", "error", "x\x00"}).Draw(rt, "severity"), text.Draw(rt, "message"))
		task.Outcome.Status = rapid.SampledFrom([]string{"failed", "blocked", "deferred", "\x00?"}).Draw(rt, "status")
		task.Outcome.Failures[0].File = text.Draw(rt, "file")
		task.Title, task.Directive, task.Agent = text.Draw(rt, "title"), text.Draw(rt, "directive"), text.Draw(rt, "agent")
		task.Outcome.Next = []string{text.Draw(rt, "next")}
		r := Judge(task, "agentstatus", printed, builtinRules(t))
		summary, spoken, detail := Announce(task, r, text.Draw(rt, "human"))
		if n := utf8.RuneCountInString(summary); n == 0 || n > 80 {
			rt.Fatalf("summary of %d characters: %q", n, summary)
		}
		for _, s := range []string{summary, spoken, strings.ReplaceAll(detail, "\n", " "), r.Why, r.Rule, r.Code} {
			bad := func(c rune) bool { return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) }
			if !utf8.ValidString(s) || strings.ContainsFunc(s, bad) {
				rt.Fatalf("unclean %q", s)
			}
		}
		if len(detail) > 40*lineLimit {
			rt.Fatalf("detail of %d bytes", len(detail))
		}
	})
}
