package capacity_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
)

func TestLoadSummary(t *testing.T) {
	for _, c := range []struct {
		name, want string
		load       capacity.Load
	}{
		{"nothing known", `{"used":null,"binding":"","cpu":null,"memory":null,"files":null,"disk":null,"unknown":["cpu","memory","files","disk"]}`,
			capacity.Load{}},
		{"the largest binds", `{"used":0.41,"binding":"memory","cpu":0.3,"memory":0.41,"files":0.02,"disk":0.4,"unknown":[]}`,
			capacity.Load{CPU: protocol.Used(0.3), Memory: protocol.Used(0.41), Files: protocol.Used(0.02), Disk: protocol.Used(0.4)}},
		{"0 is known, and a tie goes to the first", `{"used":0,"binding":"memory","cpu":null,"memory":0,"files":0,"disk":null,"unknown":["cpu","disk"]}`,
			capacity.Load{Memory: protocol.Used(0), Files: protocol.Used(0)}},
	} {
		got, err := json.Marshal(c.load.Summary())
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", c.name, err, got, c.want)
		}
	}
}

func TestFresh(t *testing.T) {
	l := capacity.Load{CPU: protocol.Used(0.5), At: midnight, Consumers: []protocol.Consumer{{PID: 1}}}
	for _, c := range []struct {
		age   time.Duration
		fresh bool
	}{{0, true}, {5 * time.Second, true}, {5*time.Second + 1, false}, {-1, false}, {-time.Hour, false}} {
		got := l.Fresh(midnight.Add(c.age))
		if got.CPU.Known() != c.fresh || !got.At.Equal(midnight) || (len(got.Consumers) == 1) != c.fresh {
			t.Errorf("%v later: %+v", c.age, got)
		}
	}
	if (capacity.Load{CPU: protocol.Used(0.5)}).Fresh(midnight).CPU.Known() {
		t.Error("a reading without a time counts")
	}
}

func TestLoadRoundTrip(t *testing.T) {
	n := int64(12)
	l := capacity.Load{CPU: protocol.Used(0.5), At: midnight, OpenFiles: &n, Consumers: []protocol.Consumer{{PID: 7, Name: "go"}}}
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var back capacity.Load
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(l, back) {
		t.Errorf("%v\n%+v\n%+v", err, l, back)
	}
}

func TestDocument(t *testing.T) {
	files, mb := int64(12), int64(2048)
	l := capacity.Load{
		CPU: protocol.Used(0.2), Memory: protocol.Used(0.65), OpenFiles: &files, MemoryUsedMB: &mb,
		At: time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("", 3600)),
	}
	const want = `{
  "capacity_threshold": 0.8,
  "current_load": {
    "open_files": 12,
    "active_operations": 3,
    "memory_usage_mb": 2048,
    "estimated_capacity": 0.65
  },
  "current_capacity": 0.35,
  "binding": "memory",
  "updated_at": "2026-01-02T02:04:05Z",
  "health": {
    "cpu_ok": true,
    "memory_ok": true,
    "disk_ok": null
  }
}
`
	if got := string(capacity.Document(l, settings(), 3)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	const unknown = `{
  "capacity_threshold": 0.8,
  "current_load": {
    "open_files": null,
    "active_operations": 0,
    "memory_usage_mb": null,
    "estimated_capacity": null
  },
  "current_capacity": null,
  "binding": null,
  "updated_at": null,
  "health": {
    "cpu_ok": null,
    "memory_ok": null,
    "disk_ok": null
  }
}
`
	if got := string(capacity.Document(capacity.Load{}, settings(), 0)); got != unknown {
		t.Errorf("got %s\nwant %s", got, unknown)
	}
}

func TestConfigValidate(t *testing.T) {
	if err := settings().Validate(); err != nil {
		t.Fatal(err)
	}
	for key, spoil := range map[string]func(*capacity.Config){
		"threshold":                       func(c *capacity.Config) { c.Threshold = 1.01 },
		"threshold ":                      func(c *capacity.Config) { c.Threshold = math.NaN() },
		"threshold = 0":                   func(c *capacity.Config) { c.Threshold, c.Hysteresis = 0, 0 },
		"hysteresis":                      func(c *capacity.Config) { c.Hysteresis = 0.8 },
		"hysteresis = ":                   func(c *capacity.Config) { c.Hysteresis = -0.1 },
		"dimensions: there is no \"gpu\"": func(c *capacity.Config) { c.Dimensions = []string{"cpu", "agent", "gpu"} },
		"disk_limit = -":                  func(c *capacity.Config) { c.DiskLimit = -0.1 },
		"disk_limit = 1.":                 func(c *capacity.Config) { c.DiskLimit = 1.1 },
		"claim_cores = -":                 func(c *capacity.Config) { c.ClaimCores = -1 },
		"claim_cores = 1025":              func(c *capacity.Config) { c.ClaimCores = 1025 },
		"claim_memory_mb = -":             func(c *capacity.Config) { c.ClaimMemoryMB = -1 },
		"claim_memory_mb = 1677":          func(c *capacity.Config) { c.ClaimMemoryMB = 1<<24 + 1 },
		"retry_after":                     func(c *capacity.Config) { c.RetryAfter = 0 },
		"calm ":                           func(c *capacity.Config) { c.Calm = -1 },
		"alarm_after":                     func(c *capacity.Config) { c.AlarmAfter = 0 },
	} {
		c := settings()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "[capacity] "+key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	edge := settings()
	edge.Threshold, edge.Hysteresis, edge.DiskLimit, edge.Near, edge.ClaimCores, edge.ClaimMemoryMB = 1, 0, 1, 1, 1024, 1<<24
	edge.Dimensions, edge.Calm, edge.CalmMemory, edge.RetryAfter, edge.SampleEvery = []string{"cpu", "memory", "files", "disk", "agent"}, 0, time.Hour, 2*time.Second, capacity.MaxAge
	if err := edge.Validate(); err != nil {
		t.Errorf("at the edge of what is allowed: %v", err)
	}
	edge.DiskLimit, edge.Near, edge.ClaimCores, edge.ClaimMemoryMB = 0, 0, 0, 0
	if err := edge.Validate(); err != nil {
		t.Errorf("at the other edge: %v", err)
	}
	if err := (capacity.Config{}).Validate(); strings.Count(err.Error(), "\n") < 3 {
		t.Errorf("not every problem is named: %v", err)
	}
}

func TestSampleIn(t *testing.T) {
	cfg := settings()
	for _, c := range []struct {
		load capacity.Load
		idle bool
		want time.Duration
	}{
		{capacity.Load{}, false, cfg.SampleEvery},
		{capacity.Load{CPU: protocol.Used(0.69)}, false, cfg.SampleEvery},
		{capacity.Load{CPU: protocol.Used(0.7)}, false, cfg.SampleNear},
		{capacity.Load{CPU: protocol.Used(0.9)}, true, cfg.SampleIdle},
		{capacity.Load{Disk: protocol.Used(0.9)}, false, cfg.SampleEvery},
	} {
		if got := cfg.SampleIn(c.load, c.idle); got != c.want {
			t.Errorf("%+v idle=%v: %v, want %v", c.load, c.idle, got, c.want)
		}
	}
}

func TestEffective(t *testing.T) {
	const step = 10 * time.Minute
	for _, c := range []struct {
		start  protocol.Priority
		waited time.Duration
		want   protocol.Priority
	}{
		{protocol.PriorityLow, 0, protocol.PriorityLow},
		{protocol.PriorityLow, step - 1, protocol.PriorityLow},
		{protocol.PriorityLow, step, protocol.PriorityMedium},
		{protocol.PriorityLow, 3 * step, protocol.PriorityCritical},
		{protocol.PriorityHigh, 1e6 * step, protocol.PriorityCritical},
		{protocol.PriorityHigh, -step, protocol.PriorityHigh},
		{9, step, protocol.PriorityCritical},
		{-9, 0, protocol.PriorityLow},
	} {
		if got := capacity.Effective(c.start, midnight, midnight.Add(c.waited), step); got != c.want {
			t.Errorf("%v after %v: %v, want %v", c.start, c.waited, got, c.want)
		}
	}
	if got := capacity.Effective(protocol.PriorityLow, time.Time{}, midnight, step); got != protocol.PriorityLow {
		t.Errorf("age unknown: %v", got)
	}
}
