package main

import (
	"strings"
	"testing"

	"github.com/livhana/steward/cmd/steward/cli"
)

// Without a terminal there is nothing to draw on.
func TestWatchNeedsATerminal(t *testing.T) {
	atHome(t)
	for _, args := range [][]string{{"status", "--watch"}, {"status", "--watch", "-o", "json"}} {
		if code, _, errOut := invoke(args...); code != cli.ExitUsage || !strings.Contains(errOut, "steward status -o json") {
			t.Errorf("%q: exit %d, %s", args, code, errOut)
		}
	}
}
