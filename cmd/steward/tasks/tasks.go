// Package tasks has the verbs of steward task: both sides of the work that agents give each other.
package tasks

import (
	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/spf13/cobra"
)

func NewCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "task",
		Short: "Ask for tasks, wait for them, and work on them by hand",
		Long: "task is both sides of the work that agents give each other through tmp/agent_status/, without writing JSON by hand.\n" +
			"An orchestrator submits, waits, shows and cancels; an agent without a worker takes the next one, reports its\n" +
			"progress, and says that it is done or has failed. Every command works with and without a running steward.",
		Example: "  steward task submit execute --wait -- scripts/START.sh preflight\n  steward task wait 7c0e\n  steward task next --agent codex-cursor",
	}
	c.AddCommand(newSubmitCommand(a), newWaitCommand(a), newShowCommand(a), newCancelCommand(a),
		newNextCommand(a), newProgressCommand(a), newDoneCommand(a), newFailCommand(a))
	return c
}
