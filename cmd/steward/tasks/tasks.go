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
		Long: "task is both sides of the work that agents give each other, without writing JSON by hand, in every protocol that steward\n" +
			"speaks. An orchestrator submits, waits, shows, approves, rejects and cancels; an agent without a worker takes the next\n" +
			"one, reports its progress and its questions, and says that it is done or has failed. Every command works with and\n" +
			"without a running steward.\n\n" +
			"A project that speaks one protocol needs no --protocol; with several it is agentstatus where that is spoken. A task that\n" +
			"only one of them has needs none either.",
		Example: "  steward task submit execute --wait -- scripts/START.sh preflight\n  steward task wait 7c0e\n  steward task next --agent codex-cursor\n" +
			"  steward task submit --protocol handoffs --to builder --spec specs/auth.md \"Implement the spec\"",
	}
	c.AddCommand(newSubmitCommand(a), newWaitCommand(a), newShowCommand(a), newApproveCommand(a), newRejectCommand(a), newCancelCommand(a),
		newNextCommand(a), newAcceptCommand(a), newProgressCommand(a), newBlockCommand(a), newDoneCommand(a), newFailCommand(a), newReturnCommand(a))
	return c
}
