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

// usageError is a command line that makes no sense.
type usageError struct{ error }

// refuseWrongUsage has every command under c, those of cobra's own too, answer wrong arguments as wrong usage.
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

// asGroup has a command that only has others under it show its help, and refuse what is none of them: cobra would show the
// help for that too, as if all were well.
func asGroup(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return usageError{fmt.Errorf("unknown command %q for %s (see %s --help)", terminal.OneWord(args[0]), c.CommandPath(), c.CommandPath())}
	}
}

// emptyFlags refuses a file or folder that is named by nothing: in a script that is a variable that was never set, and what
// an empty one stands for elsewhere, the current folder, is not what was meant.
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

// commandWords says on one line what the library says on several: that there is no such command, and which are like it.
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

// usageArgs gives wrong arguments the exit code of wrong usage.
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

// projectDir makes the folder of --project absolute; "" is the current one. What is no folder is wrong usage.
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

// processOf is the process of --pid. A number that is none of a living one is wrong usage.
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
