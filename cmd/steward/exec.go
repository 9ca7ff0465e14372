package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/status/terminal"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/keep"
	joinrun "github.com/livhana/steward/join/run"
	"github.com/livhana/steward/join/worker"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
)

// The exit codes of a shell: for a command that cannot be executed, for a command that is not found, and the base for
// commands ended by a signal.
const (
	exitNotRunnable = 126
	exitNotFound    = 127
	exitSignal      = 128
)

// execOptions are the flags of exec.
type execOptions struct {
	agent, project, restart string
	throttle                float64
	noWait, leave, now      bool
}

func (a *app) execCommand() *cobra.Command {
	var o execOptions
	await := 0
	c := &cobra.Command{
		Use:   "exec [flags] -- CMD [ARG]...",
		Short: "Run any program as an agent: registered, with a heartbeat, when there is room",
		Long: "exec runs a program in the foreground and makes an agent of it: it waits for the capacity gate, enters the program\n" +
			"in the project's registry, has its heartbeat kept while it lives, and ends what it leaves behind. The terminal is the\n" +
			"program's own. exec ends with the program's exit code: 128 and the signal's number if a signal ended it, 127 if it was\n" +
			"not found, 126 if it cannot be run. It works without a daemon, and in folders that speak no protocol yet.\nIn a project that speaks other protocols than 000 alone, it runs the program and writes nothing into the project.\n\n" +
			"Started by a person it waits for memory and open files only, not for a busy processor. A person is who has standard\n" +
			"input and standard error on a terminal, outside of any agent's environment (STEWARD_AGENT, CLAUDECODE and the like).\n" +
			"--now starts it in any case.",
		Example: "  steward exec -- claude\n  steward exec --agent codex-cursor --project ~/LivHana-SoT -- codex\n" +
			"  steward exec --restart on-failure --throttle 0.7 -- ./my-agent --loop",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, argv []string) error {
			if await > 0 {
				return awaitWord(c.Context(), await, argv)
			}
			return a.exec(c.Context(), o, c.Flags().Changed("throttle"), argv)
		},
	}
	f := c.Flags()
	f.SetInterspersed(false) // flags after the command belong to the command
	f.StringVar(&o.agent, "agent", "", "the agent's `NAME`; exit code 5 if a living process has it on record (default: the command's, numbered then)")
	f.StringVar(&o.project, "project", "", "the project's `DIR` (default: the current folder)")
	f.StringVar(&o.restart, "restart", keep.Never, "start it again: never, on-failure or always")
	f.Float64Var(&o.throttle, "throttle", 0, "wait while the machine is fuller than this `SHARE`, from 0 to 1 (default: the configured threshold)")
	f.BoolVar(&o.noWait, "no-wait", false, "do not wait for room: exit code 5 when there is none")
	f.BoolVar(&o.now, "now", false, "start at once, however full the machine is")
	f.BoolVar(&o.leave, "leave", false, "leave the processes alone that the command leaves behind")
	f.IntVar(&await, "await-word", 0, "what a waiting child is started with")
	_ = f.MarkHidden("await-word")
	return c
}

// exec runs a command as an agent.
func (a *app) exec(ctx context.Context, o execOptions, throttled bool, argv []string) error {
	switch {
	case o.restart != keep.Never && o.restart != keep.OnFailure && o.restart != keep.Always:
		return usageError{fmt.Errorf("exec: --restart %s: use never, on-failure or always", o.restart)}
	case throttled && !(o.throttle > 0 && o.throttle <= 1):
		return usageError{fmt.Errorf("exec: --throttle %v: use a share above 0, up to 1", o.throttle)}
	case o.now && (o.noWait || throttled):
		return usageError{errors.New("exec: --now starts in any case; leave out --no-wait and --throttle")}
	case o.agent != "" && !isAgentName(o.agent):
		return usageError{fmt.Errorf("exec: --agent %q: it cannot be used as a file name", o.agent)}
	}
	job, err := a.newJob(o, argv)
	if err != nil {
		return err
	}
	defer job.client.Close()
	outliveReader()
	var throttle *float64
	if throttled {
		throttle = &o.throttle
	}
	order := status.AdmitOrder{Project: job.dir, Who: job.name, Throttle: throttle, Person: byPerson()}
	if !o.now {
		if err := a.awaitRoom(ctx, order, o.noWait); err != nil {
			return err
		}
	}
	return job.run(ctx)
}

// isAgentName reports whether an agent may join under this name. The name becomes a file name, and users type it in commands.
func isAgentName(name string) bool {
	return jsonfile.PlainName(name) && !strings.ContainsAny(name[:1], ".- ") && strings.TrimSpace(name) == name && len(name) <= 100
}

// newJob finds the program and the project before exec writes any file.
func (a *app) newJob(o execOptions, argv []string) (*job, error) {
	dir, err := projectDir("exec", o.project)
	if err != nil {
		return nil, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("exec: find the current folder: %w", err)
	}
	path, err := joinrun.Find(argv[0], cwd, os.Getenv("PATH"))
	if err != nil {
		failure := fmt.Errorf("exec: %s", terminal.Clean(terminal.ErrorText(err)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, notStarted(failure, exitNotFound)
		}
		return nil, notStarted(failure, exitNotRunnable)
	}
	cfg, _, err := a.settings()
	if err != nil {
		cfg = config.Defaults() // an invalid daemon configuration must not stop an agent from working
	}
	name := o.agent
	if name == "" {
		if name = filepath.Base(path); !isAgentName(name) {
			return nil, usageError{fmt.Errorf("exec: %q is not a name for an agent; use another with --agent", name)}
		}
	}
	return &job{app: a, execOptions: o, dir: dir, path: path, argv: argv, name: name, madeUp: o.agent == "", cfg: daemon.KeepConfig(cfg), limits: cfg.Heartbeat,
		client: daemon.Connect(dir), registers: daemon.RegistersIn(dir, cfg)}, nil
}

// figures matches the numbers in a reason: they vary between checks while the reason stays the same.
var figures = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9.]+`) })

// awaitRoom waits for the capacity gate, and prints the reason whenever it changes.
func (a *app) awaitRoom(ctx context.Context, o status.AdmitOrder, noWait bool) error {
	said := ""
	for {
		ok, why, again := a.gate(ctx, o)
		switch {
		case ctx.Err() != nil:
			return quiet{exitSignal + 2}
		case ok && said != "":
			fmt.Fprintln(a.err, "steward: there is room now")
			return nil
		case ok:
			return nil
		case noWait:
			return terminal.Report(supervisor.ErrRefused, "exec: %s", why)
		}
		same, _, _ := strings.Cut(why, worker.Largest) // the largest consumer changes all the time
		if reason := figures().ReplaceAllString(same, ""); reason != said {
			said = reason
			fmt.Fprintln(a.err, "steward: waiting for room: "+terminal.Clean(why)+"; or start at once with --now")
		}
		if rest(ctx, min(again, supervisor.AskAgain)) != nil {
			return quiet{exitSignal + 2}
		}
	}
}
