package tasks

import (
	"strconv"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

func newProgressCommand(a *cli.App) *cobra.Command {
	var at place
	var step, steps, agent string
	c := &cobra.Command{
		Use:   "progress TASK PERCENT [STEP]",
		Short: "Tell how far a task is that you work on by hand",
		Long:  "progress writes the task's progress file: how far it is, in percent, and what is being done.",
		Example: "  steward task progress 7c0e 40 \"pushing the image\" --steps 2/5\n" +
			"  steward task progress 7c0e 80%",
		Args: cobra.RangeArgs(2, 3),
		RunE: func(c *cobra.Command, args []string) error {
			doing := "tell the progress of task " + args[0]
			p := agentstatus.TaskProgress{}
			var err error
			if p.Percent, err = task.ParsePercent(args[1]); err != nil {
				return cli.Usagef("%s: %w", doing, err)
			}
			if steps != "" {
				if p.Done, p.Total, err = task.ParseSteps(steps); err != nil {
					return cli.Usagef("%s: --steps %w", doing, err)
				}
			}
			if len(args) > 2 {
				step = args[2]
			}
			p.Step = terminal.Clean(step)
			f, err := at.find(c.Context(), a, args[0], doing)
			if err != nil {
				return err
			}
			defer f.close()
			if err := progressFits.check(c, f.protocol(), doing); err != nil {
				return err
			}
			if f.other != nil {
				return f.other.report(c.Context(), f.task, protocol.Report{Kind: protocol.ReportProgress, Agent: role(agent, ""), Summary: p.Step, Percent: p.Percent}, doing)
			}
			if err := f.Files.Progress(c.Context(), f.detail.ID, p, time.Now()); err != nil {
				return taskError(err, doing)
			}
			return acknowledge(a, "progress", f.detail.ID, strconv.FormatFloat(p.Percent, 'f', -1, 64)+" %")
		},
	}
	at.flags(c)
	agentFlag(c, &agent)
	c.Flags().StringVar(&steps, "steps", "", "steps done of all: `DONE/TOTAL`")
	return c
}
