package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
)

// taskQuery holds the flags of `steward tasks`.
type taskQuery struct {
	filter
	narrowing
}

func (a *app) tasksCommand() *cobra.Command {
	var q taskQuery
	c := &cobra.Command{
		Use: "tasks", Short: "List the tasks and where they stand",
		Long: "tasks lists the open tasks, the newest first, and below them the tasks that ended. --since counts from the creation of a\n" +
			"task. A list on a terminal shortens long ids; every command accepts the short form.",
		Example: "  steward tasks\n  steward tasks --agent codex-cursor --since 2h\n  steward tasks --state pending --limit 20 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := q.read("list tasks", time.Now()); err != nil {
				return err
			}
			return a.tasks(c.Context(), q)
		},
	}
	q.filter.flags(c, "pending deferred running waiting done failed dead")
	q.narrowing.flags(c)
	return c
}

// foundTask is a task with the daemon's original document.
type foundTask struct {
	supervisor.TaskReport
	raw json.RawMessage
}

// tasks lists the tasks that match the query.
func (a *app) tasks(ctx context.Context, q taskQuery) error {
	var doc struct{ Tasks []json.RawMessage }
	err := a.ask(ctx, "list tasks", func(c *status.Client) error { return c.Get(ctx, q.path("tasks"), &doc) })
	if err != nil {
		return err
	}
	var found []foundTask
	for _, raw := range doc.Tasks {
		t := foundTask{raw: raw}
		if err := json.Unmarshal(raw, &t.TaskReport); err != nil {
			return fmt.Errorf("read steward's answer: %w; is it another version than this command?", err)
		}
		if q.has(t.Agent, views.CreatedAt(t.TaskReport)) {
			found = append(found, t)
		}
	}
	slices.SortStableFunc(found, func(x, y foundTask) int { return views.NewestFirst(x.TaskReport, y.TaskReport) })
	total := len(found)
	if q.limit > 0 {
		found = found[:min(total, q.limit)]
	}
	return a.listTasks(found, total, q)
}

// listTasks prints the found tasks, of total tasks.
func (a *app) listTasks(found []foundTask, total int, q taskQuery) error {
	raws, tasks := []json.RawMessage{}, []supervisor.TaskReport{}
	for _, t := range found {
		raws, tasks = append(raws, t.raw), append(tasks, t.TaskReport)
	}
	if a.output == "json" {
		return a.print(map[string]any{"tasks": raws})
	}
	p := a.page()
	if total == 0 && (q.set() || q.filter != (filter{})) {
		p.Line("no tasks match")
		p.Styled(terminal.Dim, "all tasks: steward tasks")
		return a.write(p.String())
	}
	views.Tasks(p, views.TaskList{Tasks: tasks})
	if len(tasks) < total {
		p.Styled(terminal.Dim, "the first %d of %s", len(tasks), terminal.Plural(total, "task"))
	}
	return a.write(p.String())
}
