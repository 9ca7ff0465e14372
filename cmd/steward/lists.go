package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

func newListCommands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		listOf(a, "agents", "List the agents and the verdicts on them", views.AgentStates, views.Agents),
		newTasksCommand(a),
		listOf(a, "locks", "List the locks that agents hold, in files and in the kernel; those of steward lock run have the protocol "+daemon.RealLocks, views.LockStates, views.Locks),
		newIncidentsCommand(a),
		{
			Use: "goals", Short: "Show the protocol's success metrics against their targets", Example: "  steward goals",
			RunE: func(c *cobra.Command, _ []string) error {
				return cli.Show(c.Context(), a, "show the goals", "/v1/goals", views.Goals)
			},
		},
	}
}

// listOf is a command that shows one of the daemon's lists as the daemon filters it.
func listOf[T any](a *cli.App, name, short, states string, render func(*terminal.Page, T)) *cobra.Command {
	var project, state string
	var limit uint
	first, _, _ := strings.Cut(states, " ")
	c := &cobra.Command{
		Use: name, Short: short, Example: fmt.Sprintf("  steward %s\n  steward %s --state %s -o json", name, name, first),
		RunE: func(c *cobra.Command, _ []string) error {
			most := ""
			if limit > 0 {
				most = fmt.Sprint(limit)
			}
			return cli.Show(c.Context(), a, "list "+name, cli.Query("/v1/"+name, "project", project, "state", state, "limit", most), render)
		},
	}
	filterFlags(c, &project, &state, states)
	c.Flags().UintVar(&limit, "limit", 0, "list the first `N` only")
	return c
}

func filterFlags(c *cobra.Command, project, state *string, states string) {
	c.Flags().StringVar(project, "project", "", "only of the project with this `NAME`")
	c.Flags().StringVar(state, "state", "", "only those in this `STATE`: "+states)
}

// query holds the flags of `steward tasks` and `steward incidents`. The daemon filters by project and state.
type query struct {
	project, state string
	limit          int
	agent, since   string
	start          time.Time // the parsed since; zero: no limit
}

func (q *query) flags(c *cobra.Command, states string) {
	filterFlags(c, &q.project, &q.state, states)
	c.Flags().IntVar(&q.limit, "limit", 0, "at most `N` rows (0: all)")
	c.Flags().StringVar(&q.agent, "agent", "", "only of the agent with this `NAME`")
	c.Flags().StringVar(&q.since, "since", "", "only what happened since `TIME`: 30m, 2h, 3d, 14:00, 2026-03-14 or 2026-03-14T09:00:00Z")
}

// read checks the flags and parses since relative to now.
func (q *query) read(c *cobra.Command, doing string, now time.Time) error {
	if q.limit < 0 {
		return cli.Usagef("%s: --limit %d: use 0 or more", doing, q.limit)
	}
	if q.agent == "" && c.Flags().Changed("agent") {
		return cli.Usagef("%s: --agent: the name is empty; without --agent the list shows all", doing)
	}
	if q.since == "" {
		return nil
	}
	start, ok := momentOf(q.since, now)
	if !ok {
		return cli.Usagef("%s: --since %q is not a length of time or a moment; use a value like 30m, 3d, 14:00 or 2026-03-14", doing, q.since)
	}
	q.start = start
	return nil
}

// isSet reports whether the flags filter anything.
func (q *query) isSet() bool { return *q != query{} }

// matching returns the rows with the query's agent and time, and the first of them up to its limit. Both are never nil.
func matching[T any](q *query, rows []T, of func(T) (agent string, at time.Time)) (all, shown []T) {
	all = []T{}
	for _, row := range rows {
		if agent, at := of(row); (q.agent == "" || strings.EqualFold(q.agent, agent)) && !at.Before(q.start) {
			all = append(all, row)
		}
	}
	if q.limit > 0 {
		return all, all[:min(len(all), q.limit)]
	}
	return all, all
}

func newTasksCommand(a *cli.App) *cobra.Command {
	var q query
	c := &cobra.Command{
		Use: "tasks", Short: "List the tasks and where they stand",
		Long: "tasks lists the open tasks, the newest first, and below them the tasks that ended. --since counts from the creation of a\n" +
			"task. A list on a terminal shortens long ids; every command accepts the short form.",
		Example: "  steward tasks\n  steward tasks --agent codex-cursor --since 2h\n  steward tasks --state pending --limit 20 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := q.read(c, "list tasks", time.Now()); err != nil {
				return err
			}
			return showTasks(c.Context(), a, q)
		},
	}
	q.flags(c, "pending deferred running waiting done failed dead")
	return c
}

// showTasks lists the tasks that match the query.
func showTasks(ctx context.Context, a *cli.App, q query) error {
	var doc views.TaskList
	err := a.Ask(ctx, "list tasks", func(c *status.Client) error {
		return c.Get(ctx, cli.Query("/v1/tasks", "project", q.project, "state", q.state), &doc)
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(doc.Tasks, views.NewestFirst)
	all, shown := matching(&q, doc.Tasks, func(t supervisor.TaskReport) (string, time.Time) { return t.Agent, views.CreatedAt(t) })
	return cli.Tell(a, map[string]any{"tasks": shown}, func(p *terminal.Page, _ map[string]any) {
		if len(all) == 0 && q.isSet() {
			p.Line("no tasks match")
			p.Styled(terminal.Dim, "all tasks: steward tasks")
			return
		}
		views.Tasks(p, views.TaskList{Tasks: shown})
		if len(shown) < len(all) {
			p.Styled(terminal.Dim, "the first %d of %s", len(shown), terminal.Plural(len(all), "task"))
		}
	})
}

// momentOf parses a duration before now, or a time in the local zone.
func momentOf(text string, now time.Time) (time.Time, bool) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			return now.AddDate(0, 0, -n), true
		}
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d), d >= 0
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, true
	}
	for _, layout := range []string{time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, true
		}
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if at.After(now) { // 23:00 typed at 01:00 means yesterday
				at = at.AddDate(0, 0, -1)
			}
			return at, true
		}
	}
	return time.Time{}, false
}
