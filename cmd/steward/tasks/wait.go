package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

func newWaitCommand(a *cli.App) *cobra.Command {
	var at place
	var limit time.Duration
	c := &cobra.Command{
		Use:   "wait TASK",
		Short: "Wait for a task's end, show its progress, exit with its exit code",
		Long: "wait follows one task to its end: a progress bar on a terminal, a line for each change elsewhere. The beginning of the id\n" +
			"is enough. A failure that steward retries is not the end.\n\n" +
			"It exits with 0 when the task is completed, with the command's own exit code when it failed with one, with 124 for a\n" +
			"timeout, with 130 when it was cancelled, else with 1. With -o json it prints the result document. A task that comes\n" +
			"after one that failed for good is waited for no longer; the exit code is then that one's.\n\n" +
			"Each run is waited for as long as the task's own timeout says, and 10 s more; time in which the task is held, or\n" +
			"waits for its next run, does not count. --timeout bounds the whole wait instead. When the wait is over (124), or is\n" +
			"interrupted (130), the task goes on. An agent that says in its heartbeat that it is in error ends the wait with 1.\n\n" +
			"In the protocols handoffs, ralph, mailbox and envelope the wait has no limit but --timeout. It exits with 0 when the\n" +
			"task is done (accepted, where a review follows the work), else with 1; -o json prints what `task show` does.",
		Example: "  steward task wait 7c0e\n  steward task wait 7c0e --timeout 10m -o json",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cli.CompleteNames(a, "task"),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("timeout") && limit <= 0 {
				return cli.Usagef("wait for task %s: --timeout %s: use a time such as 10m", terminal.OneWord(args[0]), limit)
			}
			f, err := at.find(c.Context(), a, args[0], "wait for task "+args[0])
			if err != nil {
				return err
			}
			defer f.close()
			if f.other != nil {
				return f.other.await(c.Context(), f.task.ID, limit)
			}
			return awaitTask(c.Context(), a, f.taskClient, f.detail.ID, limit)
		},
	}
	at.flags(c)
	c.Flags().DurationVar(&limit, "timeout", 0, "wait no longer than this `DURATION` (default: as the task's own timeout says)")
	return c
}

// awaitTask waits for a task's end and prints the result. Its error sets the exit code.
func awaitTask(ctx context.Context, a *cli.App, d *taskClient, id string, limit time.Duration) error {
	screen := newWaitScreen(a)
	detail, err := d.Wait(ctx, id, limit, screen.show)
	screen.end()
	var blocked *task.BlockedError
	var inError *task.AgentError
	switch {
	case errors.As(err, &inError):
		return fmt.Errorf("wait for task %s: %w; the wait ended, and the task is unchanged", terminal.Clean(id), inError)
	case errors.As(err, &blocked):
		text := fmt.Errorf("wait for task %s: %v; it stays held until: steward release %[1]s, or: steward task cancel %[1]s", terminal.Clean(id), err)
		return cli.ExitWith(text, task.ExitCode(blocked.By))
	case errors.Is(err, context.Canceled):
		return cli.Interrupted("no longer waiting; task %s continues", terminal.Clean(id))
	case errors.Is(err, task.ErrLimit):
		return cli.OutOfTime("wait for task %s: the time limit of the wait is over; the task continues (%s)", terminal.Clean(id), task.Standing(detail))
	case err != nil:
		return taskError(err, "wait for task "+id)
	}
	d.unfollow(ctx, detail)
	if err := printResult(a, d, detail); err != nil {
		return err
	}
	if code := task.ExitCode(detail); code != 0 {
		return cli.Exit(code)
	}
	return nil
}

// printResult prints a task's result.
func printResult(a *cli.App, d *taskClient, detail agentstatus.Detail) error {
	if a.Output == "json" {
		if detail.ResultRaw == nil { // cancelled before an agent claimed it
			return a.Print(map[string]any{"task_id": detail.ID, "status": task.Standing(detail)})
		}
		return a.Print(detail.ResultRaw)
	}
	p := a.Page()
	for i, text := range task.Summary(detail, humanName(a), d.Argument()) {
		if look := terminal.Plain; i == 0 {
			if look = terminal.Green; !task.Succeeded(detail) {
				look = terminal.Red
			}
			text = p.Dye(text, look)
		}
		p.Full("%s", text)
	}
	return a.Write(p.String())
}
