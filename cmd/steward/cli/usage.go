package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

// UsageError is an invalid command line.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Usagef is an invalid command line, in words.
func Usagef(format string, args ...any) error { return UsageError{Err: fmt.Errorf(format, args...)} }

// CheckUsage makes every command under c, cobra's own included, report wrong arguments as wrong usage.
func CheckUsage(c *cobra.Command) {
	for _, sub := range c.Commands() {
		switch {
		case sub.Name() == "help":
			sub.Args = helpTopic
		case sub.HasSubCommands():
			asGroup(sub)
		default:
			sub.Args = usageArgs(sub.Args)
		}
		CheckUsage(sub)
	}
}

// asGroup makes a command that only groups subcommands show its help, and reject an unknown subcommand: cobra would show
// the help for that too and report success.
func asGroup(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return Usagef("unknown command %q for %s (see %s --help)", terminal.OneWord(args[0]), c.CommandPath(), c.CommandPath())
	}
}

// EmptyFlags rejects an empty file or folder flag: in a script it is an unset variable, and its usual meaning, the
// current folder, is not what the user meant.
func EmptyFlags(c *cobra.Command) error {
	for _, name := range []string{"project", "check"} {
		f := c.Flags().Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		values := []string{f.Value.String()}
		if list, several := f.Value.(interface{ GetSlice() []string }); several {
			values = list.GetSlice()
		}
		if slices.Contains(values, "") {
			return Usagef("%s: --%s is empty (see %s --help)", c.CommandPath(), name, c.CommandPath())
		}
	}
	return nil
}

// commandWords reports an unknown command and the similar ones on one line, where the library uses several.
func commandWords(err error) error {
	text := err.Error()
	if !strings.HasPrefix(text, "unknown command") {
		return err
	}
	head, near, _ := strings.Cut(text, "\n")
	if _, near, _ = strings.Cut(near, "\n\t"); near != "" {
		head += "; did you mean " + strings.Join(strings.Fields(near), " or ") + "?"
	}
	return fmt.Errorf("%s (see steward --help)", head)
}

// helpTopic accepts the name of a command.
func helpTopic(c *cobra.Command, args []string) error {
	if _, rest, err := c.Root().Find(args); err != nil || len(rest) > 0 {
		return Usagef("unknown command %q (see steward help)", strings.Join(args, " "))
	}
	return nil
}

// usageArgs maps wrong arguments to the exit code for wrong usage.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		check = cobra.NoArgs
	}
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return UsageError{Err: argumentWords(c, args, err)}
		}
		return nil
	}
}
