package rules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	. "github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"
)

// printed is Wednesday, 22 October 2025, 14:00 in Chicago (19:00 UTC).
var printed = time.Date(2025, 10, 22, 14, 0, 0, 0, time.FixedZone("CDT", -5*3600))

func failedTask(id, code, severity, message string) protocol.Task {
	return protocol.Task{Request: protocol.Request{ID: id}, Outcome: &protocol.Outcome{Status: "failed",
		Failures: []protocol.Failure{{Code: code, Severity: severity, Message: message, File: "scripts/x.sh", Line: 12}}}}
}

// builtinRules returns the rules that config.toml ships, from testdata/rules.toml.
func builtinRules(tb testing.TB) RetryConfig {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "rules.toml"))
	if err != nil {
		tb.Fatal(err)
	}
	return RetryConfig{Rules: parseRules(tb, string(text)), MaxAttempts: 10, MaxTimeout: time.Hour}
}

func parseRules(tb testing.TB, text string) []Rule {
	tb.Helper()
	var file struct{ Retry []Rule }
	meta, err := toml.Decode(text, &file)
	if err != nil {
		tb.Fatal(err)
	}
	if extra := meta.Undecoded(); len(extra) > 0 {
		tb.Fatalf("unknown keys %v", extra)
	}
	return file.Retry
}

// TestStories replays testdata/retry/*.txtar: a sequence of results, and steward's ruling after each.
// UPDATE_STORIES=1 writes the rulings into the files; review them before committing.
func TestStories(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "retry", "*.txtar"))
	if err != nil || len(files) < 10 {
		t.Fatalf("stories: %v, %v", files, err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			section := make(map[string]string)
			for _, f := range archive.Files {
				section[f.Name] = string(f.Data)
			}
			cfg := builtinRules(t)
			cfg.Rules = Merge(parseRules(t, section["rules"]), cfg.Rules)
			if err := cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			got := (&story{t: t, cfg: cfg}).play(section["story"])
			if os.Getenv("UPDATE_STORIES") != "" {
				archive.Files[len(archive.Files)-1].Data = []byte(got)
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := section["ruling"]; got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// story plays lines such as
//
//	task deploy-voice timeout 300s agent codex-cursor
//	10:00:00 result failed, retry after 90s, then a crash
//	    error FILE_NOT_FOUND severity error at scripts/x.sh:12: no such file
//	10:00:05 look again
type story struct {
	t    *testing.T
	cfg  RetryConfig
	task protocol.Task
	at   time.Time
	wire string // the task's protocol
	out  strings.Builder
	open bool // a result waits for its ruling
	die  bool // steward crashes between schedule and commit
}

var (
	lineAt    = regexp.MustCompile(`^(\d\d:\d\d:\d\d) (.*)$`)
	lineError = regexp.MustCompile(`^error (\S+)(?: severity (\S+))?(?: at (\S+):(\d+))?(?:: (.*))?$`)
)

func (s *story) play(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case strings.HasPrefix(line, "task "):
			s.rule()
			s.newTask(strings.Fields(line)[1:])
		case strings.HasPrefix(line, "error "):
			s.addError(line)
		default:
			m := lineAt.FindStringSubmatch(line)
			if m == nil {
				s.t.Fatalf("cannot read %q", line)
			}
			s.rule()
			at, err := time.Parse(time.DateTime, "2025-10-22 "+m[1])
			if err != nil {
				s.t.Fatal(err)
			}
			s.at, s.open = at, true
			s.event(m[2])
		}
	}
	s.rule()
	return s.out.String()
}

func (s *story) newTask(word []string) {
	s.task = protocol.Task{Request: protocol.Request{ID: word[0], Timeout: 5 * time.Minute, Agent: "codex-cursor", Type: "execute"}}
	s.wire = "agentstatus"
	fmt.Fprintf(&s.out, "task %s\n", s.task.ID)
	for i := 1; i+1 < len(word); i += 2 {
		switch value := word[i+1]; word[i] {
		case "timeout":
			s.task.Timeout = s.duration(value)
		case "agent":
			s.task.Agent = value
		case "type":
			s.task.Type = value
		case "protocol":
			s.wire = value
		default:
			s.t.Fatalf("task: cannot read %q", word[i])
		}
	}
}

func (s *story) event(text string) {
	switch text {
	case "look again":
		return
	case "the dead letter is written":
		s.task.Buried = true
		return
	case "the operator cancels":
		s.task.Cancelled = true
		return
	}
	status, rest, _ := strings.Cut(strings.TrimPrefix(text, "result "), ", ")
	rest, s.die = strings.CutSuffix(rest, "then a crash")
	s.task.Outcome = &protocol.Outcome{Status: status, At: s.at}
	if rest = strings.TrimSuffix(rest, ", "); rest != "" {
		s.task.Outcome.RetryAfter = s.duration(strings.TrimPrefix(rest, "retry after "))
	}
}

func (s *story) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *story) addError(line string) {
	m := lineError.FindStringSubmatch(line)
	if m == nil {
		s.t.Fatalf("cannot read %q", line)
	}
	row, _ := strconv.Atoi(m[4])
	code := strings.TrimPrefix(m[1], "-")
	s.task.Outcome.Failures = append(s.task.Outcome.Failures,
		protocol.Failure{Code: code, Severity: m[2], File: m[3], Line: row, Message: m[5]})
}

// rule judges the pending result, prints the ruling and files it in the ledger as an adapter does.
func (s *story) rule() {
	if !s.open {
		return
	}
	s.open = false
	r := Judge(s.task, s.wire, s.at, s.cfg)
	fmt.Fprintf(&s.out, "%s %s", s.at.Format(time.TimeOnly), r.Action)
	if r.Rule != "" {
		fmt.Fprintf(&s.out, " by %s", r.Rule)
	}
	if !r.Due.IsZero() {
		fmt.Fprintf(&s.out, ", in %v at %s", r.Due.Sub(s.at), r.Due.Format(time.TimeOnly))
	}
	for _, flag := range []struct {
		on   bool
		word string
	}{
		{r.Timeout != 0, "timeout " + r.Timeout.String()}, {r.NeedsProof, "after proof of end"}, {r.Exhausted, "no attempt left"},
		{r.Dead, "dead letter"}, {r.Fatal, "critical"},
	} {
		if flag.on {
			s.out.WriteString(", " + flag.word)
		}
	}
	s.out.WriteString("\n")
	if r.Alert {
		summary, _, _ := words.Announce(s.task, r, "Jesse")
		fmt.Fprintf(&s.out, "         alert: %s\n", summary)
	}
	s.file(r)
}

func (s *story) file(r Ruling) {
	if r.Action != protocol.ActionRetry && r.Action != protocol.ActionDefer {
		return
	}
	if n := len(s.task.Attempts); n == 0 || s.task.Attempts[n-1].Committed {
		s.task.Attempts = append(s.task.Attempts, protocol.Attempt{
			N: len(s.task.Attempts) + 1, Action: r.Action, Rule: r.Rule, Code: r.Code, Due: r.Due,
		})
	}
	if s.die {
		s.die = false
		return
	}
	s.task.Attempts[len(s.task.Attempts)-1].Committed = true
	s.task.Outcome = nil
	if r.Timeout > 0 {
		s.task.Timeout = r.Timeout
	}
}

// outcomes generates valid and invalid results.
func outcomes(now time.Time) *rapid.Generator[*protocol.Outcome] {
	return rapid.Custom(func(rt *rapid.T) *protocol.Outcome {
		o := &protocol.Outcome{
			Status:     rapid.SampledFrom([]string{"failed", "failed", "timeout", "deferred", "blocked", "partial", "completed", "odd"}).Draw(rt, "status"),
			At:         now.Add(-time.Duration(rapid.IntRange(0, 100).Draw(rt, "age")) * time.Second),
			RetryAfter: rapid.SampledFrom([]time.Duration{0, 0, time.Second, 90 * time.Second, 1 << 62}).Draw(rt, "retry after"),
		}
		for range rapid.IntRange(0, 3).Draw(rt, "errors") {
			o.Failures = append(o.Failures, protocol.Failure{
				Code: rapid.SampledFrom([]string{"CAPACITY_EXCEEDED", "FILE_NOT_FOUND", "TIMEOUT", "EXECUTION_FAILED",
					"GIT_CONFLICT", "UNKNOWN_ERROR", "RATE_LIMITED", "AGENT_LOST", "A", "B", "C", ""}).Draw(rt, "code"),
				Severity: rapid.SampledFrom([]string{"", "warning", "warning", "error", "error", "fatal", "severe"}).Draw(rt, "severity"),
				Message:  rapid.SampledFrom([]string{"", "resets 3pm", "retry after 120 seconds", "resets at 2099-01-01T00:00:00Z"}).Draw(rt, "message"),
			})
		}
		return o
	})
}

// TestAttemptsStayWithinLimits checks that in any sequence of results, no rule and no task exceeds its limit, no wait
// is longer than the row's maximum, no fatal error is retried, and the same input gives the same ruling.
func TestAttemptsStayWithinLimits(t *testing.T) {
	base := builtinRules(t)
	rapid.Check(t, func(rt *rapid.T) {
		cfg := base
		cfg.MaxAttempts = rapid.IntRange(1, 6).Draw(rt, "ceiling")
		now := time.Date(2025, 10, 22, 10, 0, 0, 0, time.UTC)
		task := protocol.Task{Request: protocol.Request{ID: rapid.StringN(1, 8, -1).Draw(rt, "id"), Timeout: 20 * time.Minute}}
		rule := make(map[string]Rule)
		for _, r := range cfg.Rules {
			rule[r.Name()] = r
		}
		used := make(map[string]int)
		for range 60 {
			task.Outcome = outcomes(now).Draw(rt, "outcome")
			r := Judge(task, "agentstatus", now, cfg)
			if again := Judge(task, "agentstatus", now, cfg); again != r {
				rt.Fatalf("judged twice: %+v, %+v", r, again)
			}
			if r.Cause == (protocol.Cause{}) || r.Action == protocol.ActionStop && !r.Alert {
				rt.Fatalf("silent ruling %+v", r)
			}
			if r.Action != protocol.ActionRetry && r.Action != protocol.ActionDefer {
				continue
			}
			row := rule[r.Rule]
			used[r.Rule]++
			if r.Counted && used[r.Rule] > row.Attempts-1 || !r.Counted && used[r.Rule] > row.Attempts {
				rt.Fatalf("%s used %d times", r.Rule, used[r.Rule])
			}
			if d := r.Due.Sub(now); d < 0 || d >= row.MaxDelay+time.Second {
				rt.Fatalf("%s: delay %v, at most %v", r.Rule, d, row.MaxDelay)
			}
			if r.Timeout > cfg.MaxTimeout || r.Timeout != 0 && r.Timeout <= task.Timeout {
				rt.Fatalf("timeout %v after %v", r.Timeout, task.Timeout)
			}
			for _, f := range task.Outcome.Failures {
				if f.Severity == "fatal" {
					rt.Fatalf("fatal was taken: %+v", r)
				}
			}
			task.Attempts = append(task.Attempts, protocol.Attempt{N: len(task.Attempts) + 1, Action: r.Action, Rule: r.Rule, Due: r.Due, Committed: true})
			now = r.Due
			if task.Attempt() > cfg.MaxAttempts {
				rt.Fatalf("attempt %d of %d", task.Attempt(), cfg.MaxAttempts)
			}
		}
	})
}

// TestScheduleSurvivesCrash checks that after a crash between schedule and commit, any later ruling has the same rule
// and due time and adds no second schedule.
func TestScheduleSurvivesCrash(t *testing.T) {
	cfg := builtinRules(t)
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Date(2025, 10, 22, 10, 0, 0, 0, time.UTC)
		task := protocol.Task{Request: protocol.Request{ID: "t", Timeout: time.Minute}, Outcome: outcomes(now).Draw(rt, "outcome")}
		first := Judge(task, "agentstatus", now, cfg)
		if first.Due.IsZero() {
			return
		}
		later := now.Add(time.Duration(rapid.Int64Range(0, 1e15).Draw(rt, "dead for")))
		if fresh := Judge(task, "agentstatus", later, cfg); fresh.Due.Before(later) {
			rt.Fatalf("due %v, judged %v", fresh.Due, later)
		}
		task.Attempts = []protocol.Attempt{{N: 1, Action: first.Action, Rule: first.Rule, Code: first.Code, Due: first.Due}}
		second := Judge(task, "agentstatus", later, cfg)
		first.Cause, second.Cause = protocol.Cause{}, protocol.Cause{}
		if first != second {
			rt.Fatalf("before %+v\nafter  %+v", first, second)
		}
	})
}

func TestScheduleNeverTurnsAStopIntoARetry(t *testing.T) {
	now := time.Date(2025, 10, 22, 10, 0, 0, 0, time.UTC)
	task := protocol.Task{Request: protocol.Request{ID: "t"}, Record: protocol.Record{Attempts: []protocol.Attempt{{N: 1, Action: "retry", Rule: "code=AGENT_LOST", Code: "AGENT_LOST", Due: now}}}}
	for status, want := range map[string]string{"completed": ActionNone, "blocked": "stop", "failed": "stop"} {
		task.Outcome = &protocol.Outcome{Status: status}
		if r := Judge(task, "agentstatus", now, builtinRules(t)); r.Action != want {
			t.Errorf("%s: %+v", status, r)
		}
	}
}

// TestReasonAndSeverity checks the Reason, which log, metrics and explain use, and the Severity, which sets how loud
// the alert is.
func TestReasonAndSeverity(t *testing.T) {
	cfg := builtinRules(t)
	once := []protocol.Attempt{{Action: "retry", Rule: "code=TIMEOUT", Committed: true}}
	for name, c := range map[string]struct {
		task     protocol.Task
		reason   protocol.Reason
		severity string
	}{
		"retry":     {failedTask("t", "FILE_NOT_FOUND", "error", ""), protocol.ReasonRule, "error"},
		"warning":   {failedTask("t", "SLOW", "warning", ""), protocol.ReasonRule, "warning"},
		"lost":      {failedTask("t", "AGENT_LOST", "error", ""), protocol.ReasonLost, "error"},
		"stop":      {failedTask("t", "GIT_CONFLICT", "warning", ""), protocol.ReasonRule, "fatal"},
		"limited":   {failedTask("t", "RATE_LIMITED", "", ""), protocol.ReasonRule, "error"},
		"deferred":  {protocol.Task{Outcome: &protocol.Outcome{Status: "deferred"}}, protocol.ReasonDeferred, "warning"},
		"exhausted": {protocol.Task{Outcome: &protocol.Outcome{Status: "timeout"}, Record: protocol.Record{Attempts: once}}, protocol.ReasonExhausted, "error"},
		"damaged":   {protocol.Task{Outcome: &protocol.Outcome{Status: "timeout"}, Record: protocol.Record{Attempts: []protocol.Attempt{{N: 1, Action: "retry", Committed: true}}}}, protocol.ReasonExhausted, "error"},
		"completed": {protocol.Task{Outcome: &protocol.Outcome{Status: "completed"}, Record: protocol.Record{Buried: true}}, protocol.ReasonFinished, ""},
		"cancelled": {protocol.Task{Outcome: &protocol.Outcome{Status: "failed"}, Record: protocol.Record{Cancelled: true}}, protocol.ReasonOperator, ""},
		"running":   {protocol.Task{}, protocol.ReasonFinished, ""},
	} {
		if r := Judge(c.task, "agentstatus", printed, cfg); r.Reason != c.reason || r.Severity != c.severity {
			t.Errorf("%s: %s, %s: %+v", name, r.Reason, r.Severity, r)
		}
	}
}

// TestScheduleOfAnotherError checks that an existing schedule for a different error stands, without any of the
// conditions of the present error's row.
func TestScheduleOfAnotherError(t *testing.T) {
	due := printed.Add(time.Minute)
	task := protocol.Task{Request: protocol.Request{ID: "t", Timeout: time.Minute}, Outcome: &protocol.Outcome{Status: "timeout"},
		Record: protocol.Record{Attempts: []protocol.Attempt{{N: 1, Action: "defer", Rule: "code=CAPACITY_EXCEEDED", Code: "CAPACITY_EXCEEDED", Due: due}}}}
	r := Judge(task, "agentstatus", printed, builtinRules(t))
	if r.Action != "defer" || r.Code != "CAPACITY_EXCEEDED" || !r.Due.Equal(due) || r.NeedsProof || r.Timeout != 0 || r.Counted {
		t.Errorf("%+v", r)
	}
}

func TestAgentOfTheResultWhenTheTaskNamesNone(t *testing.T) {
	task := failedTask("t", "X", "error", "")
	task.Outcome.Agent = "codex"
	cfg := RetryConfig{Rules: []Rule{{Agent: "codex", Action: "retry", Attempts: 2, Then: "dead"}}, MaxAttempts: 2, MaxTimeout: time.Hour}
	if r := Judge(task, "agentstatus", printed, cfg); r.Rule != "agent=codex" {
		t.Errorf("%+v", r)
	}
	task.Agent = "other"
	if r := Judge(task, "agentstatus", printed, cfg); r.Rule != "none" || r.Action != "stop" || !r.Alert {
		t.Errorf("%+v", r)
	}
}

// TestLimitCountsFromTheResult checks that durations count from when the result was written; a timestamp in the
// future counts as now.
func TestLimitCountsFromTheResult(t *testing.T) {
	for name, c := range map[string]struct{ age, want time.Duration }{
		"just now": {0, 10 * time.Minute}, "4 min ago": {4 * time.Minute, 6 * time.Minute}, "a day ahead": {-24 * time.Hour, 10 * time.Minute},
	} {
		task := failedTask("t", "RATE_LIMITED", "error", "try again in 10m")
		task.Outcome.At = printed.Add(-c.age)
		r := Judge(task, "agentstatus", printed, builtinRules(t))
		if d := r.Due.Sub(printed); d < c.want || d > c.want*11/10+time.Second {
			t.Errorf("%s: waits %v", name, d)
		}
	}
}

func TestTimeoutGrowsOnce(t *testing.T) {
	task := protocol.Task{Request: protocol.Request{ID: "t", Timeout: 10 * time.Minute}, Outcome: &protocol.Outcome{Status: "timeout"}}
	for name, c := range map[string]struct {
		hold *protocol.Hold
		base time.Duration
		want time.Duration
	}{
		"open":            {nil, 10 * time.Minute, 20 * time.Minute},
		"held half":       {&protocol.Hold{Reason: protocol.HoldRetry, Half: true}, 10 * time.Minute, 20 * time.Minute},
		"held for retry":  {&protocol.Hold{Reason: protocol.HoldRetry}, 20 * time.Minute, 0},
		"up to an hour":   {nil, 40 * time.Minute, time.Hour},
		"already an hour": {nil, time.Hour, 0},
		"unknown":         {nil, 0, 0},
	} {
		task.Hold, task.Timeout = c.hold, c.base
		if r := Judge(task, "agentstatus", time.Unix(1761127200, 0), builtinRules(t)); r.Timeout != c.want {
			t.Errorf("%s: timeout %v, want %v", name, r.Timeout, c.want)
		}
	}
}

func TestBudget(t *testing.T) {
	now := time.Date(2025, 10, 22, 10, 0, 0, 0, time.UTC)
	ago := func(minutes ...int) (all []time.Time) {
		for _, m := range minutes {
			all = append(all, now.Add(-time.Duration(m)*time.Minute))
		}
		return all
	}
	for name, c := range map[string]struct {
		recent  []time.Time
		perHour int
		ok      bool
		again   time.Duration
	}{
		"none made":                {nil, 1, true, 0},
		"none allowed":             {nil, 0, false, 0},
		"old ones are forgotten":   {ago(60, 90), 1, true, 0},
		"one left":                 {ago(10, 20), 3, true, 0},
		"full":                     {ago(10, 50, 20), 3, false, 10 * time.Minute},
		"over full, limit lowered": {ago(10, 50, 20), 1, false, 50 * time.Minute},
		"from a clock set back":    {ago(-600), 1, false, time.Hour},
	} {
		ok, again := Budget(c.recent, now, c.perHour)
		if ok != c.ok || c.again == 0 != again.IsZero() || c.again != 0 && again.Sub(now) != c.again {
			t.Errorf("%s: %v, %v", name, ok, again.Sub(now))
		}
	}
}

func BenchmarkRule(b *testing.B) {
	cfg := builtinRules(b)
	now := time.Date(2025, 10, 22, 10, 0, 0, 0, time.UTC)
	task := protocol.Task{Request: protocol.Request{ID: "3f2a", Agent: "codex-cursor", Timeout: time.Minute}, Outcome: &protocol.Outcome{
		Status: "failed", Failures: []protocol.Failure{{Code: "DISK_SLOW", Severity: "error", Message: "too slow"}}}}
	b.ReportAllocs()
	for b.Loop() {
		if r := Judge(task, "agentstatus", now, cfg); r.Action != protocol.ActionRetry {
			b.Fatal(r.Cause)
		}
	}
}
