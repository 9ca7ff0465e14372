package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/livhana/steward/cmd/steward/gate"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/exec"
	"github.com/livhana/steward/join/keep"
	joinrun "github.com/livhana/steward/join/run"
	"github.com/livhana/steward/join/worker"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

// execOptions are the flags of exec.
type execOptions struct {
	agent, project, restart string
	throttle                float64
	noWait, leave, now      bool
}

func newExecCommand(a *cli.App) *cobra.Command {
	var o execOptions
	await := 0
	c := &cobra.Command{
		Use:   "exec [flags] -- CMD [ARG]...",
		Short: "Run any program as an agent: registered, with a heartbeat, when there is room",
		Long: "exec runs a program in the foreground and makes an agent of it: it waits for the capacity gate, enters the program\n" +
			"in the project's registry, has its heartbeat kept while it lives, and ends what it leaves behind. The terminal is the\n" +
			"program's own. exec ends with the program's exit code: 128 and the signal's number if a signal ended it, 127 if it was\n" +
			"not found, 126 if it cannot be run. It works without a daemon, and in folders that speak no protocol yet.\nIn a project that speaks another protocol than 000 alone, a program with --agent is entered where that protocol lists its agents.\n\n" +
			"Started by a person it waits for memory and open files only, not for a busy processor. A person is who has standard\n" +
			"input and standard error on a terminal, outside of any agent's environment (STEWARD_AGENT, CLAUDECODE and the like).\n" +
			"--now starts it in any case.",
		Example: "  steward exec -- claude\n  steward exec --agent codex-cursor --project ~/LivHana-SoT -- codex\n" +
			"  steward exec --restart on-failure --throttle 0.7 -- ./my-agent --loop",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, argv []string) error {
			if await > 0 {
				code, err := exec.AwaitGo(c.Context(), await, argv)
				if err != nil {
					return cli.UsageError{Err: err}
				}
				return cli.Exit(code)
			}
			return runExec(c.Context(), a, o, c.Flags().Changed("throttle"), argv)
		},
	}
	f := c.Flags()
	f.SetInterspersed(false) // flags after the command belong to the command
	f.StringVar(&o.agent, "agent", "", "the agent's `NAME`; exit code 5 if a living process has it on record (default: the command's, numbered then)")
	f.StringVar(&o.project, "project", "", "the project's `DIR` (default: the current folder)")
	f.StringVar(&o.restart, "restart", keep.Never, "start it again: never, on-failure or always")
	f.Float64Var(&o.throttle, "throttle", 0, "wait while the machine is fuller than this `SHARE`, from 0 to 1 (default: the configured threshold)")
	f.BoolVar(&o.noWait, "no-wait", false, "do not wait for room: exit code 5 when none exists")
	f.BoolVar(&o.now, "now", false, "start at once, however full the machine is")
	f.BoolVar(&o.leave, "leave", false, "leave the processes alone that the command leaves behind")
	f.IntVar(&await, "await-word", 0, "what a waiting child is started with")
	_ = f.MarkHidden("await-word")
	return c
}

// runExec runs a command as an agent.
func runExec(ctx context.Context, a *cli.App, o execOptions, throttled bool, argv []string) error {
	switch {
	case o.restart != keep.Never && o.restart != keep.OnFailure && o.restart != keep.Always:
		return cli.Usagef("exec: --restart %s: use never, on-failure or always", o.restart)
	case throttled && !(o.throttle > 0 && o.throttle <= 1):
		return cli.Usagef("exec: --throttle %v: use a share above 0, up to 1", o.throttle)
	case o.now && (o.noWait || throttled):
		return cli.Usagef("exec: --now starts in any case; leave out --no-wait and --throttle")
	case o.agent != "" && !cli.IsAgentName(o.agent):
		return cli.Usagef("exec: --agent %q: it cannot be used as a file name", o.agent)
	}
	job, err := execOf(a, o, argv)
	if err != nil {
		return err
	}
	defer job.Client.Close()
	if job.Other != nil {
		defer job.Other.Close()
	}
	cli.OutliveReader()
	var throttle *float64
	if throttled {
		throttle = &o.throttle
	}
	order := status.AdmitOrder{Project: job.Dir, Who: job.Name, Throttle: throttle, Person: byPerson()}
	if !o.now {
		if err := awaitRoom(ctx, a, order, o.noWait); err != nil {
			return err
		}
	}
	return execEnded(exec.Run(job))
}

// execEnded returns the command's exit code as ours.
func execEnded(code int, err error) error {
	var start *joinrun.StartError
	var taken *exec.TakenError
	switch {
	case errors.As(err, &start):
		return cli.NotStarted(err, start.Code)
	case errors.As(err, &taken):
		return terminal.Report(supervisor.ErrRefused, "exec: %v; use another name with --agent", taken)
	case err == nil && code != 0:
		return cli.Exit(code)
	}
	return err
}

// execOf finds the program and the project before exec writes any file.
func execOf(a *cli.App, o execOptions, argv []string) (job exec.Options, err error) {
	dir, err := cli.ProjectDir("exec", o.project)
	if err != nil {
		return job, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return job, fmt.Errorf("exec: find the current folder: %w", err)
	}
	path, err := joinrun.Find(argv[0], cwd, os.Getenv("PATH"))
	if err != nil {
		return job, cli.NotStarted(fmt.Errorf("exec: %s", terminal.Clean(terminal.ErrorText(err))), joinrun.NotStarted(err).Code)
	}
	cfg, _, err := a.Settings()
	if err != nil {
		cfg = config.Defaults() // an invalid daemon configuration must not stop an agent from working
	}
	name := o.agent
	if name == "" {
		if name = filepath.Base(path); !cli.IsAgentName(name) {
			return job, cli.Usagef("exec: %q is not a valid agent name; use another with --agent", name)
		}
	}
	var other protocol.Participant
	if spoken := daemon.Spoken(dir, cfg); o.agent != "" && len(spoken) == 1 { // a name of the command is no role of the protocol
		other, _ = daemon.Participate(dir, spoken[0], cfg)
	}
	return exec.Options{Path: path, Other: other, Argv: argv, Dir: dir, Name: name, Numbered: o.agent == "", Restart: o.restart, Leave: o.leave,
		Keep: daemon.KeepConfig(cfg), Keeper: daemon.SelfIdentity(), Client: daemon.Connect(dir), Registers: daemon.RegistersIn(dir, cfg),
		Pace: func(name string) time.Duration { return cfg.Heartbeat.For(agentstatus.Name, name).Pace() },
		Beat: func(ctx context.Context, name string, uptime time.Duration) {
			if gate.Supervised(ctx, a, dir) {
				return
			}
			p := agentstatus.New(dir, agentstatus.Options{Guard: daemon.GuardLock})
			defer p.Close()
			_ = p.Keep(map[string]time.Duration{name: uptime}, time.Now()) // the next beat may succeed
		},
		Now:      time.Now,
		Say:      func(text string) { fmt.Fprintln(a.Err, "steward: "+text) },
		Terminal: terminal.IsTerminal(a.Err)}, nil
}

// awaitRoom waits for the capacity gate, and prints the reason whenever it changes.
func awaitRoom(ctx context.Context, a *cli.App, o status.AdmitOrder, noWait bool) error {
	said := ""
	for {
		ok, why, again := gate.Ask(ctx, a, o)
		switch {
		case ctx.Err() != nil:
			return cli.Exit(joinrun.CodeSignal + 2)
		case ok && said != "":
			fmt.Fprintln(a.Err, "steward: there is room now")
			return nil
		case ok:
			return nil
		case noWait:
			return terminal.Report(supervisor.ErrRefused, "exec: %s", why)
		}
		if gist := worker.Gist(why); gist != said {
			said = gist
			fmt.Fprintln(a.Err, "steward: waiting for room: "+terminal.Clean(why)+"; or start at once with --now")
		}
		if cli.Sleep(ctx, min(again, supervisor.AskAgain)) != nil {
			return cli.Exit(joinrun.CodeSignal + 2)
		}
	}
}

// newRunTaskCommand is started by steward itself, as the shim process between a worker and a command (join/run).
func newRunTaskCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{Use: "run-task", Hidden: true, Short: "Run one command as a tree of processes that ends as one", RunE: func(*cobra.Command, []string) error {
		return joinrun.Shim(os.Stdin, a.Out, time.Now)
	}}
}

// agentMarks are environment variables that agents set for the processes they start.
var agentMarks = []string{"STEWARD_AGENT", "STEWARD_TASK_ID", "AI_AGENT", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_SANDBOX", "CODEX_THREAD_ID",
	"CURSOR_AGENT", "GEMINI_CLI", "OPENCODE"}

// byPerson reports whether a user starts this command: standard input and standard error are a terminal, and no
// environment variable shows that an agent drives that terminal.
func byPerson() bool {
	return isPerson(terminal.IsTerminalFile(os.Stdin) && terminal.IsTerminalFile(os.Stderr), os.LookupEnv)
}

func isPerson(terminal bool, lookup func(string) (string, bool)) bool {
	for _, name := range agentMarks {
		if value, set := lookup(name); set && value != "" {
			return false
		}
	}
	return terminal
}
