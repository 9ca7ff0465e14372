package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

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

func newTaskNextCommand(a *cli.App) *cobra.Command {
	var project, agent, wait string
	var pid int
	c := &cobra.Command{
		Use:   "next",
		Short: "Take the next task in hand, and print its request",
		Long: "next claims the best task that waits for an agent: by priority, then age, and only if there is room for it. It prints\n" +
			"the request; no other agent gets the task from then on. End it with `steward task done` or `steward task fail`.\n\n" +
			"With --pid the process is recorded as the one that works on it: when it dies, the task is known to be lost at once.\n" +
			"Without, the claim stands until the task is done, has failed or is cancelled. It exits with 4 when there is none, and says\n" +
			"what waits all the same: a task that is held, what keeps it, and when it may come.",
		Example: "  steward task next --agent codex-cursor --pid $$\n  steward task next --agent codex-cursor --wait=10m -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			patience, err := waitTime(wait)
			if err != nil {
				return err
			}
			if !isAgentName(agent) {
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
	projectFlag(c, &project)
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
			return terminal.Report(supervisor.ErrNoSubject, "%s: there is none for %s now: %s", taking, k.Agent, why)
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

// take claims the best admitted task. It returns nil if there is none, with the reason if a task is open but not admitted.
func (d *taskClient) take(ctx context.Context, k agentstatus.Claim) (*agentstatus.Work, string, time.Duration, error) {
	open, err := d.Files.Open(ctx, k.Agent, time.Now())
	if err != nil {
		return nil, "", 0, err
	}
	shut, wait := "", time.Duration(0)
	for i := range open {
		w := &open[i]
		ok, why, after := askGate(ctx, d.app, status.AdmitOrder{Project: d.Dir, Task: w.TaskID, Throttle: w.Throttle})
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

func newTaskProgressCommand(a *cli.App) *cobra.Command {
	var project, step, steps string
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
			d, detail, err := findTasks(c.Context(), a, project, args[0], doing)
			if err != nil {
				return err
			}
			defer d.close()
			if err := d.Files.Progress(c.Context(), detail.ID, p, time.Now()); err != nil {
				return taskError(err, doing)
			}
			return acknowledge(a, "progress", detail.ID, strconv.FormatFloat(p.Percent, 'f', -1, 64)+" %")
		},
	}
	projectFlag(c, &project)
	c.Flags().StringVar(&steps, "steps", "", "steps done of all: `DONE/TOTAL`")
	return c
}

// acknowledge prints that a task was changed.
func acknowledge(a *cli.App, verb, id, state string) error {
	return a.Report(map[string]string{"verb": verb, "task_id": id, "state": state}, "%s", terminal.Clean(fmt.Sprintf("task %s: %s", id, state)))
}

// handEnd holds the flags of done and fail.
type handEnd struct {
	ending   task.Ending
	project  string
	metrics  []string
	document string
	failure  agentstatus.TaskError
}

func (h *handEnd) flags(c *cobra.Command) {
	f := c.Flags()
	projectFlag(c, &h.project)
	f.StringVar(&h.ending.Summary, "summary", "", "what was done, for people: `TEXT`")
	f.StringArrayVar(&h.ending.Artifacts, "artifact", nil, "a `FILE` that was made (may be repeated)")
	f.StringArrayVar(&h.ending.Modified, "modified", nil, "a `FILE` that was changed (may be repeated)")
	f.StringArrayVar(&h.metrics, "metric", nil, "a figure `KEY=VALUE`; JSON where it parses, else text (may be repeated)")
	f.StringArrayVar(&h.ending.Next, "next", nil, "what should be done next: `TEXT` (may be repeated)")
	f.StringArrayVar(&h.ending.ForHuman, "next-for-human", nil, "what a human must decide: `TEXT` (may be repeated)")
	f.StringVar(&h.document, "result", "", "a `FILE` with the result document; - for standard input. Other flags override it")
}

func newTaskDoneCommand(a *cli.App) *cobra.Command {
	h := &handEnd{}
	c := &cobra.Command{
		Use:   "done TASK",
		Short: "Say that a task is completed that you worked on by hand",
		Long: "done writes the task's result, ends your claim, and tells the log. The first result of a task stands; a later one is\n" +
			"put on record and refused (5), also while steward keeps back the next run of a task that failed.",
		Example: "  steward task done 7c0e --summary \"all checks pass\" --artifact report.md --metric tests=412\n" +
			"  steward task done 7c0e --next \"Run the smoke test\" --next-for-human \"Approve the DNS switch\"\n" +
			"  steward task done 7c0e --result result.json",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeNames(a, "task"),
		RunE: func(c *cobra.Command, args []string) error {
			return endByHand(c.Context(), a, h, args[0], "end task "+args[0])
		},
	}
	h.flags(c)
	return c
}

func newTaskFailCommand(a *cli.App) *cobra.Command {
	h := &handEnd{}
	c := &cobra.Command{
		Use:   "fail TASK --code CODE --message TEXT",
		Short: "Say that a task has failed that you worked on by hand",
		Long: "fail writes a result with an error, ends your claim, and tells the log. The codes of the protocol are CAPACITY_EXCEEDED,\n" +
			"FILE_NOT_FOUND, PERMISSION_DENIED, TIMEOUT, EXECUTION_FAILED, VALIDATION_FAILED, GIT_CONFLICT and UNKNOWN_ERROR;\n" +
			"steward's rules say which of them are retried.",
		Example: "  steward task fail 7c0e --code FILE_NOT_FOUND --message \"the report is missing\" --file report.md\n" +
			"  steward task fail 7c0e --code GIT_CONFLICT --message \"merge by hand\" --file main.go --line 12",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeNames(a, "task"),
		RunE: func(c *cobra.Command, args []string) error {
			var missing []string
			for _, f := range []struct{ flag, value string }{{"--code CODE", h.failure.Code}, {"--message TEXT", h.failure.Message}} {
				if strings.TrimSpace(f.value) == "" {
					missing = append(missing, f.flag)
				}
			}
			switch {
			case len(missing) > 0:
				return cli.Usagef("fail task %s: missing %s", terminal.OneWord(args[0]), strings.Join(missing, " and "))
			case h.failure.Line < 0:
				return cli.Usagef("fail task %s: --line %d: lines count from 1", terminal.OneWord(args[0]), h.failure.Line)
			}
			if h.failure.Severity == "" {
				h.failure.Severity = task.Severity(h.failure.Code)
			}
			h.ending.Failure = &h.failure
			return endByHand(c.Context(), a, h, args[0], "fail task "+args[0])
		},
	}
	h.flags(c)
	f := c.Flags()
	f.StringVar(&h.failure.Code, "code", "", "the error's `CODE`")
	f.StringVar(&h.failure.Message, "message", "", "error message `TEXT`")
	f.StringVar(&h.failure.Severity, "severity", "", "`WORD`: fatal, error or warning (default: the code's)")
	f.StringVar(&h.failure.File, "file", "", "the `FILE` that it is about")
	f.IntVar(&h.failure.Line, "line", 0, "line `NUMBER` in the file")
	return c
}

// endByHand writes the result that the command line describes.
func endByHand(ctx context.Context, a *cli.App, h *handEnd, id, doing string) error {
	d, detail, err := findTasks(ctx, a, h.project, id, doing)
	if err != nil {
		return err
	}
	defer d.close()
	now := time.Now()
	r, err := h.result(d, detail, now)
	if err != nil {
		return taskError(err, doing)
	}
	if err := d.Files.Finish(ctx, detail.ID, r, now); err != nil {
		return taskError(err, doing)
	}
	return acknowledge(a, "finish", detail.ID, r.Status)
}

func (h *handEnd) result(d *taskClient, detail agentstatus.Detail, now time.Time) (r agentstatus.Result, err error) {
	e := &h.ending
	e.Agent = executor
	if detail.Request != nil && detail.Request.Target != "" {
		e.Agent = detail.Request.Target
	}
	if k := detail.Claim; k != nil {
		e.Agent, e.Took = k.Agent, now.Sub(k.At)
	}
	e.Artifacts, e.Modified = absolute(d.Dir, e.Artifacts), absolute(d.Dir, e.Modified)
	if h.failure.File != "" {
		h.failure.File = absolute(d.Dir, []string{h.failure.File})[0]
	}
	if e.Metrics, err = task.ParseParameters("--metric", h.metrics); err != nil {
		return r, err
	}
	if h.document != "" {
		if e.Document, err = input(h.document); err != nil {
			return r, fmt.Errorf("read the result: %w", err)
		}
	}
	return e.Result(now)
}
