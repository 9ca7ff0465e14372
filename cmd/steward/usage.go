package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
		return usageError{fmt.Errorf("unknown command %q for %s (see %s --help)", oneWord(args[0]), c.CommandPath(), c.CommandPath())}
	}
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
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !st.IsDir():
		return "", usageError{fmt.Errorf("%s: --project %s: there is no such folder", doing, clean(project))}
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
