package protocol

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestQuery(t *testing.T) {
	task := Subject{Project: "shop", Protocol: "agentstatus", Kind: KindTask, ID: "t1"}
	agent := Subject{Project: "shop", Protocol: "agentstatus", Kind: KindAgent, ID: "a/b"}
	for _, c := range []struct {
		text  string
		means Subject
		yes   bool
	}{
		{"t1", task, true},
		{"task/t1", task, true},
		{"shop:task/t1", task, true},
		{task.String(), task, true},
		{"agent/t1", task, false},
		{"other:task/t1", task, false},
		{"t", task, false},
		{"a/b", agent, true}, // an unknown kind is part of the id
		{"agent/a/b", agent, true},
		{"", task, false},
	} {
		if got := ParseQuery(c.text).Matches(c.means); got != c.yes {
			t.Errorf("%q means %s: %v, want %v", c.text, c.means, got, c.yes)
		}
	}
}

func TestSubjectAsKey(t *testing.T) {
	want := map[Subject]int{{"p:1/2", "agentstatus", KindTask, "a/b:c"}: 1, {"", "", KindMachine, "cpu"}: 2}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got map[Subject]int
	if err := json.Unmarshal(data, &got); err != nil || len(got) != 2 {
		t.Fatalf("%s: %v, %v", data, got, err)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%v is %d after the round trip, want %d", k, got[k], v)
		}
	}
	if err := new(Subject).UnmarshalText([]byte("too\x1ffew")); err == nil {
		t.Error("half a subject was read")
	}
}

// TestShareUnknownIsNeverZero tests that an unknown Share never counts as 0.
func TestShareUnknownIsNeverZero(t *testing.T) {
	for _, c := range []struct {
		share Share
		json  string
		text  string
	}{
		{Share{}, "null", "unknown"}, {Used(math.NaN()), "null", "unknown"}, {Used(math.Inf(1)), "null", "unknown"},
		{Used(0), "0", "0 %"}, {Used(-3), "0", "0 %"}, {Used(7), "1", "100 %"}, {Used(0.41234), "0.4123", "41 %"},
	} {
		data, err := json.Marshal(c.share)
		if err != nil || string(data) != c.json || c.share.String() != c.text {
			t.Errorf("%v: %s %q %v, want %s %q", c.share, data, c.share.String(), err, c.json, c.text)
		}
		var back Share
		if err := json.Unmarshal(data, &back); err != nil || back.Known() != c.share.Known() {
			t.Errorf("%s came back as %v: %v", data, back, err)
		}
	}
	if new(Share).UnmarshalJSON([]byte(`"full"`)) == nil {
		t.Error("a word was read as a share")
	}
	if v := (Share{}).Or(0.8); v != 0.8 {
		t.Errorf("unknown or 0.8 is %v", v)
	}
}

func TestPriorityWords(t *testing.T) {
	for _, p := range []Priority{PriorityLow, PriorityMedium, PriorityHigh, PriorityCritical} {
		if got, ok := ParsePriority(p.String()); !ok || got != p {
			t.Errorf("%s came back as %s", p, got)
		}
	}
	if p, ok := ParsePriority("urgent"); ok || p != PriorityMedium {
		t.Errorf("urgent is %s, known %v; want medium, unknown", p, ok)
	}
	if Critical.Rank() <= High.Rank() || Severity("odd").Rank() != Info.Rank() {
		t.Error("severities are out of order")
	}
}

// TestAttemptsCount tests which entries count as attempts: committed retries, but neither deferrals nor schedules.
func TestAttemptsCount(t *testing.T) {
	task := Task{Record: Record{Attempts: []Attempt{
		{Action: ActionRetry, Committed: true}, {Action: ActionDefer, Committed: true}, {Action: ActionRetry},
	}}}
	if n := task.Attempt(); n != 2 {
		t.Errorf("attempt %d, want 2", n)
	}
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	if got := (Beat{Touched: early, At: late}).Last(); !got.Equal(late) {
		t.Errorf("last is %v", got)
	}
	if !TaskWaiting.Open() || TaskDead.Open() {
		t.Error("open and ended states are mixed up")
	}
}
