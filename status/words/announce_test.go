package words

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"pgregory.net/rapid"
)

// retryRules retry a missing file once.
var retryRules = rules.RetryConfig{MaxAttempts: 10, MaxTimeout: time.Hour, Rules: []rules.Rule{
	{Code: "FILE_NOT_FOUND", Action: protocol.ActionRetry, Attempts: 2, Delay: time.Minute, Then: rules.ThenAlert},
	{Code: "CAPACITY_EXCEEDED", Action: protocol.ActionDefer, Attempts: 20, Delay: time.Minute, Then: rules.ThenAlert}}}

func failedTask(id, code, severity, message string) protocol.Task {
	return protocol.Task{Request: protocol.Request{ID: id}, Outcome: &protocol.Outcome{Status: "failed",
		Failures: []protocol.Failure{{Code: code, Severity: severity, Message: message, File: "scripts/x.sh", Line: 12}}}}
}

func announce(t *testing.T, task protocol.Task) (summary, spoken, detail string) {
	t.Helper()
	return Announce(task, rules.Judge(task, "agentstatus", noon, retryRules), "Jesse")
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
		{N: 1, Action: "defer", Rule: "code=CAPACITY_EXCEEDED", Code: "CAPACITY_EXCEEDED", Due: noon, Committed: true},
		{N: 2, Action: "retry", Rule: "code=FILE_NOT_FOUND", Code: "FILE_NOT_FOUND", Due: noon.Add(time.Hour), Committed: true},
	}
	task.Outcome.ForHuman = []string{"supply the key"}
	_, _, detail := announce(t, task)
	want := `Task: voice-service
Agent: codex-cursor
Error: FILE_NOT_FOUND (error): no such file: key.pem red
Where: scripts/x.sh:12
Jesse said: “ship it, today”
Attempts made: 2
Tried: Capacity exceeded, put off to 2026-03-01T12:00:00Z
Tried: File not found, run again to 2026-03-01T13:00:00Z
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
		r := rules.Judge(task, "agentstatus", noon, retryRules)
		summary, spoken, detail := Announce(task, r, text.Draw(rt, "human"))
		if n := utf8.RuneCountInString(summary); n == 0 || n > 80 {
			rt.Fatalf("summary of %d characters: %q", n, summary)
		}
		for _, s := range []string{summary, spoken, strings.ReplaceAll(detail, "\n", " "), Sentence(r.Cause, noon), r.Rule, r.Code} {
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
