package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

// Every command rejects wrong usage with exit code 2 and one line, before it does anything: an unknown flag, an invalid
// flag value, missing or surplus arguments.
func TestWrongUsageOfEveryCommand(t *testing.T) {
	atHome(t)
	foreign := regexp.MustCompile(`strconv|parsing "|time: |arg\(s\)|received|flag needs|shorthand|flags in the group|%!`) // library messages
	refused := func(args ...string) {
		t.Helper()
		if code, _, errOut := invoke(args...); code != cli.ExitUsage || strings.Count(errOut, "\n") != 1 || foreign.MatchString(errOut) {
			t.Errorf("steward %s: exit %d, want %d: %q", strings.Join(args, " "), code, cli.ExitUsage, errOut)
		}
	}
	flagName := regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)
	seen := 0
	everyCommand(newRootCommand((&cli.App{})), func(c *cobra.Command) {
		seen++
		path := strings.Fields(c.CommandPath())[1:]
		with := func(more ...string) []string { return append(append([]string{}, path...), more...) }
		refused(with("--nonsense")...)
		for _, name := range flagName.FindAllStringSubmatch(c.Flags().FlagUsages(), -1) {
			if kind := c.Flags().Lookup(name[1]).Value.Type(); kind != "string" && kind != "stringArray" {
				refused(with("--" + name[1] + "=many")...)
			}
		}
		if c.Flags().Lookup("project") != nil && c.RunE != nil && !c.HasSubCommands() {
			refused(with("--project=")...)
		}
		switch words := strings.Fields(c.Use); {
		case c.HasSubCommands() || words[0] == "help":
			refused(with("nonsense")...)
		case len(words) > 1 && !strings.HasPrefix(words[1], "["): // it needs an argument
			refused(path...)
		}
		if !strings.Contains(c.Use, "…") && !strings.Contains(c.Use, "...") { // it takes no list
			refused(with("a", "b", "c", "d")...)
		}
	})
	for _, line := range []string{
		"nonsense", "help task nonsense", "-o yaml status", "status --socket",
		"boot ../evil", "boot codex-cursor --project nowhere", "boot x --protocol nonsense", "boot codex-cursor --pid -3", "boot codex-cursor --pid 2000000000",
		"run --once --service", "plan --project nowhere", "plan --project ../config.toml", "-z status", "log -n 99999999999999999999", "log -n", "--config", "log -n -5", "config --check x --defaults", "incidents --all --state open",
		"exec --project nowhere -- true", "exec --agent ../x -- true", "exec --restart often -- true", "exec --throttle 3 -- true",
		"lock run x", "lock run x true", "lock run x --project nowhere -- true", "lock run x --wait=-3s -- true", "lock run x --wait 3s --no-wait -- true", "lock list --project nowhere",
		"task submit nonsense", "task submit execute --throttle nan -- true", "task submit execute --query x -- true", "task submit research x --approved", "task submit research x --project nowhere",
		"task fail x", "task fail x --code  --message y", "task fail x --code X --message y --line -4", "task next --pid -1", "task next --pid 2000000000", "task next --agent ../x", "task next --wait=soon", "task next --project nowhere",
		"task wait x --timeout 0s", "task progress x much", "task progress x 400", "task progress x 40 --steps 3",
		"worker", "worker --agent ../x", "worker --agent x --jobs 0", "worker --agent x --once --drain", "worker --agent x --project nowhere",
		"snooze x soon", "snooze x 99999h", "service install --user x", "service unit --user x", "service add nowhere/at/all --user x",
	} {
		refused(strings.Fields(line)...)
	}
	for _, args := range [][]string{{"config", "--check", ""}, {"a\nb"}, {"agnets"}, {"boot", "a\nb"}, {"boot", "", "--protocol", "agentstatus"},
		{"run", "--project", "p", "--project", ""}, {"boot", "codex-cursor", "--protocol", "x\ny"}, {"status", "-o", "x\ny"}} {
		refused(args...)
	}
	if seen < 50 {
		t.Errorf("only %d commands were tried", seen)
	}
}

// An error quotes the typed text truncated and without control sequences, and still ends with the hint.
func TestErrorsAreBounded(t *testing.T) {
	atHome(t)
	for _, name := range []string{strings.Repeat("x", 100_000), strings.Repeat("x y ", 25_000), "\x1b[2Jx\u202ey"} {
		for _, args := range [][]string{{name}, {"lock", name}, {"boot", name}, {"help", name}, {"task", "submit", name}, {"task", "show", name}, {"exec", "--", name}, {"plan", "--project", name}} {
			code, _, errOut := invoke(args...)
			if code == 0 || strings.Count(errOut, "\n") != 1 || len(errOut) > 2*terminal.MaxLine || strings.ContainsAny(errOut, "\x1b\u202e") {
				t.Errorf("steward %s %.10q: exit %d, %d bytes: %.200q", args[0], name, code, len(errOut), errOut)
			}
		}
	}
}

// everyCommand calls do for each runnable command and its subcommands.
func everyCommand(c *cobra.Command, do func(*cobra.Command)) {
	if c.Runnable() && c.HasParent() {
		do(c)
	}
	for _, sub := range c.Commands() {
		everyCommand(sub, do)
	}
}
