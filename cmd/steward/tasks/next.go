package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/cmd/steward/gate"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

const taking = "take a task"

// forever is the value of --wait without a limit.
const forever = "forever"

func newNextCommand(a *cli.App) *cobra.Command {
	var project, agent, wait string
	var pid int
	c := &cobra.Command{
		Use:   "next",
		Short: "Take the next task in hand, and print its request",
		Long: "next claims the best task that waits for an agent: by priority, then age, and only if there is room for it. It prints\n" +
			"the request; no other agent gets the task from then on. End it with `steward task done` or `steward task fail`.\n\n" +
			"With --pid the process is recorded as the one that works on it: when it dies, the task is known to be lost at once.\n" +
			"Without, the claim stands until the task is done, has failed or is cancelled. It exits with 4 when none exists, and says\n" +
			"what waits all the same: a task that is held, what keeps it, and when it may come.",
		Example: "  steward task next --agent codex-cursor --pid $$\n  steward task next --agent codex-cursor --wait=10m -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			patience, err := waitTime(wait)
			if err != nil {
				return err
			}
			if !cli.IsAgentName(agent) {
				return cli.Usagef("%s: --agent %q: it cannot be used as a file name", taking, agent)
			}
			k := agentstatus.Claim{Agent: agent}
			if c.Flags().Changed("pid") {
				if k.Worker, err = cli.ProcessOf(taking, pid); err != nil {
					return err
				}
			}
			d, err := openTasks(a, project, taking)
			if err != nil {
				return err
			}
			defer d.close()
			return d.next(c.Context(), k, patience)
		},
	}
	cli.ProjectFlag(c, &project)
	c.Flags().StringVar(&agent, "agent", executor, "for whom: `NAME`")
	c.Flags().StringVar(&wait, "wait", "", "wait for a task, at most this `DURATION` (--wait alone: without limit)")
	c.Flags().Lookup("wait").NoOptDefVal = forever
	c.Flags().IntVar(&pid, "pid", 0, "the `ID` of the process that works on it")
	return c
}

// waitTime parses --wait: 0 means no wait, a negative value means no limit.
func waitTime(text string) (time.Duration, error) {
	switch text {
	case "":
		return 0, nil
	case forever:
		return -1, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, cli.Usagef("--wait=%s: use a time such as 10m", terminal.OneWord(text))
	}
	return d, nil
}

func (d *taskClient) next(ctx context.Context, k agentstatus.Claim, patience time.Duration) error {
	end, told := time.Now().Add(patience), ""
	for {
		w, why, wait, err := d.take(ctx, k)
		switch {
		case ctx.Err() != nil:
			return cli.Exit(task.ExitCancelled)
		case err != nil:
			return taskError(err, taking)
		case w != nil:
			return d.printWork(ctx, w)
		}
		if why == "" && (told == "" || over(patience, end)) {
			now := time.Now()
			held, _ := d.Files.HeldBack(ctx, k.Agent, now) // tasks that cannot be read are omitted
			why = task.Nothing(held, now)
		}
		if over(patience, end) {
			return terminal.Report(supervisor.ErrNoSubject, "%s: no task for %s now: %s", taking, k.Agent, why)
		}
		if why != "" && why != told {
			told = why
			fmt.Fprintln(d.app.Err, "steward: waiting: "+terminal.Clean(why))
		}
		if cli.Sleep(ctx, min(max(wait, time.Second), 5*time.Second)) != nil {
			return cli.Exit(task.ExitCancelled)
		}
	}
}

// over reports whether the wait has timed out: patience 0 means no wait, a negative value means no limit.
func over(patience time.Duration, end time.Time) bool {
	return patience == 0 || patience > 0 && !time.Now().Before(end)
}

// take claims the best admitted task. It returns nil if none exists, with the reason if a task is open but not admitted.
func (d *taskClient) take(ctx context.Context, k agentstatus.Claim) (*agentstatus.Work, string, time.Duration, error) {
	open, err := d.Files.Open(ctx, k.Agent, time.Now())
	if err != nil {
		return nil, "", 0, err
	}
	shut, wait := "", time.Duration(0)
	for i := range open {
		w := &open[i]
		ok, why, after := gate.Ask(ctx, d.app, status.AdmitOrder{Project: d.Dir, Task: w.TaskID, Throttle: w.Throttle})
		if !ok {
			shut, wait = "no room for task "+w.TaskID+": "+why, after
			continue
		}
		switch err := d.Files.Claim(ctx, *w, k, time.Now()); {
		case err == nil:
			return w, "", 0, nil
		case !errors.Is(err, agentstatus.ErrTaken):
			return nil, "", 0, err
		}
	}
	return nil, shut, wait, nil
}

func (d *taskClient) printWork(ctx context.Context, w *agentstatus.Work) error {
	if d.app.Output == "json" {
		return d.app.Print(json.RawMessage(w.Raw))
	}
	detail, err := d.Task(ctx, w.TaskID)
	if err != nil {
		return taskError(err, "show task "+w.TaskID)
	}
	return showTask(d.app, d, detail)
}
