package tasks

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
)

// Each flag of a verb is listed with the protocols it fits, or is one of those that fit all.
func TestFitsListEveryFlag(t *testing.T) {
	all := strings.Fields("project protocol to from id priority after wait summary message code agent pid why reason option timeout")
	flagName := regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)
	fits := map[string]fit{"submit": submitFits, "next": acceptFits, "accept": acceptFits, "progress": progressFits, "done": endFits, "fail": endFits,
		"reject": reportFits, "approve": reportFits, "block": reportFits, "return": reportFits}
	seen := map[string]bool{}
	for _, c := range NewCommand(&cli.App{}).Commands() {
		for _, m := range flagName.FindAllStringSubmatch(c.Flags().FlagUsages(), -1) {
			seen[m[1]] = true
			_, listed := fits[c.Name()][m[1]]
			if _, own := fits[c.Name()][c.Name()+" "+m[1]]; own {
				listed = true
			}
			if !listed && !slices.Contains(all, m[1]) {
				t.Errorf("task %s --%s: no table says which protocols it fits", c.Name(), m[1])
			}
		}
	}
	for _, f := range fits {
		for name := range maps.Keys(f) {
			if words := strings.Fields(name); !seen[words[len(words)-1]] {
				t.Errorf("--%s is listed, and no verb has it", name)
			}
		}
	}
	if want := []string{"agentstatus", "handoffs", "ralph", "mailbox", "envelope"}; !slices.Equal(daemon.Names(), want) {
		t.Errorf("the digits of the tables follow %v, not %v", want, daemon.Names())
	}
}
