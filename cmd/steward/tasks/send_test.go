package tasks

import (
	"slices"
	"testing"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/spf13/cobra"
)

// The text's own requirements and criteria stay beside those of the flags.
func TestTextStaysBesideFlags(t *testing.T) {
	i := &instructions{requirements: []string{"r"}, criteria: []string{"c"}}
	i.merge("Write it\n\n- ✓ It works\nTest it\n")
	if want := []string{"Write it", "Test it", "r"}; !slices.Equal(i.requirements, want) {
		t.Errorf("requirements are %q, want %q", i.requirements, want)
	}
	if want := []string{"✓ It works", "c"}; !slices.Equal(i.criteria, want) {
		t.Errorf("criteria are %q, want %q", i.criteria, want)
	}
}

// A flag that fits a verb's record in one protocol only is refused in the others.
func TestFlagsOfOneVerb(t *testing.T) {
	for _, test := range []struct {
		verb, flag, protocol string
		fits                 bool
	}{
		{"approve", "--summary", "mailbox", false}, {"approve", "--summary", "envelope", true}, {"approve", "--set", "handoffs", true},
		{"return", "--reason", "handoffs", true}, {"return", "--reason", "agentstatus", false}, {"return", "--set", "envelope", false},
		{"reject", "--to", "handoffs", false}, {"reject", "--to", "envelope", true}, {"done", "--to", "handoffs", true}, {"fail", "--to", "handoffs", false},
	} {
		var verb *cobra.Command
		for _, c := range NewCommand(&cli.App{}).Commands() {
			if c.Name() == test.verb {
				verb = c
			}
		}
		if err := verb.ParseFlags([]string{test.flag, "a=b"}); err != nil {
			t.Fatal(err)
		}
		fits := reportFits
		if test.verb == "done" || test.verb == "fail" {
			fits = endFits
		}
		if err := fits.check(verb, test.protocol, "test"); (err == nil) != test.fits {
			t.Errorf("task %s %s in %s: %v", test.verb, test.flag, test.protocol, err)
		}
	}
}
