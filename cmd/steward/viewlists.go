package main

import (
	"fmt"
	"strings"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"

	"github.com/spf13/cobra"
)

// filter restricts a list to a project and a state.
type filter struct{ project, state string }

func (f *filter) flags(c *cobra.Command, states string) {
	c.Flags().StringVar(&f.project, "project", "", "only of the project with this `NAME`")
	c.Flags().StringVar(&f.state, "state", "", "only those in this `STATE`: "+states)
}

func (f *filter) path(list string) string {
	return query("/v1/"+list, "project", f.project, "state", f.state)
}

func (a *app) listCommands() []*cobra.Command {
	return []*cobra.Command{
		listOf(a, "agents", "List the agents and the verdicts on them", views.AgentStates, views.Agents),
		a.tasksCommand(),
		listOf(a, "locks", "List the locks that agents hold, in files and in the kernel; those of steward lock run have the protocol "+daemon.RealLocks, views.LockStates, views.Locks),
		a.incidentsCommand(),
		{
			Use: "goals", Short: "Show the protocol's success metrics against their targets", Example: "  steward goals",
			RunE: func(c *cobra.Command, _ []string) error {
				return show(c.Context(), a, "show the goals", "/v1/goals", views.Goals)
			},
		},
	}
}

func listOf[T any](a *app, name, short, states string, render func(*terminal.Page, T)) *cobra.Command {
	var f filter
	var limit uint
	first, _, _ := strings.Cut(states, " ")
	c := &cobra.Command{
		Use: name, Short: short, Example: fmt.Sprintf("  steward %s\n  steward %s --state %s -o json", name, name, first),
		RunE: func(c *cobra.Command, _ []string) error {
			path := f.path(name)
			if limit > 0 {
				path = query("/v1/"+name, "project", f.project, "state", f.state, "limit", fmt.Sprint(limit))
			}
			return show(c.Context(), a, "list "+name, path, render)
		},
	}
	f.flags(c, states)
	c.Flags().UintVar(&limit, "limit", 0, "list the first `N` only")
	return c
}
