package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/livhana/steward/cmd/steward/gate"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/role"
	joinrun "github.com/livhana/steward/join/run"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/join/worker"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

// workerFlags are the flags of steward worker.
type workerFlags struct {
	agent, role, protocol, project string
	jobs                           int
	once, drain                    bool
	command                        []string // for a role, or for the tasks of protocol 000 that are no scripts
}

func newWorkerCommand(a *cli.App) *cobra.Command {
	var f workerFlags
	c := &cobra.Command{
		Use:   "worker (--agent NAME | --role NAME) [flags] [-- COMMAND [ARG]...]",
		Short: "Take an agent's tasks, run them, and write their results",
		Long: "worker is the side of protocol 000 that executes. It takes the tasks of one agent, the most urgent first and only while\n" +
			"the machine has room, beats while it works, and writes a result for each. Several workers may serve one agent: each\n" +
			"task is run by one of them. It works with and without a running steward.\n\n" +
			"execute runs the script as it is named, without a shell. research, validate and deploy run the commands under\n" +
			"[worker.commands]: they get the request as JSON on their input, and may end their output with a JSON object of the\n" +
			"result's fields (status, result, errors, next_actions, summary). What a command may see, name and write to is set\n" +
			"under [worker].\n\n" +
			"SIGINT or SIGTERM ends it: tasks that have not begun are given back, what runs is stopped with all that it started,\n" +
			"and gets a failed result with the code WORKER_STOPPED, which the retry rules may run again. Results that cannot be\n" +
			"written are tried until [worker] stop is over.\n\n" +
			"--role plays a role in any protocol: for each task of the role it starts COMMAND, or the command of the role's [[role]]\n" +
			"row. {prompt}, {task}, {file} and {project} in its arguments are replaced; without {prompt} the prompt is its input. The\n" +
			"run reports with steward task; else its exit code and its last message become the report. An orchestrator without a\n" +
			"command is played by steward itself: it does what follows from the protocol's document.",
		Example: "  steward worker --agent codex-cursor\n  steward worker --agent codex-cursor --jobs 2 --drain\n" +
			"  steward worker --role builder -- claude -p {prompt}\n  steward worker --role ORCHESTRATOR --protocol envelope",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, argv []string) error {
			f.command = argv
			switch {
			case len(argv) > 0 && c.ArgsLenAtDash() != 0:
				return cli.Usagef("worker: put -- before the command")
			case f.role != "" && f.agent != "":
				return cli.Usagef("worker: use --agent or --role, not both")
			case f.role != "" && !cli.IsAgentName(f.role):
				return cli.Usagef("worker: --role %q: it cannot be used as a file name", f.role)
			case f.role != "":
			case f.protocol != "":
				return cli.Usagef("worker: --protocol needs --role; --agent is for protocol 000")
			case f.agent == "":
				return cli.Usagef("worker: name the agent whose tasks it takes: --agent codex-cursor")
			case !cli.IsAgentName(f.agent):
				return cli.Usagef("worker: --agent %q: it cannot be used as a file name", f.agent)
			case f.once && f.drain:
				return cli.Usagef("worker: use --once or --drain, not both")
			case f.jobs < 1 || f.jobs > 256:
				return cli.Usagef("worker: --jobs %d: use 1 to 256", f.jobs)
			}
			cli.OutliveReader()
			if f.role != "" {
				return runRole(c.Context(), a, f, c.Flags().Changed("jobs"))
			}
			return runWorker(c.Context(), a, f)
		},
	}
	c.Flags().StringVar(&f.agent, "agent", "", "whose tasks it takes: `NAME`")
	c.Flags().StringVar(&f.role, "role", "", "play the role `NAME` of a protocol")
	c.Flags().StringVar(&f.protocol, "protocol", "", "the role's protocol `NAME` (default: that of its [[role]] row, or the only one that the project speaks)")
	cli.ProjectFlag(c, &f.project)
	c.Flags().IntVar(&f.jobs, "jobs", 1, "run at most `N` tasks at once")
	c.Flags().BoolVar(&f.once, "once", false, "take at most one task, then end with its exit code; 4 when no task can be taken")
	c.Flags().BoolVar(&f.drain, "drain", false, "end when no task is left to take")
	return c
}

func runWorker(ctx context.Context, a *cli.App, f workerFlags) error {
	dir, err := cli.ProjectDir("worker", f.project)
	if err != nil {
		return err
	}
	cfg, paths, err := a.Settings()
	if err != nil {
		return err
	}
	o, err := workerOptions(a, cfg, paths, dir)
	if err != nil {
		return err
	}
	o.Agent, o.Jobs, o.Once, o.Drain = f.agent, f.jobs, f.once, f.drain
	o.Beat = min(o.Beat, cfg.Heartbeat.For(agentstatus.Name, f.agent).Pace())
	if len(f.command) > 0 {
		o.Research, o.Validate, o.Deploy, o.DeployDryRun = f.command, f.command, f.command, nil
		o.Prompt = func(w agentstatus.Work, path string) string {
			return role.Prompt(o.Program, agentstatus.Name, f.agent, dir, "", &protocol.Assignment{ID: w.TaskID, Title: w.Title, Source: w.Source, Type: w.Type,
				Attempt: w.Attempt, Path: path, Message: w.Raw})
		}
	}
	own := &gate.Own{Project: dir, Limits: cfg.Capacity, Several: f.jobs > 1}
	o.Gate = func(ctx context.Context, id string, throttle *float64) (bool, string, time.Duration) {
		if gate.Supervised(ctx, a, dir) {
			return gate.Ask(ctx, a, status.AdmitOrder{Project: dir, Task: id, Throttle: throttle})
		}
		return own.Admit(ctx, capacity.Waiter{Subject: protocol.Subject{Project: dir, Kind: protocol.KindTask, ID: id}}, throttle)
	}
	o.Supervised = func() bool {
		// Do not cancel it while the worker ends: an aborted request would look like "there is no daemon".
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return gate.Supervised(ctx, a, dir)
	}
	o.Client = daemon.Connect(dir)
	defer o.Client.Close()
	var unwatch func()
	if o.Hints, unwatch, err = task.Hints(task.Folders(dir)); err != nil {
		fmt.Fprintln(a.Err, "steward worker: folders cannot be watched; tasks are looked for every [worker] poll:", terminal.OneWord(err.Error()))
	}
	defer unwatch()
	tally, err := worker.New(o).Run(ctx)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return workerExit(f, tally)
}

// workerOptions are what all workers in a project have in common.
func workerOptions(a *cli.App, cfg config.Config, paths platform.Paths, dir string) (worker.Options, error) {
	o := worker.Options{Project: dir, Temp: os.TempDir(),
		// A steward inside a task finds the daemon even without the variables that the confinement removes.
		Environ: joinrun.WithVariable(os.Environ(), "STEWARD_SOCKET", paths.Socket),
		Cores:   runtime.NumCPU(), Memory: worker.TotalMemory(), Now: time.Now,
		Say: func(text string) { fmt.Fprintln(a.Err, "steward worker: "+terminal.Clean(text)) }}
	var err error
	if o.Settings, err = workerSettings(cfg); err != nil {
		return o, fmt.Errorf("worker: %w", err)
	}
	if o.Program, err = os.Executable(); err != nil {
		return o, fmt.Errorf("worker: find steward itself: %w", err)
	}
	self, err := proc.Inspect(os.Getpid())
	if err != nil {
		return o, fmt.Errorf("worker: %w", err)
	}
	o.Process = protocol.Identity(self)
	return o, nil
}

// workerExit maps the worker's end to the exit code.
func workerExit(f workerFlags, t worker.Tally) error {
	switch {
	case len(t.Unsaved) > 0:
		return cli.Exit(cli.ExitFailed)
	case f.once && t.Last == nil:
		return cli.Exit(cli.ExitNoSubject)
	case f.once:
		if code := task.ExitCode(agentstatus.Detail{Result: t.Last}); code != 0 {
			return cli.Exit(code)
		}
	}
	return nil
}

// workerSettings converts the configuration into the worker's settings.
func workerSettings(cfg config.Config) (worker.Settings, error) {
	w := cfg.Worker
	s := worker.Settings{Poll: w.Poll, Beat: w.Beat, Stop: w.Stop, Output: w.Output, Keep: w.Keep, Confine: w.Confine, Environment: w.Environment,
		Research: w.Commands.Research, Validate: w.Commands.Validate, Deploy: w.Commands.Deploy, DeployDryRun: w.Commands.DeployDryRun,
		Timeout: cfg.Tasks.Timeout, MaxTimeout: cfg.Tasks.MaxTimeout}
	var errs [3]error
	s.Paths, errs[0] = expandAll("worker.paths", w.Paths)
	s.Programs, errs[2] = expandAll("worker.programs", w.Programs)
	s.Writable, errs[1] = expandAll("worker.writable", w.Writable)
	return s, errors.Join(errs[:]...)
}

func expandAll(key string, paths []string) ([]string, error) {
	home, _ := os.UserHomeDir()
	var list []string
	for _, path := range paths {
		full, err := config.Expand(path, home, "/")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		list = append(list, full)
	}
	return list, nil
}
