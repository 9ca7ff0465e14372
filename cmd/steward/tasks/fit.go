package tasks

import (
	"maps"
	"slices"
	"strings"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/join/task"
	"github.com/spf13/cobra"
)

// fit says which protocols a verb's flags fit, by the last digit of each protocol's number. A key "VERB FLAG" overrides the
// key "FLAG" for that verb. Flags that are not listed fit every protocol.
type fit map[string]string

// only makes a fit of the flags that belong to protocol 000 alone, and of others.
func only(agentstatus string, others fit) fit {
	for _, name := range strings.Fields(agentstatus) {
		others[name] = "0"
	}
	return others
}

// The flags of the verbs that do not fit every protocol.
var (
	submitFits   = submitFit()
	acceptFits   = fit{"estimate": "4", "question": "34", "set": "4"}
	progressFits = fit{"agent": "1234", "steps": "0"}
	endFits      = only("metric next-for-human result file line",
		fit{"artifact": "0134", "modified": "0134", "next": "0134", "document": "0134", "spec": "1", "severity": "01", "issue": "1234", "set": "1234", "agent": "1234", "done to": "1", "fail to": "4"})
	reportFits = fit{"next": "4", "issue": "134", "set": "134", "document": "14", "agent": "1234", "to": "4",
		"approve summary": "14", "approve set": "1", "approve document": "1", "approve to": "1",
		"return reason": "13", "return set": "", "return document": "", "return to": ""}
)

func submitFit() fit {
	f := only("timeout throttle blocking progress directive session voice related modify param payload request dry-run next-of approved",
		fit{"document": "0134", "title": "1234", "text": "1234", "set": "1234", "type": "134", "spec": "1", "requirement": "4", "criterion": "4", "read": "04", "artifact": "03"})
	for _, own := range task.OwnFlags {
		f[own.Name] = "0"
	}
	return f
}

// check refuses a flag that the protocol's messages have no place for, and names the special ones that fit.
func (f fit) check(c *cobra.Command, name, doing string) error {
	digit := string(rune('0' + slices.Index(daemon.Names(), name))) // the adapters are in the order of their numbers
	var fitting, unfit []string
	for _, key := range slices.Sorted(maps.Keys(f)) {
		flag := strings.TrimPrefix(key, c.Name()+" ")
		_, overridden := f[c.Name()+" "+key]
		switch known := c.Flags().Lookup(flag); {
		case known == nil || overridden:
		case strings.Contains(f[key], digit):
			fitting = append(fitting, "--"+flag)
		case known.Changed:
			unfit = append(unfit, "--"+flag)
		}
	}
	if len(unfit) == 0 {
		return nil
	}
	verb := "does"
	if len(unfit) > 1 {
		verb = "do"
	}
	text := "see " + c.CommandPath() + " --help"
	if len(fitting) > 0 {
		text = "the special flags that fit are " + strings.Join(fitting, ", ")
	}
	return cli.Usagef("%s: %s %s not fit protocol %s; %s", doing, strings.Join(unfit, ", "), verb, name, text)
}
