package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/lock"
	joinrun "github.com/livhana/steward/join/run"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/handoffs"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func newLockCommand(a *cli.App) *cobra.Command {
	var project string
	c := &cobra.Command{
		Use:   "lock",
		Short: "Real locks: run a command under one, list them, break one",
		Long: "lock keeps agents and their commands from doing the same thing at once. A lock of steward's is one of the kernel:\n" +
			"it ends when its holder does, however that dies, and each holding has a number that only grows. Where the project\n" +
			"has a .claude/state.json with locks, agents that only read that see it there, and their own locks are respected.",
	}
	c.PersistentFlags().StringVar(&project, "project", ".", "the project's `DIR`")
	c.AddCommand(newLockRunCommand(a, &project), newLockListCommand(a, &project), newLockBreakCommand(a, &project))
	return c
}

// locksOf opens the locks of a project.
func locksOf(a *cli.App, project string) (*lock.Locks, config.Config, error) {
	dir, err := cli.ProjectDir("lock", project)
	if err != nil {
		return nil, config.Config{}, err
	}
	cfg, _, err := a.Settings()
	if err != nil {
		cfg = config.Defaults() // a command must not fail because of the daemon's configuration
	}
	granted := lock.Open(dir, lock.Options{Now: time.Now})
	m := handoffs.OpenMirror(dir, handoffs.MirrorOptions{
		Options: handoffs.Options{Guard: daemon.GuardLock, Granted: granted.Granted},
		TTL:     cfg.Locks.TTL, Watch: cfg.Locks.Watch, Life: cfg.Heartbeat.Of(handoffs.Name, &protocol.Agent{}).Dead,
	})
	return lock.Open(dir, lock.Options{Now: time.Now, Mirror: m}), cfg, nil
}

// nothing is an error with the exit code for a missing subject.
type nothing struct{ error }

func (n nothing) Unwrap() error { return n.error }

func (nothing) Is(target error) bool { return target == supervisor.ErrNoSubject }

// lockError maps a lock error to its exit code.
func lockError(err error) error {
	switch {
	case errors.Is(err, lock.ErrName):
		return cli.UsageError{Err: err}
	case errors.Is(err, lock.ErrHeld):
		return supervisor.Refuse(err)
	case errors.Is(err, lock.ErrNothing):
		return nothing{err}
	}
	return err
}

type lockRun struct {
	app     *cli.App
	request lock.Request
	wait    time.Duration
}

func newLockRunCommand(a *cli.App, project *string) *cobra.Command {
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
	outliveReader()
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

// userName is the name of the user that runs the command.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return cmp.Or(os.Getenv("USER"), "somebody")
}

// lockWords describes in one line the holder of a lock, and since when it holds the lock.
func lockWords(s lock.Status) string {
	if s.Kind == lock.KindContent {
		return terminal.Clean(s.Why)
	}
	if !s.Alive {
		return terminal.Clean(s.Why)
	}
	words := "held"
	if s.Agent != "" {
		words += " by " + terminal.Clean(s.Agent)
	}
	if s.PID != 0 {
		words += fmt.Sprintf(", process %d", s.PID)
	}
	if len(s.Command) > 0 {
		words += " (" + terminal.OneWord(strings.Join(s.Command, " ")) + ")"
	}
	if !s.Since.IsZero() {
		words += ", since " + s.Since.Local().Format(time.DateTime)
	}
	if s.Why != "held" {
		words += "; " + terminal.Clean(s.Why)
	}
	return words
}

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

func newLockListCommand(a *cli.App, project *string) *cobra.Command {
	var all bool
	var limit uint
	c := &cobra.Command{
		Use:   "list",
		Short: "List the locks of a project, with their holders",
		Long: "list tells of the locks that steward has granted in the project, and of those that agents entered into\n" +
			".claude/state.json by themselves. It needs no daemon, and tries no lock.",
		RunE: func(c *cobra.Command, _ []string) error {
			place, _, err := locksOf(a, *project)
			if err != nil {
				return err
			}
			defer place.Close()
			list, err := place.List(c.Context())
			shown := []lock.Status{}
			for _, s := range list {
				if all || s.State != lock.StateFree {
					shown = append(shown, s)
				}
			}
			total := len(shown)
			if limit > 0 {
				shown = shown[:min(uint(total), limit)]
			}
			if a.Output == "json" {
				doc := map[string]any{"locks": shown}
				if len(shown) < total {
					doc["total"] = total
				}
				return errors.Join(a.Print(doc), err)
			}
			var states []string
			for _, s := range shown {
				states = append(states, string(s.State))
			}
			p := a.Page()
			views.Table(p, "no locks", "how to take one: steward lock run --help", []string{"LOCK", "STATE", "AGE", "HOLDER", "PID", "FENCE", "COMMAND", "WHY"},
				lockStatusRows(p, shown), views.CountStates("lock", views.LockStates+" damaged free", states, total))
			return errors.Join(a.Write(p.String()), err)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also free locks, with their last holder")
	c.Flags().UintVar(&limit, "limit", 0, "list the first `N` only")
	return c
}

func lockStatusRows(p *terminal.Page, list []lock.Status) [][]terminal.Cell {
	var rows [][]terminal.Cell
	for _, s := range list {
		pid, fence, since := "", "", ""
		if s.PID != 0 {
			pid = strconv.Itoa(s.PID)
		}
		if s.Fence != 0 {
			fence = strconv.FormatUint(s.Fence, 10)
		}
		if !s.Since.IsZero() {
			since = strings.TrimSuffix(p.Ago(&s.Since), " ago")
		}
		rows = append(rows, []terminal.Cell{terminal.Text(s.Name), terminal.Word(s.State), terminal.Colored(since, terminal.Dim), terminal.Text(s.Agent), terminal.Text(pid), terminal.Text(fence), terminal.Text(terminal.OneWord(strings.Join(s.Command, " "))), terminal.Text(s.Why)})
	}
	const process, fencing, command = 4, 5, 6
	p.Spare(rows, views.LeastWhy, command, fencing, process)
	return rows
}

// breakGrace is the time a holder has to exit before it is killed.
const breakGrace = 10 * time.Second

func newLockBreakCommand(a *cli.App, project *string) *cobra.Command {
	var b lock.Breaking
	var yes bool
	c := &cobra.Command{
		Use:   "break NAME",
		Short: "End a holding by hand",
		Long: "break shows who holds the lock, and takes away what a dead holder has left. An agent's own entry in .claude/state.json\n" +
			"is removed; if its agent shows life, only after a confirmation. A lock that a living process holds cannot be taken from\n" +
			"it: --end-holder ends the process and all that descends from it first. A damaged record is set aside. Who broke what,\n" +
			"and why, is on record in .claude/steward/tombstones.jsonl.",
		Example: "  steward lock break deploy --why \"the build hangs since noon\" --end-holder",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			place, _, err := locksOf(a, *project)
			if err != nil {
				return err
			}
			defer place.Close()
			if b.Status, err = place.Find(c.Context(), args[0]); err != nil {
				return lockError(fmt.Errorf("lock break: %w", err))
			}
			b.By, b.Grace = userName(), breakGrace
			if err := mayBreak(a, &b, yes); err != nil {
				return err
			}
			if err := place.Break(c.Context(), b); err != nil {
				return lockError(err)
			}
			return a.Report(map[string]any{"broken": b.Status, "by": b.By, "why": b.Why}, "broken: %s", terminal.Clean(b.Status.Name))
		},
	}
	f := c.Flags()
	f.StringVar(&b.Why, "why", "", "the reason, for the record: `TEXT`")
	f.BoolVar(&b.EndHolder, "end-holder", false, "end the process that holds it, and all that descends from it")
	f.BoolVar(&yes, "yes", false, "do not ask")
	return c
}

// mayBreak shows the holder, and prompts for missing input: the reason, and confirmation to break a living holder's lock.
func mayBreak(a *cli.App, b *lock.Breaking, yes bool) error {
	s, ask := b.Status, terminal.IsTerminal(os.Stdin)
	fmt.Fprintf(a.Err, "%s: %s\n", terminal.Clean(s.Name), breakWords(s))
	if s.Kind == lock.KindReal && s.Alive && !b.EndHolder {
		return supervisor.Refuse(fmt.Errorf("lock break: its holder lives; wait for it, or end it with --end-holder"))
	}
	in := bufio.NewReader(os.Stdin)
	if strings.TrimSpace(b.Why) == "" {
		if !ask {
			return cli.Usagef("lock break: say why with --why")
		}
		fmt.Fprint(a.Err, "Why? ")
		if b.Why = answerLine(in); b.Why == "" {
			return supervisor.Refuse(errors.New("lock break: without a reason nothing is broken"))
		}
	}
	if !s.Alive || yes {
		return nil
	}
	if !ask {
		return supervisor.Refuse(errors.New("lock break: its holder shows life; say --yes if it is to be broken all the same"))
	}
	what := "its agent shows life"
	if s.Kind == lock.KindReal {
		what = "its holder, and all that descends from it, will be ended"
	}
	fmt.Fprintf(a.Err, "Attention: %s. Type the lock's name to go on: ", what)
	if answerLine(in) != s.Name {
		return supervisor.Refuse(errors.New("lock break: nothing was broken"))
	}
	return nil
}

func breakWords(s lock.Status) string {
	if s.Kind == lock.KindReal {
		return lockWords(s)
	}
	words := terminal.Clean(s.Why)
	if s.Alive && s.State != lock.StateOverdue {
		words += "; it shows life"
	}
	return words
}

func answerLine(in *bufio.Reader) string {
	line, err := in.ReadString('\n')
	if err != nil && err != io.EOF {
		return ""
	}
	return strings.TrimSpace(line)
}
