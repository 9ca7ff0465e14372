package tasks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
)

// The two agents of protocol 000: the default source and the default target of a request.
const (
	orchestrator = "livhana-layer1.1"
	executor     = "codex-cursor"
)

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
		return speaker.Observe(ctx, protocol.ScanOrder{Now: now, Since: now}), cfg.Heartbeat.Dead, nil
	}
	return &taskClient{p, a}, nil
}

func (d *taskClient) close() { d.Files.Close() }

// taskError maps the errors of a project's tasks to their messages and exit codes.
func taskError(err error, doing string) error {
	var invalid *protocol.InvalidError
	var ambiguous *agentstatus.AmbiguousError
	var said terminal.Reported
	switch {
	case err == nil || errors.As(err, &said) || errors.As(err, new(cli.UsageError)):
		return err
	case errors.As(err, &invalid):
		return cli.UsageError{Err: problemLines(doing, invalid.Problems)}
	case errors.As(err, &ambiguous):
		return terminal.Report(errors.Join(supervisor.ErrNoSubject, err), "%s: %s can mean several tasks: %s", doing, ambiguous.Prefix, strings.Join(ambiguous.IDs, ", "))
	case errors.Is(err, protocol.ErrNoTask):
		return terminal.Report(errors.Join(supervisor.ErrNoSubject, err), "%s: %v; see: steward tasks", doing, err)
	case errors.Is(err, jsonfile.ErrExist):
		which := strings.TrimSuffix(err.Error(), ": "+jsonfile.ErrExist.Error())
		return terminal.Report(errors.Join(supervisor.ErrRefused, err), "%s: %s is there already; use another id, or none", doing, which)
	case errors.Is(err, protocol.ErrUnsupported):
		text := strings.TrimSuffix(err.Error(), ": "+protocol.ErrUnsupported.Error())
		if _, instead, ok := strings.Cut(text, protocol.ErrUnsupported.Error()+": "); ok {
			text = instead
		}
		return terminal.Report(errors.Join(supervisor.ErrRefused, err), "%s: %s", doing, text)
	case errors.Is(err, protocol.ErrEnded), errors.Is(err, protocol.ErrTaken), errors.Is(err, task.ErrNeedsHuman):
		return terminal.Report(errors.Join(supervisor.ErrRefused, err), "%s: %v", doing, err)
	}
	return terminal.Report(err, "%s: %v", doing, err)
}

// problemLines formats one line per problem.
func problemLines(doing string, problems []string) error {
	problems = slices.Compact(problems) // two checks may find the same
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

// acknowledge prints that a task was changed.
func acknowledge(a *cli.App, verb, id, state string) error {
	return a.Report(map[string]string{"verb": verb, "task_id": id, "state": state}, "%s", terminal.Clean(fmt.Sprintf("task %s: %s", id, state)))
}

func (d *taskClient) unfollow(ctx context.Context, detail agentstatus.Detail) {
	if r := detail.Request; r != nil && r.Source != "" {
		_ = d.Files.Unfollow(ctx, r.Source, detail.ID, time.Now()) // the next submit cleans it up
	}
}

// humanName is the name of the person asked for decisions.
func humanName(a *cli.App) string {
	cfg, _, err := a.Settings()
	if err != nil || cfg.Human.Name == "" {
		return "a human"
	}
	return cfg.Human.Name
}
