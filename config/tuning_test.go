package config

import (
	"strings"
	"testing"
	"time"
)

// mostSettings is the limit for the keys of config.toml. A key of the [[retry]] rows counts once, one of the ladders once
// for each ladder; what shows how to override a key for one agent or protocol does not count.
const mostSettings = 122

func TestSettingsAreFew(t *testing.T) {
	lines, _ := lineIndex(example.ReplaceAllString(DefaultsText(), "$1"))
	keys := map[string]bool{}
	for place := range lines {
		if s := place.String(); !strings.HasPrefix(s, "heartbeat.protocols.") && !strings.HasPrefix(s, "heartbeat.agents.") {
			keys[s] = true
		}
	}
	for key := range keys { // a table is no key
		for i := strings.LastIndexByte(key, '.'); i > 0; i = strings.LastIndexByte(key[:i], '.') {
			delete(keys, key[:i])
		}
	}
	for _, table := range []string{"heartbeat.protocols", "heartbeat.agents"} {
		delete(keys, table)
	}
	t.Logf("%d settings", len(keys))
	if len(keys) > mostSettings {
		t.Errorf("config.toml has %d settings; at most %d", len(keys), mostSettings)
	}
}

// A file of a former version is accepted; each line without effect is noted.
func TestKeysThatAreGone(t *testing.T) {
	c, err := Parse("old.toml", []byte("[capacity]\nnear = inf\nthreshold = 0.7\n[tasks]\nlog_after = 7\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Problem{{"old.toml", 2, "capacity.near is no longer a setting and has no effect; remove the line"},
		{"old.toml", 5, "tasks.log_after is no longer a setting and has no effect; remove the line"}}
	if len(c.Gone) != 2 || c.Gone[0] != want[0] || c.Gone[1] != want[1] {
		t.Errorf("got %v\nwant %v", c.Gone, want)
	}
	if c.Capacity.Near != 0.1 || c.Tasks.LogAfter != 2*time.Second || c.Capacity.Threshold != 0.7 {
		t.Errorf("a key that is gone has an effect: %+v", c.Capacity)
	}
	for _, key := range gone {
		if _, found := lineOf(t, key); found {
			t.Errorf("config.toml still has %s", key)
		}
	}
}

func lineOf(t *testing.T, key keyPath) (int, bool) {
	t.Helper()
	lines, _ := lineIndex(DefaultsText())
	n, ok := lines[key]
	return n, ok
}
