package main

import "testing"

// TestWhoIsAPerson: a terminal alone is none, for agents give their commands one, too.
func TestWhoIsAPerson(t *testing.T) {
	for _, c := range []struct {
		terminal bool
		variable string
		value    string
		want     bool
	}{
		{true, "", "", true}, {false, "", "", false}, {true, "STEWARD_AGENT", "codex", false}, {true, "CLAUDECODE", "1", false},
		{true, "CLAUDECODE", "", true}, {true, "TERM", "xterm", true},
	} {
		lookup := func(name string) (string, bool) { return c.value, name == c.variable }
		if got := isPerson(c.terminal, lookup); got != c.want {
			t.Errorf("terminal %v, %s=%q: %v", c.terminal, c.variable, c.value, got)
		}
	}
}
