package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livhana/steward/status/terminal"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
)

// usageError is an invalid command line.
type usageError struct{ error }

// refuseWrongUsage makes every command under c, cobra's own included, report wrong arguments as wrong usage.
func refuseWrongUsage(c *cobra.Command) {
	for _, sub := range c.Commands() {
		switch {
		case sub.Name() == "help":
			sub.Args = helpTopic
		case sub.HasSubCommands():
			asGroup(sub)
		default:
			sub.Args = usageArgs(sub.Args)
		}
		refuseWrongUsage(sub)
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
		return usageError{fmt.Errorf("unknown command %q for %s (see %s --help)", terminal.OneWord(args[0]), c.CommandPath(), c.CommandPath())}
	}
}

// emptyFlags rejects an empty file or folder flag: in a script it is an unset variable, and its usual meaning, the
// current folder, is not what the user meant.
func emptyFlags(c *cobra.Command) error {
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
			return usageError{fmt.Errorf("%s: --%s is empty (see %s --help)", c.CommandPath(), name, c.CommandPath())}
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
		return usageError{fmt.Errorf("there is no command %q to tell about (see steward help)", strings.Join(args, " "))}
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
			return usageError{argumentWords(c, args, err)}
		}
		return nil
	}
}

// projectDir makes the folder of --project absolute; "" is the current folder. A path that is not a folder is wrong usage.
func projectDir(doing, project string) (string, error) {
	dir, err := filepath.Abs(cmp.Or(project, "."))
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	if dir == "/" && cmp.Or(project, ".") == "." {
		return "", usageError{fmt.Errorf("%s: the current folder is /; name the project with --project DIR", doing)}
	}
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !st.IsDir():
		return "", usageError{fmt.Errorf("%s: --project %s: there is no such folder", doing, terminal.Clean(project))}
	case err != nil:
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	return dir, nil
}

// processOf returns the process of --pid. A pid without a living process is wrong usage.
func processOf(doing string, pid int) (protocol.Identity, error) {
	id, err := proc.Inspect(pid)
	switch {
	case errors.Is(err, proc.ErrGone), pid <= 0:
		return protocol.Identity{}, usageError{fmt.Errorf("%s: --pid %d: there is no such process", doing, pid)}
	case err != nil:
		return protocol.Identity{}, fmt.Errorf("%s: --pid %d: %w", doing, pid, err)
	}
	return protocol.Identity(id), nil
}
