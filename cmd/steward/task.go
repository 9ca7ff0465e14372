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

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/status/terminal"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
)

// The two agents of protocol 000: the default source and the default target of a request.
const (
	orchestrator = "livhana-layer1.1"
	executor     = "codex-cursor"
)

func (a *app) taskCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "task",
		Short: "Ask for tasks, wait for them, and work on them by hand",
		Long: "task is both sides of the work that agents give each other through tmp/agent_status/, without writing JSON by hand.\n" +
			"An orchestrator submits, waits, shows and cancels; whoever does the work by hand takes the next one, tells its\n" +
			"progress, and says that it is done or has failed. Every command works with and without a running steward.",
		Example: "  steward task submit execute --wait -- scripts/START.sh preflight\n  steward task wait 7c0e\n  steward task next --agent codex-cursor",
	}
	c.AddCommand(a.taskSubmitCommand(), a.taskWaitCommand(), a.taskShowCommand(), a.taskCancelCommand(),
		a.taskNextCommand(), a.taskProgressCommand(), a.taskDoneCommand(), a.taskFailCommand())
	return c
}

func projectFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "project", "", "the project's `DIR` (default: the current folder)")
}

// taskClient accesses one project's tasks: a client for its files, and the daemon that supervises it, if any.
type taskClient struct {
	app    *app
	dir    string
	client *agentstatus.Client
	remote *status.Client
}

// openDesk opens the tasks of a project, which must speak protocol 000.
func (a *app) openDesk(project, doing string) (*taskClient, error) {
	dir, err := projectDir(doing, project)
	if err != nil {
		return nil, err
	}
	if !agentstatus.Detect(dir) {
		return nil, fmt.Errorf("%s: %s is not set up for tasks; first run: steward boot %s --project %s", doing, dir, orchestrator, terminal.ShellQuote(dir))
	}
	paths, err := a.reach()
	if err != nil {
		return nil, err
	}
	return &taskClient{app: a, dir: dir, client: daemon.Connect(dir), remote: status.NewClient(paths.Socket)}, nil
}

func (d *taskClient) close() { d.client.Close() }

// findDesk is openDesk for a command about one task: without --project it looks for the task in the current folder, and
// then in the other projects of this user.
func (a *app) findDesk(ctx context.Context, project, id, doing string) (*taskClient, agentstatus.Detail, error) {
	dirs := []string{cmp.Or(project, ".")}
	if project == "" {
		cfg, paths, err := a.settings()
		if err != nil {
			cfg = config.Defaults()
		}
		for _, ref := range a.knownProjects(cfg, paths) {
			dirs = append(dirs, ref.Path)
		}
	}
	var first error
	for i, dir := range dirs {
		if i > 0 && !agentstatus.Detect(dir) {
			continue
		}
		k, err := a.openDesk(dir, doing)
		if err == nil {
			var detail agentstatus.Detail
			if detail, err = k.task(ctx, id); err == nil {
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

func (d *taskClient) task(ctx context.Context, id string) (agentstatus.Detail, error) {
	return d.client.Task(ctx, id, time.Now())
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
		return usageError{problemLines(doing, invalid.Problems)}
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

// picture gets the status from the supervising daemon. supervised is false if no daemon runs, or it only observes.
func (d *taskClient) picture(ctx context.Context) (doc status.Document, project string, supervised bool) {
	if d.remote.Get(ctx, "/v1/status", &doc) != nil {
		return doc, "", false
	}
	for _, p := range doc.Projects {
		if p.Mode[agentstatus.Name] == "act" && platform.SameFolder(p.Path, d.dir) {
			return doc, p.Name, true
		}
	}
	return doc, "", false
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
