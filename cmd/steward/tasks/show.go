package tasks

import (
	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

func newShowCommand(a *cli.App) *cobra.Command {
	var at place
	c := &cobra.Command{
		Use:   "show TASK",
		Short: "Show everything about one task: request, attempts, progress, result",
		Long: "show reads the files of one task and says all that they tell. The beginning of the id is enough, four characters at least.\n" +
			"Why steward decided as it did is in: steward explain TASK",
		Example: "  steward task show 7c0e\n  steward task show 7c0e -o json",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cli.CompleteNames(a, "task"),
		RunE: func(c *cobra.Command, args []string) error {
			f, err := at.find(c.Context(), a, args[0], "show task "+args[0])
			if err != nil {
				return err
			}
			defer f.close()
			switch {
			case f.other != nil:
				return f.other.show(f.task)
			case a.Output == "json":
				return a.Print(task.PageOf(f.Dir, f.detail))
			}
			return showTask(a, f.taskClient, f.detail)
		},
	}
	at.flags(c)
	return c
}

func showTask(a *cli.App, d *taskClient, detail agentstatus.Detail) error {
	p := a.Page()
	look := terminal.Plain
	if detail.State == agentstatus.StateEnded {
		if look = terminal.Green; !task.Succeeded(detail) {
			look = terminal.Red
		}
	}
	p.Full("%s %s", terminal.Clean(detail.ID), p.Dye(task.Standing(detail), look))
	facts := task.Facts(detail, p.Now)
	width := 0
	for _, f := range facts {
		width = max(width, terminal.Cells(f.Name))
	}
	for _, f := range facts {
		p.Full("  %-*s  %s", width, f.Name, f.Text)
	}
	if detail.Result != nil {
		p.Title("Result")
		for _, text := range task.Summary(detail, humanName(a), d.Argument()) {
			p.Full("%s", text)
		}
	}
	return a.Write(p.String())
}
