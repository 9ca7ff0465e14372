package escalate

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestKey(t *testing.T) {
	a := rules.Key("p", "agentstatus", "7", "codex", "task_failed", "X")
	want(t, "length", len(a), 16)
	want(t, "the same again", rules.Key("p", "agentstatus", "7", "codex", "task_failed", "X"), a)
	seen := map[string]bool{a: true}
	for _, k := range []string{
		rules.Key("", "", "", "", "", ""), rules.Key("p", "agentstatus", "7", "codex", "task_failed", "Y"), rules.Key("p", "agentstatus", "7", "codex", "task_faile", "dX"),
		rules.Key("pa", "gentstatus", "7", "codex", "task_failed", "X"), rules.Key("p", "agentstatus", "", "7codex", "task_failed", "X"),
	} {
		if seen[k] {
			t.Errorf("%s twice", k)
		}
		seen[k] = true
	}
}

// TestTransitions checks the effect of raising an alert in each state. Steps: raise OCCURRENCE SEVERITY, ack, files,
// operator.
func TestTransitions(t *testing.T) {
	for _, c := range []struct {
		name    string
		lasting bool
		steps   string
		out     string // outcomes of the raises
		state   rules.State
		count   int
		told    int // notices requested
	}{
		{"first", true, "1 high", "new", rules.Raised, 1, 1},
		{"low is not told", true, "1 low", "new", rules.Raised, 1, 0},
		{"the same again", true, "1 high, 1 high", "new same", rules.Raised, 1, 1},
		{"another time", true, "1 high, 2 high", "new repeat", rules.Raised, 2, 1},
		{"less severe another time", true, "1 high, 2 low", "new repeat", rules.Raised, 2, 1},
		{"more severe", true, "1 high, 1 critical", "new risen", rules.Raised, 1, 2},
		{"more severe another time", true, "1 high, 2 critical", "new risen", rules.Raised, 2, 2},
		{"from low to medium", true, "1 low, 2 medium", "new risen", rules.Raised, 2, 1},
		{"acked, the same again", true, "1 high, ack, 1 high", "new same", rules.Acked, 1, 1},
		{"acked, another time", true, "1 high, ack, 2 high", "new repeat", rules.Acked, 2, 1},
		{"acked, more severe", true, "1 high, ack, 1 critical", "new risen", rules.Raised, 1, 2},
		{"an event that is over stays over", true, "1 high, files, 1 high", "new same", rules.Resolved, 1, 1},
		{"settled by the operator", true, "1 high, operator, 1 high", "new same", rules.Resolved, 1, 1},
		{"an event that is over happens anew", true, "1 high, files, 2 medium", "new reopened", rules.Raised, 2, 2},
		{"a condition comes back", false, "1 high, files, 1 high", "new reopened", rules.Raised, 2, 2},
		{"a condition that the operator settled", false, "1 high, operator, 1 high", "new same", rules.Resolved, 1, 1},
		{"a condition without a name", false, "- high, operator, - high", "new reopened", rules.Raised, 2, 2},
		{"acked and resolved", false, "1 high, ack, files", "new", rules.Resolved, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var i Incident
			var outs []string
			told, notice := 0, 0
			for _, step := range strings.Split(c.steps, ", ") {
				switch step {
				case "ack":
					i, _ = acknowledge(i, noon.Add(time.Hour))
				case "files", "operator":
					i, _ = resolve(i, rules.By(step), "why", noon)
				default:
					occurrence, severity, _ := strings.Cut(step, " ")
					a := rules.Alert{Kind: "k", Severity: protocol.Severity(severity), Lasting: c.lasting, Occurrence: strings.Trim(occurrence, "-")}.Tidy()
					has := i.Rev > 0 && i.head().Has(a)
					var out rules.Outcome
					i, out = raise(i, a, noon)
					outs = append(outs, string(out))
					want(t, "Has agrees with raise", has, out == rules.OutcomeSame)
				}
				if i.Notice != notice {
					notice = i.Notice
					told++
				}
			}
			want(t, "outcomes", strings.Join(outs, " "), c.out)
			want(t, "state", i.State, c.state)
			want(t, "count", i.Count, c.count)
			want(t, "notices", told, c.told)
			if err := i.check(i.Key); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLapse(t *testing.T) {
	i, _ := raise(Incident{}, rules.Alert{Severity: protocol.High}.Tidy(), noon)
	i, _ = acknowledge(i, noon.Add(time.Hour))
	want(t, "owed while acknowledged", i.job(), jobNone)
	if _, ok := reopenLapsed(i, noon.Add(time.Hour-1)); ok {
		t.Error("it lapsed too early")
	}
	i, ok := reopenLapsed(i, noon.Add(time.Hour))
	want(t, "lapsed", ok, true)
	want(t, "state", i.State, rules.Raised)
	want(t, "owed", i.job(), jobTell)
}

func TestPeace(t *testing.T) {
	c := Config{AckBlocking: 1, Ack: 2}
	want(t, "blocking", c.ackTime(Incident{Content: Content{Blocking: true}}), 1)
	want(t, "other", c.ackTime(Incident{}), 2)
}

func TestSubjectComesBack(t *testing.T) {
	for _, s := range []protocol.Subject{
		{Project: "p", Protocol: "agentstatus", Kind: protocol.KindTask, ID: "a/b:c"},
		{Project: "p:q/r", Kind: protocol.KindAgent, ID: ""},
		{Kind: protocol.KindMachine, ID: "host"},
		{Kind: protocol.KindMachine, ID: "p:task/7"},
	} {
		i, _ := raise(Incident{}, rules.Alert{Subject: s}.Tidy(), noon)
		want(t, "subject", i.Subject(), s)
	}
}

func TestTidy(t *testing.T) {
	long := strings.Repeat("ä", 200)
	a := rules.Alert{Severity: "catastrophic", Summary: long, Detail: "\xff", Occurrence: long, Options: make([]rules.Option, 99)}.Tidy()
	want(t, "severity", a.Severity, protocol.Medium)
	want(t, "summary", len([]rune(a.Summary)), 80)
	want(t, "detail", a.Detail, "\uFFFD")
	want(t, "options", len(a.Options), rules.MaxOptions)
	b := rules.Alert{Occurrence: long + "x"}.Tidy()
	want(t, "long occurrences differ", a.Occurrence != b.Occurrence, true)
	want(t, "and are recognised", rules.Alert{Occurrence: long}.Happening(), a.Occurrence)
	want(t, "once stored, too", a.Happening(), a.Occurrence)
}

// TestIncidentDocument checks for the keys that the status document specifies.
func TestIncidentDocument(t *testing.T) {
	i, _ := raise(Incident{}, rules.Alert{Subject: protocol.Subject{Project: "p", Kind: protocol.KindTask, ID: "7"}, Severity: protocol.High}.Tidy(), noon)
	i = deliver(i, Delivery{Channel: ChannelDesktop, Result: "shown", At: noon, OK: true, Rev: 1}, true)
	b, err := encode(i)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields("key rev severity state blocking summary detail project about agent options count first last deliveries") {
		if v, ok := doc[key]; !ok || v == nil {
			t.Errorf("%s is missing in %s", key, b)
		}
	}
	want(t, "state", doc["state"], any("open"))
	want(t, "about", doc["about"], any("p:task/7"))
	want(t, "first", doc["first"], any("2026-03-01T12:00:00Z"))
	d := doc["deliveries"].([]any)[0].(map[string]any)
	want(t, "delivery", d["channel"].(string)+d["result"].(string)+d["at"].(string), "desktopshown2026-03-01T12:00:00Z")
}

func TestDeliveriesStayFew(t *testing.T) {
	i, _ := raise(Incident{}, rules.Alert{Severity: protocol.High}.Tidy(), noon)
	for n := range 1000 {
		i = deliver(i, Delivery{Channel: ChannelSpeech, Result: ResultFailed, At: noon.Add(time.Duration(n)), Rev: 1}, false)
	}
	want(t, "the same failure", len(i.Deliveries), 1)
	want(t, "at its last time", i.Deliveries[0].At, noon.Add(999))
	for n := range 1000 {
		i = deliver(i, Delivery{Channel: ChannelDesktop, Result: "shown", At: noon, OK: true, Rev: n}, false)
	}
	want(t, "successes", len(i.Deliveries), maxDeliveries)
}

func TestDeliveryConfig(t *testing.T) {
	good := Config{Channels: []string{ChannelSpeech, ChannelDesktop}, AckBlocking: 1, Ack: 1, Keep: 1, FaultAfter: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for problem, f := range map[string]func(*Config){
		"channels: there is no channel \"pager\"":   func(c *Config) { c.Channels = []string{"pager"} },
		"channels: \"desktop\" is listed twice":     func(c *Config) { c.Channels = []string{"desktop", "desktop"} },
		"channels: \"ntfy\" needs":                  func(c *Config) { c.Channels = []string{"ntfy"} },
		"channels: \"command\" needs":               func(c *Config) { c.Channels = []string{"command"} },
		"command: names no program":                 func(c *Config) { c.Command = []string{""} },
		"quiet_hours: \"22-7\" is not a time range": func(c *Config) { c.QuietHours = "22-7" },
		"quiet_hours: \"22:00-22:00\" begins":       func(c *Config) { c.QuietHours = "22:00-22:00" },
		"digest: \"9\" is not a time of day":        func(c *Config) { c.Digest = "9" },
		"dangerous: a word has letters":             func(c *Config) { c.Dangerous = []string{" "} },
		"ladder.low: there is no such ladder":       func(c *Config) { c.Ladder = map[string]Ladder{"low": {}} },
		"ladder.high.speech: -1s must be":           func(c *Config) { c.Ladder = map[string]Ladder{"high": {Speech: []time.Duration{-time.Second}}} },
		"ladder.high.every: 1s must be from 10s":    func(c *Config) { c.Ladder = map[string]Ladder{"high": {Every: time.Second}} },
		"ladder.high.then: needs every":             func(c *Config) { c.Ladder = map[string]Ladder{"high": {Then: time.Hour}} },
		"ack_blocking: 0s":                          func(c *Config) { c.AckBlocking = 0 },
		"ack: -1s":                                  func(c *Config) { c.Ack = -time.Second },
		"keep: 0s":                                  func(c *Config) { c.Keep = 0 },
	} {
		c := good
		f(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), problem) {
			t.Errorf("got %v, want %s", err, problem)
		}
	}
}
