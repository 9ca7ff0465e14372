package main

import (
	"context"
	"encoding/json"
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

// filter restricts a list to a project and a state.
type filter struct{ project, state string }

func (f *filter) flags(c *cobra.Command, states string) {
	c.Flags().StringVar(&f.project, "project", "", "only of the project with this `NAME`")
	c.Flags().StringVar(&f.state, "state", "", "only those in this `STATE`: "+states)
}

func (f *filter) path(list string) string {
	return cli.Query("/v1/"+list, "project", f.project, "state", f.state)
}

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

func listOf[T any](a *cli.App, name, short, states string, render func(*terminal.Page, T)) *cobra.Command {
	var f filter
	var limit uint
	first, _, _ := strings.Cut(states, " ")
	c := &cobra.Command{
		Use: name, Short: short, Example: fmt.Sprintf("  steward %s\n  steward %s --state %s -o json", name, name, first),
		RunE: func(c *cobra.Command, _ []string) error {
			path := f.path(name)
			if limit > 0 {
				path = cli.Query("/v1/"+name, "project", f.project, "state", f.state, "limit", fmt.Sprint(limit))
			}
			return cli.Show(c.Context(), a, "list "+name, path, render)
		},
	}
	f.flags(c, states)
	c.Flags().UintVar(&limit, "limit", 0, "list the first `N` only")
	return c
}

// listQuery holds the flags of `steward tasks` and `steward incidents`.
type listQuery struct {
	filter
	narrowing
}

func (q *listQuery) flags(c *cobra.Command, states string) {
	q.filter.flags(c, states)
	q.narrowing.flags(c)
}

// isSet reports whether the flags filter anything.
func (q *listQuery) isSet() bool { return q.set() || q.filter != (filter{}) }

// row is an element of a list, with the daemon's original document: JSON output repeats that.
type row[T any] struct {
	value T
	raw   json.RawMessage
}

func rowsOf[T any](list []json.RawMessage) ([]row[T], error) {
	rows := make([]row[T], len(list))
	for i, raw := range list {
		rows[i].raw = raw
		if err := json.Unmarshal(raw, &rows[i].value); err != nil {
			return nil, fmt.Errorf("read steward's answer: %w; is it another version than this command?", err)
		}
	}
	return rows, nil
}

// split returns the original documents and the values.
func split[T any](rows []row[T]) ([]json.RawMessage, []T) {
	raws, values := []json.RawMessage{}, []T{}
	for _, r := range rows {
		raws, values = append(raws, r.raw), append(values, r.value)
	}
	return raws, values
}

// firstOf returns at most limit rows; 0: all.
func firstOf[T any](rows []T, limit int) []T {
	if limit > 0 {
		return rows[:min(len(rows), limit)]
	}
	return rows
}

func newTasksCommand(a *cli.App) *cobra.Command {
	var q listQuery
	c := &cobra.Command{
		Use: "tasks", Short: "List the tasks and where they stand",
		Long: "tasks lists the open tasks, the newest first, and below them the tasks that ended. --since counts from the creation of a\n" +
			"task. A list on a terminal shortens long ids; every command accepts the short form.",
		Example: "  steward tasks\n  steward tasks --agent codex-cursor --since 2h\n  steward tasks --state pending --limit 20 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := q.read("list tasks", time.Now()); err != nil {
				return err
			}
			return showTasks(c.Context(), a, q)
		},
	}
	q.flags(c, "pending deferred running waiting done failed dead")
	return c
}

// showTasks lists the tasks that match the query.
func showTasks(ctx context.Context, a *cli.App, q listQuery) error {
	var doc struct{ Tasks []json.RawMessage }
	err := a.Ask(ctx, "list tasks", func(c *status.Client) error { return c.Get(ctx, q.path("tasks"), &doc) })
	if err != nil {
		return err
	}
	found, err := rowsOf[supervisor.TaskReport](doc.Tasks)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(t row[supervisor.TaskReport]) bool { return !q.has(t.value.Agent, views.CreatedAt(t.value)) })
	slices.SortStableFunc(found, func(x, y row[supervisor.TaskReport]) int { return views.NewestFirst(x.value, y.value) })
	total := len(found)
	raws, tasks := split(firstOf(found, q.limit))
	return cli.Tell(a, map[string]any{"tasks": raws}, func(p *terminal.Page, _ map[string]any) {
		if total == 0 && q.isSet() {
			p.Line("no tasks match")
			p.Styled(terminal.Dim, "all tasks: steward tasks")
			return
		}
		views.Tasks(p, views.TaskList{Tasks: tasks})
		if len(tasks) < total {
			p.Styled(terminal.Dim, "the first %d of %s", len(tasks), terminal.Plural(total, "task"))
		}
	})
}

// narrowing holds the list filters besides project and state: the number of rows, the agent, and the start time.
type narrowing struct {
	limit int
	agent string
	since string
	start time.Time // the parsed since; zero: no limit
	typed func(flag string) bool
}

func (n *narrowing) flags(c *cobra.Command) {
	n.typed = c.Flags().Changed
	c.Flags().IntVar(&n.limit, "limit", 0, "at most `N` rows (0: all)")
	c.Flags().StringVar(&n.agent, "agent", "", "only of the agent with this `NAME`")
	c.Flags().StringVar(&n.since, "since", "", "only what happened since `TIME`: 30m, 2h, 3d, 14:00, 2026-03-14 or 2026-03-14T09:00:00Z")
}

// read validates the flags and parses since relative to now.
func (n *narrowing) read(doing string, now time.Time) error {
	if n.limit < 0 {
		return cli.Usagef("%s: --limit %d: use 0 or more", doing, n.limit)
	}
	if n.agent == "" && n.typed("agent") {
		return cli.Usagef("%s: --agent: the name is empty; without --agent the list shows all", doing)
	}
	if n.since == "" {
		return nil
	}
	start, ok := momentOf(n.since, now)
	if !ok {
		return cli.Usagef("%s: --since %q is not a length of time or a moment; use a value like 30m, 3d, 14:00 or 2026-03-14", doing, n.since)
	}
	n.start = start
	return nil
}

// set reports whether the flags filter anything.
func (n narrowing) set() bool { return n.limit > 0 || n.agent != "" || n.since != "" }

// has reports whether to show a row with that agent and time.
func (n narrowing) has(agent string, at time.Time) bool {
	return (n.agent == "" || strings.EqualFold(n.agent, agent)) && !at.Before(n.start)
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
