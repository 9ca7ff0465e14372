package console

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/status/terminal"
)

// TestConsoleLog: on a terminal a log line is a sentence that names its subject.
func TestConsoleLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(newConsole(&out, false))
	structured := new(bytes.Buffer)
	for _, l := range []*slog.Logger{log, slog.New(slog.NewTextHandler(structured, nil))} {
		l.Info("changed", "verb", "hold", "subject", "sot:task/7c0e2f5a-3b1d-4f7e-9a51-5d1c8e7f2a10", "reason", "capacity", "why", "memory is at 93 %", "took", time.Millisecond)
		l.Info("agent", "subject", "sot:agent/codex", "state", "dead", "reason", "silent", "why", `it says "bye"`)
		l.Warn("incident", "key", "b6901d14", "severity", "critical", "summary", "Critical error")
		l.Error("save memory", "error", errors.New("disk full\x1b[2J"))
	}
	want := []string{
		"INFO  sot: task 7c0e2f5a: steward held it: memory is at 93 %",
		`INFO  sot: agent codex is dead: it says "bye"`,
		"WARN  incident, critical: Critical error (key b6901d14)",
		"ERROR save memory: disk full?[2J",
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, line := range strings.Split(strings.TrimSpace(structured.String()), "\n") {
		if got := lines[i][len("15:04:05 "):]; got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
		_, message, words, ok := ParseLine(line)
		if got := Sentence(message, words); !ok || got != want[i][6:] { // the demo parses the structured form
			t.Errorf("read from %s:\ngot  %s\nwant %s", line, got, want[i][6:])
		}
	}
	if _, _, _, ok := ParseLine("steward dev ready: p"); ok {
		t.Error("an ordinary line is taken for one of the log")
	}
	if got := LevelWord("WARN", true); got != "\x1b[33mWARN \x1b[0m" {
		t.Errorf("the level reads %q", got)
	}
}

// TestOneTimeZone: times in a sentence use the same zone as the other columns.
func TestOneTimeZone(t *testing.T) {
	now := time.Date(2026, 3, 14, 20, 30, 0, 0, time.FixedZone("here", -5*3600))
	for text, want := range map[string]string{
		"in flight since 01:14:14 UTC":                                    "in flight since 20:14:14",
		"runs again at 02:00 UTC":                                         "runs again at 21:00",
		"waits until 15 Mar 02:00 UTC":                                    "waits until 14 Mar 21:00",
		"since 2026-03-13 02:00 UTC.":                                     "since 2026-03-12 21:00.",
		"held back since 2026-03-15T01:14:14Z because of":                 "held back since 2026-03-14 20:14:14 because of",
		"resumes after 01:14:14Z (attempt 1)":                             "resumes after 20:14:14 (attempt 1)",
		"2026-13-99T01:14:14Z, 99:99 UTC, 2026-03-15T01:14:14.5Z, UTC, Z": "2026-13-99T01:14:14Z, 99:99 UTC, 2026-03-15T01:14:14.5Z, UTC, Z",
	} {
		if got := terminal.LocalTimes(text, now); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got := terminal.LocalTimes(text, now.UTC()); got != text {
			t.Errorf("in UTC %q became %q", text, got)
		}
	}
}
