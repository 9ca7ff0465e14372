package main

import (
	"github.com/livhana/steward/status/views"
	"github.com/spf13/cobra"
)

func (a *app) explainCommand() *cobra.Command {
	var speaks string
	c := &cobra.Command{
		Use:   "explain SUBJECT",
		Short: "Say why: evidence and decisions for an agent, task, lock, call for help or incident",
		Long: "explain gives the verdict on one thing, what it rests on, and what the journal has on it, oldest first. SUBJECT is an id,\n" +
			"kind/id, project:kind/id, or project:protocol:kind/id where two protocols use one name; an incident's key may be cut short.\n" +
			"Without a daemon it cites the journal on disk.",
		Example: "  steward explain codex-cursor\n  steward explain sot:task/7c0e2f5a-3b1d-4f7e-9a51-5d1c8e7f2a10\n  steward explain incident/3fa9",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeNames("agent", "task", "lock", "incident"),
		RunE: func(c *cobra.Command, args []string) error {
			return showJournal(c.Context(), a, "explain "+args[0], query("/v1/explain", "subject", args[0], "protocol", speaks), views.Explanation)
		},
	}
	c.Flags().StringVar(&speaks, "protocol", "", "where two protocols of a project use the same name, the `NAME` of the one meant")
	return c
}
