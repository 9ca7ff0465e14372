package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

// The two agents of protocol 000: the default source and the default target of a request.
const (
	orchestrator = "livhana-layer1.1"
	executor     = "codex-cursor"
)

func newTaskCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "task",
		Short: "Ask for tasks, wait for them, and work on them by hand",
		Long: "task is both sides of the work that agents give each other through tmp/agent_status/, without writing JSON by hand.\n" +
			"An orchestrator submits, waits, shows and cancels; whoever does the work by hand takes the next one, tells its\n" +
			"progress, and says that it is done or has failed. Every command works with and without a running steward.",
		Example: "  steward task submit execute --wait -- scripts/START.sh preflight\n  steward task wait 7c0e\n  steward task next --agent codex-cursor",
	}
	c.AddCommand(newTaskSubmitCommand(a), newTaskWaitCommand(a), newTaskShowCommand(a), newTaskCancelCommand(a),
		newTaskNextCommand(a), newTaskProgressCommand(a), newTaskDoneCommand(a), newTaskFailCommand(a))
	return c
}

func projectFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "project", "", "the project's `DIR` (default: the current folder)")
}

// taskClient accesses one project's tasks for a command.
type taskClient struct {
	*task.Project
	app *cli.App
}

// openTasks opens the tasks of a project, which must speak protocol 000.
func openTasks(a *cli.App, project, doing string) (*taskClient, error) {
	dir, err := cli.ProjectDir(doing, project)
	if err != nil {
		return nil, err
	}
	if !agentstatus.Detect(dir) {
		return nil, fmt.Errorf("%s: %s is not set up for tasks; first run: steward boot %s --project %s", doing, dir, orchestrator, terminal.ShellQuote(dir))
	}
	paths, err := a.Reach()
	if err != nil {
		return nil, err
	}
	p := &task.Project{Dir: dir, Files: daemon.Connect(dir), Daemon: status.NewClient(paths.Socket), Now: time.Now, MayLive: daemon.MayLive}
	p.Agents = func(ctx context.Context) (protocol.Snapshot, time.Duration, error) {
		cfg, _, err := a.Settings()
		if err != nil {
			return protocol.Snapshot{}, 0, err
		}
		ad, _ := daemon.AdapterNamed(agentstatus.Name)
		speaker := ad.Open(dir, cfg, daemon.GuardLock)
		defer speaker.Close()
		now := time.Now()
		return speaker.Observe(ctx, protocol.Look{Now: now, Since: now}), cfg.Heartbeat.Dead, nil
	}
	return &taskClient{p, a}, nil
}

func (d *taskClient) close() { d.Files.Close() }

// findTasks is openTasks for a command about one task: without --project it looks for the task in the current folder, and
// then in the other projects of this user.
func findTasks(ctx context.Context, a *cli.App, project, id, doing string) (*taskClient, agentstatus.Detail, error) {
	dirs := []string{cmp.Or(project, ".")}
	if project == "" {
		cfg, paths, err := a.Settings()
		if err != nil {
			cfg = config.Defaults()
		}
		for _, ref := range a.KnownProjects(cfg, paths) {
			dirs = append(dirs, ref.Path)
		}
	}
	var first error
	for i, dir := range dirs {
		if i > 0 && !agentstatus.Detect(dir) {
			continue
		}
		k, err := openTasks(a, dir, doing)
		if err == nil {
			var detail agentstatus.Detail
			if detail, err = k.Task(ctx, id); err == nil {
				return k, detail, nil
			}
			k.close()
			err = taskError(err, doing)
		}
		if i == 0 || errors.Is(first, agentstatus.ErrNoTask) && !errors.Is(err, agentstatus.ErrNoTask) {
			first = err
		}
	}
	return nil, agentstatus.Detail{}, first
}

// taskError maps the errors of a project's tasks to their messages and exit codes.
func taskError(err error, doing string) error {
	var invalid *agentstatus.InvalidError
	var ambiguous *agentstatus.AmbiguousError
	var said terminal.Reported
	switch {
	case err == nil || errors.As(err, &said):
		return err
	case errors.As(err, &invalid):
		return cli.UsageError{Err: problemLines(doing, invalid.Problems)}
	case errors.As(err, &ambiguous):
		return terminal.Report(errors.Join(supervisor.ErrNoSubject, err), "%s: %s can mean several tasks: %s", doing, ambiguous.Prefix, strings.Join(ambiguous.IDs, ", "))
	case errors.Is(err, agentstatus.ErrNoTask):
		return terminal.Report(errors.Join(supervisor.ErrNoSubject, err), "%s: %v; see: steward tasks", doing, err)
	case errors.Is(err, jsonfile.ErrExist):
		which := strings.TrimSuffix(err.Error(), ": "+jsonfile.ErrExist.Error())
		return terminal.Report(errors.Join(supervisor.ErrRefused, err), "%s: %s is there already; use another id, or none", doing, which)
	case errors.Is(err, agentstatus.ErrEnded), errors.Is(err, agentstatus.ErrTaken), errors.Is(err, task.ErrNeedsHuman):
		return terminal.Report(errors.Join(supervisor.ErrRefused, err), "%s: %v", doing, err)
	}
	return terminal.Report(err, "%s: %v", doing, err)
}

// problemLines formats one line per problem.
func problemLines(doing string, problems []string) error {
	if len(problems) == 1 {
		return errors.New(doing + ": " + terminal.Clean(problems[0]))
	}
	text := fmt.Sprintf("%s: %d things are wrong", doing, len(problems))
	for _, p := range problems {
		text += "\n  " + terminal.Clean(p)
	}
	return errors.New(text)
}

// maxInput bounds a document named on the command line.
const maxInput = task.MaxRequest

// input reads a document from a file, or from standard input for "-".
func input(name string) ([]byte, error) {
	f := os.Stdin
	if name != "-" {
		var err error
		if f, err = os.Open(name); err != nil {
			return nil, err
		}
		defer f.Close()
	}
	data, err := io.ReadAll(io.LimitReader(f, maxInput+1))
	if err == nil && len(data) > maxInput {
		err = fmt.Errorf("%s has more than %d KiB", name, maxInput>>10)
	}
	return data, err
}

// absolute makes typed paths absolute, relative to the project.
func absolute(dir string, names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		if all[i] = name; !filepath.IsAbs(name) {
			all[i] = filepath.Join(dir, name)
		}
	}
	return all
}

func newTaskShowCommand(a *cli.App) *cobra.Command {
	var project string
	c := &cobra.Command{
		Use:   "show TASK",
		Short: "Show everything about one task: request, attempts, progress, result",
		Long: "show reads the files of one task and says all that they tell. The beginning of the id is enough, four characters at least.\n" +
			"Why steward decided as it did is in: steward explain TASK",
		Example: "  steward task show 7c0e\n  steward task show 7c0e -o json",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeNames(a, "task"),
		RunE: func(c *cobra.Command, args []string) error {
			d, detail, err := findTasks(c.Context(), a, project, args[0], "show task "+args[0])
			if err != nil {
				return err
			}
			defer d.close()
			if a.Output == "json" {
				return a.Print(task.PageOf(d.Dir, detail))
			}
			return showTask(a, d, detail)
		},
	}
	projectFlag(c, &project)
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

func newTaskCancelCommand(a *cli.App) *cobra.Command {
	var project, why string
	c := &cobra.Command{
		Use:   "cancel TASK",
		Short: "End a task, or steward's retry of it, for good",
		Long: "cancel ends a task that has not ended: no agent will begin it, and a worker that has it in hand stops it. The beginning of\n" +
			"the id is enough. It works through the daemon where one supervises the project, else on the files themselves.",
		Example: "  steward task cancel 7c0e --why \"asked for twice\"",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeNames(a, "task"),
		RunE: func(c *cobra.Command, args []string) error {
			d, detail, err := findTasks(c.Context(), a, project, args[0], "cancel task "+args[0])
			if err != nil {
				return err
			}
			defer d.close()
			return d.cancel(c.Context(), detail, why)
		},
	}
	projectFlag(c, &project)
	whyFlag(c, &why)
	return c
}

func (d *taskClient) cancel(ctx context.Context, detail agentstatus.Detail, why string) error {
	doing := "cancel task " + detail.ID
	if detail.Cancelled || detail.State == agentstatus.StateEnded && detail.Final {
		return taskError(agentstatus.ErrEnded, doing)
	}
	if _, project, supervised := d.Supervision(ctx); supervised {
		at, err := pathSegment(protocol.Subject{Project: project, Kind: protocol.KindTask, ID: detail.ID}.String())
		if err != nil {
			return err
		}
		raw, err := postOrder(ctx, d.app, doing, "/v1/tasks/"+at+"/cancel", why)
		var remote *status.Error
		switch unseen := errors.As(err, &remote) && remote.Code == status.CodeNoSubject; {
		case err == nil:
			d.unfollow(ctx, detail)
			return cli.Present(d.app, raw, views.Carried)
		case !unseen: // the daemon has not seen a brand-new task yet
			return err
		}
	}
	if err := d.Files.Cancel(ctx, detail.ID, why, time.Now()); err != nil {
		return taskError(err, doing)
	}
	d.unfollow(ctx, detail)
	return d.app.Report(map[string]any{"verb": "cancel", "subject": "task/" + detail.ID}, "cancel task/%s: done", detail.ID)
}
