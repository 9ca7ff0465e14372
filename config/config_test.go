package config

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/supervisor/decide"
)

// The figures of the policies. A change of any figure changes measured behaviour.
func TestDefaults(t *testing.T) {
	const s, m = time.Second, time.Minute
	c := Defaults()
	got, want := c.Policies(), decide.Config{
		LookEvery:  5 * s,
		FaultAfter: m, Results: "blocking", Progress: "25%",
		Heartbeat: heartbeat.Config{Late: 45 * s, Dead: 90 * s, StartGrace: 60 * s, ResumeGrace: 30 * s, Hung: 10 * m, HungAction: heartbeat.HungAlert,
			Protocols: map[string]heartbeat.Limits{"handoffs": {Dead: 30 * m}}},
		Locks: heartbeat.LockConfig{TTL: 30 * m, Watch: 30 * s},
		Tasks: decide.TaskConfig{Timeout: 300 * s, MaxTimeout: 3600 * s, Settle: 6 * s, Judge: 2 * s, Presume: 10 * s,
			Lease: 60 * s, LogAfter: 2 * s, RetriesPerHour: 60, History: time.Hour},
		Retry: rules.RetryConfig{Rules: c.Retry, MaxAttempts: 10, MaxTimeout: 3600 * s},
	}
	want.Capacity.Threshold, want.Capacity.DiskLimit, want.Capacity.RetryAfter, want.Capacity.Hysteresis = 0.8, 0.95, 60*s, 0.05
	want.Capacity.DiskFree = 5 << 30
	want.Capacity.Calm, want.Capacity.CalmMemory = 3*s, 10*s
	want.Capacity.ClaimCores, want.Capacity.ClaimMemoryMB, want.Capacity.ClaimDecays, want.Capacity.ClaimLapses = 1, 1024, 10*s, 30*s
	want.Capacity.StarveAfter = 30 * m
	want.Capacity.PromoteAfter, want.Capacity.AlarmAfter, want.Capacity.Near = 10*m, 10*m, 0.1
	want.Capacity.SampleEvery, want.Capacity.SampleNear, want.Capacity.SampleIdle = s, 250*time.Millisecond, 4*s
	want.Capacity.Dimensions = []string{"cpu", "memory", "files", "disk", "agent"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !slices.Equal(c.Escalate.Channels, []string{"desktop", "speech"}) || c.Escalate.AckBlocking != 30*m || c.Escalate.Ack != 4*time.Hour {
		t.Errorf("escalate: %+v", c.Escalate)
	}
	if c.Projects != nil || c.Status != (Status{}) || c.Supervisor.StateDir != "" {
		t.Errorf("projects, status and state folder are the machine's: %+v %+v %+v", c.Projects, c.Status, c.Supervisor)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// The retry table. The figures of each row's first three delays are tested in escalate.
func TestDefaultRules(t *testing.T) {
	const s, m = time.Second, time.Minute
	row := func(action string, attempts int, delay time.Duration, factor float64, most time.Duration, timeout float64, then string) rules.Rule {
		return rules.Rule{Action: action, Attempts: attempts, Delay: delay, Factor: factor, MaxDelay: most, TimeoutFactor: timeout, Then: then}
	}
	stop := rules.Rule{Action: "stop", Then: "alert"}
	want := []struct {
		name string
		rule rules.Rule
	}{
		{"protocol=ralph", stop},
		{"code=AGENT_LOST,protocol=handoffs", row("retry", 3, 60*s, 2, 10*m, 1, "alert")},
		{"code=RECOVERABLE,protocol=handoffs", row("retry", 3, 60*s, 2, 10*m, 1, "alert")},
		{"code=AGENT_LOST,protocol=envelope", row("retry", 3, 30*s, 2, 10*m, 1, "alert")},
		{"code=AGENT_LOST,protocol=mailbox", row("retry", 3, 30*s, 2, 10*m, 1, "alert")},
		{"code=REJECTED,protocol=mailbox", row("retry", 3, 30*s, 2, 10*m, 1, "alert")},
		{"code=CAPACITY_EXCEEDED", row("defer", 3, 60*s, 2, 10*m, 1, "alert")},
		{"code=FILE_NOT_FOUND", row("retry", 2, 30*s, 1, 10*m, 2, "dead")},
		{"code=TIMEOUT", row("retry", 2, 10*s, 1, 10*m, 2, "dead")},
		{"code=PERMISSION_DENIED", stop},
		{"code=EXECUTION_FAILED", stop},
		{"code=VALIDATION_FAILED", stop},
		{"code=GIT_CONFLICT", stop},
		{"code=UNKNOWN_ERROR", stop},
		{"code=RATE_LIMITED", row("wait", 10, 15*m, 1, 168*time.Hour, 1, "alert")},
		{"code=AGENT_LOST", row("retry", 2, 30*s, 1, 10*m, 1, "dead")},
		{"severity=warning", row("retry", 3, 10*s, 2, 10*m, 1, "dead")},
		{"severity=error", row("retry", 2, 10*s, 2, 10*m, 2, "dead")},
		{"severity=fatal", stop},
	}
	got := Defaults().Retry
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Name() != w.name {
			t.Errorf("row %d is %s, want %s", i, g.Name(), w.name)
		}
		g.Code, g.Severity, g.Protocol = "", "", ""
		if g != w.rule {
			t.Errorf("%s: %+v, want %+v", w.name, g, w.rule)
		}
	}
}

// The rules that escalate is tested with are the shipped ones, comments included.
func TestRulesAreThoseOfEscalate(t *testing.T) {
	fragment, err := os.ReadFile("../escalate/rules/testdata/rules.toml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(DefaultsText(), "\n"+string(fragment)) {
		t.Error("config.toml does not hold escalate/rules/testdata/rules.toml word for word")
	}
}

// example matches an example in a comment of the file: a table, or a key of a table.
var example = regexp.MustCompile(`(?m)^# (\[.*|[a-z_]+ = .*)$`)

// Every key in the file is a known setting (otherwise Parse rejects it), and every setting is in the file: as a
// default, or as an example where there can be no default.
func TestEveryKeyStandsInTheFile(t *testing.T) {
	text := example.ReplaceAllString(DefaultsText(), "$1")
	if n := strings.Count(text, "[[project]]"); n != 1 || strings.Contains(text, "# [[project]]") {
		t.Fatal("the examples are no longer found")
	}
	if _, err := Parse("examples", []byte(text)); err != nil {
		t.Fatal(err)
	}
	lines, _ := lineIndex(text)
	places := slices.Collect(maps.Keys(lines))
	for _, key := range leaves(t, reflect.TypeFor[Config](), "") {
		if key == `heartbeat\.protocols\.\w+\.sources` {
			continue // the type has the field, but Validate rejects it
		}
		pattern := regexp.MustCompile("^" + key + "$")
		if !slices.ContainsFunc(places, func(p keyPath) bool { return pattern.MatchString(string(p)) }) {
			t.Errorf("config.toml holds nothing for %s", key)
		}
	}
}

// leaves lists the keys of all settings as patterns: any row of a list, any name of a map.
func leaves(t *testing.T, typ reflect.Type, at string) []string {
	switch typ.Kind() {
	case reflect.Struct:
		var all []string
		for _, f := range reflect.VisibleFields(typ) {
			key := f.Tag.Get("toml")
			if key == "" && !f.Anonymous {
				t.Errorf("%s.%s has no toml key", typ, f.Name)
			}
			if key != "" && key != "-" {
				all = append(all, leaves(t, f.Type, strings.TrimPrefix(at+`\.`+key, `\.`))...)
			}
		}
		return all
	case reflect.Map:
		return leaves(t, typ.Elem(), at+`\.\w+`)
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Struct {
			return leaves(t, typ.Elem(), at+`\[\d+\]`)
		}
	}
	return []string{at}
}

// The comments in the file must match the code where the file cannot hold a default.
func TestTheFileTellsTheModes(t *testing.T) {
	for name, mode := range spoken() {
		if !strings.Contains(DefaultsText(), name+" "+mode+"s") {
			t.Errorf("config.toml does not say that %s is %s unless told otherwise", name, mode)
		}
	}
}

func TestTOMLComesBackAsItWas(t *testing.T) {
	for name, text := range map[string]string{
		"the defaults": "",
		"zeros":        "capacity = { calm = \"0s\", hysteresis = 0.0 }\n[escalate]\nchannels = []\n",
		"projects": "[[project]]\npath = \"~/a\"\nprotocols = []\n[project.mode]\nagentstatus = \"observe\"\n" +
			"[[project]]\npath = 'c:\\\"x'\nname = \"two\"\n",
		"agents": "[heartbeat.agents.\"a b.c\"]\ndead = \"5m\"\nsources = [\"x\"]\n[heartbeat.protocols.agentstatus]\nlate = \"30s\"\n",
		"rows": "[[retry]]\nseverity = \"warning\"\naction = \"stop\"\n[[retry]]\ncode = \"X\"\nagent = \"a\"\naction = \"retry\"\nattempts = 7\nthen = \"dead\"\n" +
			"[[retry]]\nseverity = \"odd\"\naction = \"stop\"\n",
	} {
		c, err := Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.TOML()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(name, out)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		if !reflect.DeepEqual(back, c) {
			t.Errorf("%s: got %+v\nwant %+v\nfrom\n%s", name, back, c, out)
		}
	}
}

func TestTOMLLeavesOutWhatARowDoesNotSay(t *testing.T) {
	out, err := Defaults().TOML()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "[[retry]]\ncode = \"GIT_CONFLICT\"\naction = \"stop\"\nthen = \"alert\"\n") {
		t.Errorf("the row is cluttered or gone:\n%s", out)
	}
	if !strings.Contains(string(out), "socket = \"\"\n") {
		t.Errorf("a table lost its empty value:\n%s", out)
	}
}

func TestValidateWithoutAFile(t *testing.T) {
	c := Defaults()
	c.Supervisor.LookEvery, c.Tasks.MaxAttempts, c.Heartbeat.Dead = time.Hour, 0, time.Second
	c.Retry = append(c.Retry, rules.Rule{Code: "X", Action: "jump"})
	want := `supervisor.look_every: 1h0m0s must be from 100ms to 1m0s
heartbeat.late: 45s must be below heartbeat.dead, 1s
tasks.lease: 1m0s must be at least four times supervisor.look_every, 4h0m0s
tasks.max_attempts: 0 must be at least 1
retry rule code=X: action: "jump" is not retry, defer, wait or stop`
	if err := c.Validate(); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func BenchmarkDefaults(b *testing.B) {
	for b.Loop() {
		Defaults()
	}
}

// TestLaddersAreTheShippedOnes checks the ladders against docs/incidents.md and the tests of package escalate.
func TestLaddersAreTheShippedOnes(t *testing.T) {
	at := func(d ...time.Duration) []time.Duration { return append([]time.Duration{}, d...) }
	push := at(3 * time.Minute)
	late := at(10 * time.Minute)
	want := map[string]escalate.Ladder{
		"critical": {Desktop: at(0), Speech: at(0, time.Minute), Ntfy: push, Command: push, Every: 15 * time.Minute, Times: 8, Then: time.Hour},
		"high":     {Desktop: at(0), Speech: at(2 * time.Minute), Ntfy: late, Command: late, Every: 4 * time.Hour},
		"medium":   {Desktop: at(0, 30*time.Minute)},
	}
	if got := Defaults().Escalate.Ladder; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
