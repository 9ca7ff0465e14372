// Package locks has the verbs of steward lock.
package locks

import (
	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/spf13/cobra"
)

func NewCommand(a *cli.App) *cobra.Command {
	var project string
	c := &cobra.Command{
		Use:   "lock",
		Short: "Real locks: run a command under one, list them, break one",
		Long: "lock keeps agents and their commands from doing the same thing at once. A lock of steward's is one of the kernel:\n" +
			"it ends when its holder does, however that dies, and each holding has a number that only grows. Where the project\n" +
			"has a .claude/state.json with locks, agents that only read that see it there, and their own locks are respected.",
	}
	c.PersistentFlags().StringVar(&project, "project", ".", "the project's `DIR`")
	c.AddCommand(newRunCommand(a, &project), newListCommand(a, &project), newBreakCommand(a, &project))
	return c
}
