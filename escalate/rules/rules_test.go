package rules_test

import (
	"math"
	"strings"
	"testing"
	"time"

	. "github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"pgregory.net/rapid"
)

// TestShippedRows compares the shipped rows with the table that the operator reads (the document's Error Codes and
// our additions).
func TestShippedRows(t *testing.T) {
	cfg := builtinRules(t)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	const s, m = time.Second, time.Minute
	want := map[string]Rule{
		"code=CAPACITY_EXCEEDED":             {Action: "defer", Attempts: 3, Delay: 60 * s, Factor: 2, MaxDelay: 10 * m, TimeoutFactor: 1, Then: "alert"},
		"code=FILE_NOT_FOUND":                {Action: "retry", Attempts: 2, Delay: 30 * s, Factor: 1, MaxDelay: 10 * m, TimeoutFactor: 2, Then: "dead"},
		"code=TIMEOUT":                       {Action: "retry", Attempts: 2, Delay: 10 * s, Factor: 1, MaxDelay: 10 * m, TimeoutFactor: 2, Then: "dead"},
		"code=PERMISSION_DENIED":             {Action: "stop", Then: "alert"},
		"code=EXECUTION_FAILED":              {Action: "stop", Then: "alert"},
		"code=VALIDATION_FAILED":             {Action: "stop", Then: "alert"},
		"code=GIT_CONFLICT":                  {Action: "stop", Then: "alert"},
		"code=UNKNOWN_ERROR":                 {Action: "stop", Then: "alert"},
		"code=RATE_LIMITED":                  {Action: "wait", Attempts: 10, Delay: 15 * m, Factor: 1, MaxDelay: 168 * time.Hour, TimeoutFactor: 1, Then: "alert"},
		"code=AGENT_LOST":                    {Action: "retry", Attempts: 2, Delay: 30 * s, Factor: 1, MaxDelay: 10 * m, TimeoutFactor: 1, Then: "dead"},
		"protocol=ralph":                     {Action: "stop", Then: "alert"},
		"code=AGENT_LOST,protocol=handoffs":  {Action: "retry", Attempts: 3, Delay: 60 * s, Factor: 2, MaxDelay: 10 * m, TimeoutFactor: 1, Then: "alert"},
		"code=RECOVERABLE,protocol=handoffs": {Action: "retry", Attempts: 3, Delay: 60 * s, Factor: 2, MaxDelay: 10 * m, TimeoutFactor: 1, Then: "alert"},
		"code=AGENT_LOST,protocol=envelope":  {Action: "retry", Attempts: 3, Delay: 30 * s, Factor: 2, MaxDelay: 10 * m, TimeoutFactor: 1, Then: "alert"},
		"code=AGENT_LOST,protocol=mailbox":   {Action: "retry", Attempts: 3, Delay: 30 * s, Factor: 2, MaxDelay: 10 * m, TimeoutFactor: 1, Then: "alert"},
		"code=REJECTED,protocol=mailbox":     {Action: "retry", Attempts: 3, Delay: 30 * s, Factor: 2, MaxDelay: 10 * m, TimeoutFactor: 1, Then: "alert"},
		"severity=warning":                   {Action: "retry", Attempts: 3, Delay: 10 * s, Factor: 2, MaxDelay: 10 * m, TimeoutFactor: 1, Then: "dead"},
		"severity=error":                     {Action: "retry", Attempts: 2, Delay: 10 * s, Factor: 2, MaxDelay: 10 * m, TimeoutFactor: 2, Then: "dead"},
		"severity=fatal":                     {Action: "stop", Then: "alert"},
	}
	for _, got := range cfg.Rules {
		row, ok := want[got.Name()]
		row.Code, row.Severity, row.Protocol = got.Code, got.Severity, got.Protocol
		if !ok || got != row {
			t.Errorf("%s: %+v, want %+v", got.Name(), got, row)
		}
		delete(want, got.Name())
	}
	for name := range want {
		t.Errorf("no row %s", name)
	}
}

func TestRuleValidateNamesRuleAndKey(t *testing.T) {
	good := Rule{Code: "X", Action: "retry", Attempts: 2, Delay: time.Second, Factor: 2, MaxDelay: time.Minute, TimeoutFactor: 1, Then: "dead"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, ok := range []Rule{{Code: "X", Action: "stop"}, {Code: "X", Action: "retry", Attempts: 1, Then: "alert"}} {
		if err := ok.Validate(); err != nil {
			t.Errorf("%+v: %v", ok, err)
		}
	}
	for _, c := range []struct {
		spoil func(*Rule)
		want  string
	}{
		{func(r *Rule) { r.Code = "" }, "match key"},
		{func(r *Rule) { r.Action = "again" }, "code=X: action"},
		{func(r *Rule) { r.Action = "" }, "code=X: action"},
		{func(r *Rule) { r.Attempts = 0 }, "code=X: attempts"},
		{func(r *Rule) { r.Action, r.Attempts = "defer", 0 }, "code=X: attempts"},
		{func(r *Rule) { r.Action, r.Attempts = "stop", -1 }, "code=X: attempts"},
		{func(r *Rule) { r.Delay = -1 }, "code=X: delay"},
		{func(r *Rule) { r.Factor = 0.5 }, "code=X: factor"},
		{func(r *Rule) { r.Factor = math.NaN() }, "code=X: factor"},
		{func(r *Rule) { r.Factor = math.Inf(1) }, "code=X: factor"},
		{func(r *Rule) { r.MaxDelay = 1 }, "code=X: max_delay"},
		{func(r *Rule) { r.TimeoutFactor = -1 }, "code=X: timeout_factor"},
		{func(r *Rule) { r.Then = "" }, "code=X: then"},
		{func(r *Rule) { r.Then = "shout" }, "code=X: then"},
	} {
		r := good
		c.spoil(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", r, err, c.want)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	row := Rule{Code: "X", Action: "stop"}
	for name, c := range map[string]struct {
		cfg  RetryConfig
		want string
	}{
		"twice":      {RetryConfig{[]Rule{row, row}, 10, time.Hour}, "code=X: is listed twice"},
		"no ceiling": {RetryConfig{[]Rule{row}, 0, time.Hour}, "attempts per task"},
		"no longest": {RetryConfig{[]Rule{row}, 10, 0}, "longest timeout"},
		"bad row":    {RetryConfig{[]Rule{{Code: "Y"}}, 10, time.Hour}, "code=Y: action"},
	} {
		if err := c.cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMergeOrder(t *testing.T) {
	names := func(rules []Rule) string {
		var all []string
		for _, r := range rules {
			all = append(all, r.Name()+"/"+r.Action)
		}
		return strings.Join(all, " ")
	}
	builtin := []Rule{{Code: "A", Action: "b"}, {Code: "B", Action: "b"}, {Severity: "error", Action: "b"}, {Severity: "fatal", Action: "b"}}
	user := []Rule{{Agent: "x", Action: "u"}, {Severity: "error", Action: "u"}, {Code: "b", Action: "u"}, {Severity: "odd", Action: "u"}}
	want := "agent=x/u code=B/u severity=odd/u code=A/b severity=error/u severity=fatal/b"
	if got := names(Merge(user, builtin)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := names(Merge(nil, builtin)); got != names(builtin) {
		t.Errorf("alone: %s", got)
	}
	twice := RetryConfig{Rules: Merge([]Rule{{Severity: "fatal", Action: "stop"}, {Severity: "fatal", Action: "stop"}}, []Rule{{Severity: "fatal", Action: "stop"}}), MaxAttempts: 1, MaxTimeout: 1}
	if twice.Validate() == nil {
		t.Error("a user's row that stands twice is accepted")
	}
}

// TestNameIsUnique checks that two rules share a name exactly if they match the same: counters and ledger use the
// name.
func TestNameIsUnique(t *testing.T) {
	word := rapid.SampledFrom([]string{"", "a", "a,agent=b", "a=b", `"a"`, "A", " a"})
	rapid.Check(t, func(rt *rapid.T) {
		draw := func() Rule {
			return Rule{Agent: word.Draw(rt, "agent"), TaskType: word.Draw(rt, "type"), Protocol: word.Draw(rt, "protocol"), Delay: time.Duration(rapid.Int().Draw(rt, "delay"))}
		}
		a, b := draw(), draw()
		same := a.Agent == b.Agent && a.TaskType == b.TaskType && a.Protocol == b.Protocol
		if (a.Name() == b.Name()) != same {
			rt.Fatalf("%q and %q", a.Name(), b.Name())
		}
	})
}

func TestMatches(t *testing.T) {
	c := Case{Code: "DISK-FULL", Severity: "Severe", Agent: "codex", TaskType: "deploy", Protocol: "agentstatus"}
	for _, r := range []struct {
		rule Rule
		want bool
	}{
		{Rule{Code: "DISK_FULL"}, true}, {Rule{Code: "disk full"}, true}, {Rule{Code: "DISK"}, false},
		{Rule{Agent: "codex"}, true}, {Rule{Agent: "codex-cursor"}, false},
		{Rule{TaskType: "deploy"}, true}, {Rule{TaskType: "execute"}, false},
		{Rule{Protocol: "agentstatus"}, true}, {Rule{Protocol: "ralph"}, false},
		{Rule{Severity: "severe"}, true}, {Rule{Severity: "error"}, true}, {Rule{Severity: "warning"}, false},
		{Rule{Code: "DISK_FULL", Agent: "codex", TaskType: "deploy", Severity: "error", Protocol: "agentstatus"}, true},
		{Rule{Code: "DISK_FULL", Agent: "other"}, false},
	} {
		if got := r.rule.Matches(c); got != r.want {
			t.Errorf("%s: %v", r.rule.Name(), got)
		}
	}
}

func TestFailed(t *testing.T) {
	if f := Failed(nil); f != (protocol.Failure{}) {
		t.Errorf("nil: %+v", f)
	}
	o := &protocol.Outcome{Status: "Failed", Summary: "it broke"}
	if f := Failed(o); f.Code != CodeUnknown || f.Message != "it broke" {
		t.Errorf("no errors: %+v", f)
	}
	o = &protocol.Outcome{Status: "timeout", Failures: []protocol.Failure{{Code: "EXECUTION_FAILED", Severity: "error", Message: "killed", File: "x.sh", Line: 3}}}
	if f := Failed(o); f.Code != CodeTimeout || f.Message != "killed" || f.File != "x.sh" || f.Line != 3 {
		t.Errorf("timeout: %+v", f)
	}
	if o.Failures[0].Code != "EXECUTION_FAILED" {
		t.Error("the outcome was changed")
	}
	o = &protocol.Outcome{Status: "failed", Failures: []protocol.Failure{{Code: strings.Repeat("x\x00", 1000)}}}
	if f := Failed(o); len([]rune(f.Code)) > 64 || strings.Contains(f.Code, "\x00") {
		t.Errorf("code %q", f.Code)
	}
}
