package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/lock"
	joinrun "github.com/livhana/steward/join/run"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

type lockRun struct {
	app     *cli.App
	request lock.Request
	wait    time.Duration
}

func newRunCommand(a *cli.App, project *string) *cobra.Command {
	r := &lockRun{app: a}
	c := &cobra.Command{
		Use:   "run NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lock",
		Long: "run takes the lock, runs the command, gives the lock back, and exits with the command's exit code. It waits until the\n" +
			"lock is free; who holds it is said once. The command finds the lock's name in STEWARD_LOCK and the number of this\n" +
			"holding in STEWARD_LOCK_FENCE: larger than that of every earlier one, so that what is written with an older number can\n" +
			"be refused. The command inherits the lock: even after kill -9 of steward the lock stays taken while it runs, and what it leaves\n" +
			"behind keeps the lock until it ends.\n\n" +
			"Exit: the command's own code, 128 plus the number of the signal that ended it, 127 not found, 126 cannot be run;\n" +
			"5 could not get the lock in time.",
		Example: "  steward lock run deploy -- make deploy\n  steward lock run src/main.go --agent builder --wait 10m -- ./edit.sh\n  steward lock run nightly --no-wait -- ./backup",
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 1 || len(args) < 2 {
				return errors.New("missing argument NAME -- COMMAND")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return r.run(c, *project, args) },
	}
	f := c.Flags()
	f.StringVar(&r.request.Agent, "agent", "", "for `WHOM` (default: your user name)")
	f.DurationVar(&r.request.TTL, "ttl", 0, "over this `TIME` it is shown as overdue (default: [locks] ttl)")
	f.DurationVar(&r.wait, "wait", 0, "give up after this `TIME` (default: never)")
	f.BoolVar(&r.request.NoWait, "no-wait", false, "give up at once")
	return c
}

func (r *lockRun) run(c *cobra.Command, project string, args []string) error {
	flags := c.Flags()
	switch {
	case flags.Changed("wait") && r.request.NoWait:
		return cli.Usagef("lock run: use --wait or --no-wait, not both")
	case flags.Changed("wait") && r.wait <= 0:
		return cli.Usagef("lock run: --wait %s must be more than zero (or: --no-wait)", r.wait)
	case flags.Changed("ttl") && r.request.TTL <= 0:
		return cli.Usagef("lock run: --ttl %s must be more than zero", r.request.TTL)
	}
	place, cfg, err := locksOf(r.app, project)
	if err != nil {
		return err
	}
	defer place.Close()
	cli.OutliveReader()
	r.request.Name, r.request.TTL = args[0], cmp.Or(r.request.TTL, cfg.Locks.TTL)
	r.request.Agent, r.request.Waiting = cmp.Or(r.request.Agent, userName()), func(s lock.Status) {
		r.tell(fmt.Sprintf("waiting for the lock %s: %s", terminal.Clean(s.Name), lockWords(s)))
	}
	r.request.Wait = r.wait
	code, err := place.Run(c.Context(), r.request, lock.Program{Argv: args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Tell: r.tell, Foreground: inForeground})
	return r.ended(code, err)
}

// ended returns the command's exit code as ours. A later error is printed, and does not change the code.
func (r *lockRun) ended(code int, err error) error {
	var start *joinrun.StartError
	var held *lock.HeldError
	switch {
	case errors.Is(err, context.Canceled):
		return cli.Exit(joinrun.CodeSignal + 2)
	case errors.As(err, &start):
		return cli.NotStarted(errors.New(terminal.ErrorText(err)), start.Code)
	case errors.As(err, &held):
		return supervisor.Refuse(fmt.Errorf("lock run: could not get the lock %s: %s", terminal.Clean(held.Status.Name), lockWords(held.Status)))
	case err != nil && code == 0:
		return lockError(fmt.Errorf("lock run: %w", err))
	case err != nil:
		r.tell(terminal.ErrorText(err))
	}
	if code != 0 {
		return cli.Exit(code)
	}
	return nil
}

func (r *lockRun) tell(line string) { fmt.Fprintln(r.app.Err, "steward: "+line) }

// inForeground reports whether we are in the foreground of our terminal: then a keyboard interrupt reaches every program
// that we started, and must not be forwarded again.
func inForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
