package tasks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/cmd/steward/gate"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

const taking = "take a task"

// forever is the value of --wait without a limit.
const forever = "forever"

// acceptance holds the flags of next and accept.
type acceptance struct {
	place
	messageKeys
	agent     string
	pid       int
	estimate  string
	questions []string
}

func (k *acceptance) flags(c *cobra.Command) {
	f := c.Flags()
	k.place.flags(c)
	f.StringVar(&k.agent, "agent", executor, "the agent that takes the task: `NAME` (in other protocols: the run's own, else any agent)")
	f.IntVar(&k.pid, "pid", 0, "the `ID` of the process that works on it")
	f.StringVar(&k.estimate, "estimate", "", "envelope: when it will be done, a time or a span of time: `TEXT`")
	f.StringArrayVar(&k.questions, "question", nil, "envelope: what must be clarified: `TEXT` (may be repeated)")
	f.StringArrayVar(&k.set, "set", nil, "a key of the message, by its path with dots: `PATH=VALUE`; JSON where it parses, else text (may be repeated)")
}

// read returns what the flags say.
func (k *acceptance) read(c *cobra.Command, doing string) (protocol.Acceptance, error) {
	all := protocol.Acceptance{Agent: role("", ""), Estimate: k.estimate, Questions: k.questions}
	if c.Flags().Changed("agent") {
		all.Agent = k.agent
		if !cli.IsAgentName(k.agent) {
			return all, cli.Usagef("%s: --agent %q: the name contains characters that a file name cannot have", doing, k.agent)
		}
	}
	var err error
	if c.Flags().Changed("pid") {
		if all.Worker, err = cli.ProcessOf(doing, k.pid); err != nil {
			return all, err
		}
	}
	all.Fields, _, err = k.messageKeys.read()
	return all, err
}

func newNextCommand(a *cli.App) *cobra.Command {
	var k acceptance
	var wait string
	c := &cobra.Command{
		Use:   "next",
		Short: "Take the next task in hand, and print its request",
		Long: "next claims the best task that waits for an agent: by priority, then age, and only if there is room for it. It prints\n" +
			"the request; no other agent gets the task from then on. End it with `steward task done` or `steward task fail`.\n\n" +
			"With --pid the process is recorded as the one that works on it: when it dies, the task is known to be lost at once.\n" +
			"Without, the claim stands until the task is done, has failed or is cancelled. It exits with 4 when none exists, and says\n" +
			"what waits all the same: a task that is held, what keeps it, and when it may come.",
		Example: "  steward task next --agent codex-cursor --pid $$\n  steward task next --agent codex-cursor --wait=10m -o json\n" +
			"  steward task next --agent DEVELOPER --estimate \"2 hours\"",
		RunE: func(c *cobra.Command, _ []string) error {
			patience, err := waitTime(wait)
			if err != nil {
				return err
			}
			return takeNext(a, c, &k, patience)
		},
	}
	k.flags(c)
	c.Flags().StringVar(&wait, "wait", "", "wait for a task, at most this `DURATION` (--wait alone: without limit)")
	c.Flags().Lookup("wait").NoOptDefVal = forever
	return c
}

func takeNext(a *cli.App, c *cobra.Command, k *acceptance, patience time.Duration) error {
	mine, err := k.read(c, taking)
	if err != nil {
		return taskError(err, taking)
	}
	dir, name, err := k.choose(a, taking)
	if err != nil {
		return err
	}
	if err := acceptFits.check(c, name, taking); err != nil {
		return err
	}
	if name != agentstatus.Name {
		p, err := participate(a, dir, name, taking)
		if err != nil {
			return err
		}
		defer p.Close()
		return p.next(c.Context(), mine, patience)
	}
	d, err := openTasks(a, dir, taking)
	if err != nil {
		return err
	}
	defer d.close()
	return d.next(c.Context(), agentstatus.Claim{Agent: cmp.Or(mine.Agent, executor), Worker: mine.Worker}, patience)
}

func newAcceptCommand(a *cli.App) *cobra.Command {
	var k acceptance
	c := &cobra.Command{
		Use:   "accept TASK",
		Short: "Take one named task",
		Long: "accept claims a task that waits for an agent; no other agent gets it from then on. It is `next` for a task that you know:\n" +
			"it does not ask whether the machine has room for it. A task that is held or blocked is refused (5).",
		Example: "  steward task accept handoff-7 --agent builder --pid $$\n  steward task accept dev_chat_msg_001 --estimate \"2 hours\" --question \"Which markdown?\"",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cli.CompleteNames(a, "task"),
		RunE: func(c *cobra.Command, args []string) error {
			doing := "accept task " + args[0]
			mine, err := k.read(c, doing)
			if err != nil {
				return taskError(err, doing)
			}
			f, err := k.find(c.Context(), a, args[0], doing)
			if err != nil {
				return err
			}
			defer f.close()
			if err := acceptFits.check(c, f.protocol(), doing); err != nil {
				return err
			}
			return f.accept(c.Context(), mine, doing)
		},
	}
	k.flags(c)
	return c
}

// accept takes the task.
func (f *found) accept(ctx context.Context, k protocol.Acceptance, doing string) error {
	if f.other != nil {
		k.Agent = cmp.Or(k.Agent, f.task.Agent)
		r, err := f.other.Accept(ctx, f.task.ID, k, time.Now())
		if err != nil {
			return taskError(err, doing)
		}
		return f.other.receipt(r)
	}
	if r := f.detail.Request; k.Agent == "" && r != nil {
		k.Agent = r.Target
	}
	list, err := f.Files.Open(ctx, k.Agent, time.Now())
	if err != nil {
		return taskError(err, doing)
	}
	at := slices.IndexFunc(list, func(w agentstatus.Work) bool { return w.TaskID == f.detail.ID })
	if at < 0 {
		return terminal.Report(supervisor.ErrRefused, "%s: %s cannot take it now: %s", doing, terminal.Clean(k.Agent), task.Standing(f.detail))
	}
	if err := f.Files.Claim(ctx, list[at], agentstatus.Claim{Agent: k.Agent, Worker: k.Worker}, time.Now()); err != nil {
		return taskError(err, doing)
	}
	return acknowledge(f.app, "accept", f.detail.ID, agentstatus.StateRunning)
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
