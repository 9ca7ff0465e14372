package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/cmd/steward/holds"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/desktop"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

// newEndedCommand is the command that systemd calls after every end of the service (ExecStopPost).
func newEndedCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{Use: "ended", Hidden: true, Short: "Note how the service manager saw this run end", RunE: func(*cobra.Command, []string) error {
		result := os.Getenv("SERVICE_RESULT")
		if result == "" || result == "success" {
			return nil
		}
		_, paths, err := a.Settings()
		if err != nil {
			return err
		}
		return daemon.NoteVerdict(paths.State, strings.TrimSpace(result+" "+os.Getenv("EXIT_CODE")+" "+os.Getenv("EXIT_STATUS")))
	}}
}

// newFailedCommand is the command that systemd starts when it stops restarting steward (OnFailure).
func newFailedCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{Use: "failed", Hidden: true, Short: "Release what a failed service held, and tell the human", RunE: func(c *cobra.Command, _ []string) error {
		return tellDown(c.Context(), a, "")
	}}
}

// tellDown replaces a steward that is down: it releases what that steward held, and alerts the operator.
func tellDown(ctx context.Context, a *cli.App, why string) error {
	cfg, paths, err := a.Settings()
	if err != nil {
		cfg, paths = config.Defaults(), a.Paths()
		why = cmp.Or(why, terminal.ErrorText(err))
	}
	alone, err := daemon.LockState(paths.State)
	if errors.Is(err, platform.ErrLocked) {
		return nil // another steward is running
	}
	if err == nil {
		defer func() { _ = alone.Unlock() }()
	}
	freed := releaseAll(ctx, a)
	alert := daemon.DownAlert()
	if t := daemon.ReadRun(paths.State); t != nil && why == "" {
		e := t.Ending(t.Process, "")
		why = e.How + ": " + e.Why
	}
	alert.Detail = why + ". " + terminal.Plural(freed, "held task") + " released. Look into its log, then: steward service start"
	alert.Occurrence = time.Now().UTC().Format(time.RFC3339)
	i, err := enter(paths.State, alert)
	if err != nil {
		a.Logger().Error("the incident cannot be written; it is told all the same", "error", err)
	}
	fmt.Fprintf(a.Out, "steward is down (%s); released %s\n", terminal.Clean(why), terminal.Plural(freed, "held task"))
	if err := callHuman(ctx, cfg.Escalate, i); err != nil {
		a.Logger().Warn("no channel delivered it; the incident waits", "key", i.Key, "error", err)
	}
	return nil
}

// enter records an alert in the ledger. If the write fails, the incident is still returned for delivery.
func enter(state string, alert rules.Alert) (escalate.Incident, error) {
	bare := escalate.Incident{Key: "steward_down", Content: escalate.Content{Summary: alert.Summary, Detail: alert.Detail}, Origin: escalate.Origin{Spoken: alert.Spoken}}
	ledger, _, err := escalate.Open(filepath.Join(state, "incidents"))
	if err != nil {
		return bare, err
	}
	i, _, err := ledger.Raise(alert, time.Now())
	if i.Key == "" {
		i = bare
	}
	return i, err
}

// callHuman tries every configured channel once: the dispatcher is down with steward. One working channel is enough.
func callHuman(ctx context.Context, cfg escalate.Config, i escalate.Incident) error {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	cfg.Ntfy.ReplyTopic = ""                                   // no process reads answers now
	o := daemon.ConnectChannels(desktop.NewPopups(), cfg, nil) // not closed, because Close would withdraw the popup
	n := escalate.Notice{Key: i.Key, Severity: protocol.Critical, Title: i.Summary, Text: i.Detail, Spoken: cmp.Or(i.Spoken, i.Summary)}
	var failures []error
	for _, c := range o.List {
		limited, cancel := context.WithTimeout(ctx, min(c.Deadline, 15*time.Second))
		_, err := c.Deliver(limited, n)
		cancel()
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", c.Name, err))
		}
	}
	if len(failures) == len(cfg.Channels) && len(failures) > 0 {
		return fmt.Errorf("tell the human: %w", errors.Join(failures...))
	}
	return nil
}

// releaseAll releases every hold in the files, and counts them.
func releaseAll(ctx context.Context, a *cli.App) (freed int) {
	l := holds.Read(ctx, a)
	defer l.Close()
	for _, h := range l.Tasks() {
		if h.Free(ctx, protocol.ReasonStopping, "steward is down; nothing stays held") == nil {
			freed++
		}
	}
	return freed
}

func newUninstallCommand(a *cli.App) *cobra.Command {
	var o Target
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Stop and remove the service; what steward holds is released",
		Long: "uninstall stops the service, releases what steward holds, and removes everything that install and the service have made,\n" +
			"but for the history: incidents, journal and memory, and the attempts in the projects. --purge removes that as well, and\n" +
			"names every folder that it removes. Your configuration stays.",
		Example: "  steward service uninstall\n  sudo steward service uninstall --system --purge",
		RunE:    func(c *cobra.Command, _ []string) error { return uninstall(c.Context(), a, o) },
	}
	c.Flags().BoolVar(&o.purge, "purge", false, "remove incidents, journal, memory, and steward's folders in the projects too")
	return targetFlags(a, c, &o)
}

func uninstall(ctx context.Context, a *cli.App, o Target) error {
	if o.isUnclaimed() {
		return tellOutcome(a, service.Outcome{Unit: "steward.service"}, "", nothingThere)
	}
	m, who, paths, err := find(a, o)
	if err != nil {
		return err
	}
	if !o.System && platform.IsMachineState(paths.State) {
		return refuse("the machine's unit runs as %s; to remove it: sudo steward service uninstall --system", who.User)
	}
	refs := projectsOf(a, paths, who)
	outcome, err := m.Uninstall(ctx)
	if err != nil && !errors.Is(err, service.ErrNotInstalled) {
		return wrap(err)
	}
	outcome.Notes = append(outcome.Notes, dismissAgents(ctx, a, paths)...)
	outcome.Notes = append(outcome.Notes, releaseAs(ctx, a, who, paths)...)
	gone, notes := tidyUp(paths, refs, o)
	outcome.Removed = append(outcome.Removed, gone...)
	outcome.Notes = append(outcome.Notes, notes...)
	outcome.Changed = outcome.Changed || len(gone) > 0
	return tellOutcome(a, outcome, "uninstalled", nothingThere)
}

// dismissAgents ends the agents that the removed service started: no process would supervise them any more.
func dismissAgents(ctx context.Context, a *cli.App, paths platform.Paths) []string {
	if atWork(paths.State) {
		return nil
	}
	ended, err := endAgents(ctx, a, paths)
	var notes []string
	if ended > 0 {
		notes = append(notes, "ended "+terminal.Plural(ended, "agent")+" that steward had started")
	}
	if err != nil {
		notes = append(notes, "agents that steward had started could not all be ended: "+terminal.OneWord(err.Error()))
	}
	return notes
}

const nothingThere = "not installed; nothing was there to remove"

func tellOutcome(a *cli.App, o service.Outcome, done, nothing string) error {
	return cli.Tell(a, o, func(p *terminal.Page, o service.Outcome) { renderOutcome(p, o, done, nothing) })
}

// projectsOf are the folders that this service supervises, and those of its last run.
func projectsOf(a *cli.App, paths platform.Paths, who service.Account) []config.ProjectRef {
	cfg, err := configOf(a, paths)
	if err != nil {
		cfg = config.Defaults()
	}
	refs, _ := cfg.ProjectList(who.Home, who.Home)
	return cli.WithLast(refs, cfg, paths)
}

// atWork reports whether any running steward uses this state folder: its holds must not be touched.
func atWork(state string) bool {
	lock, err := daemon.LockState(state)
	if err == nil {
		_ = lock.Unlock()
	}
	return errors.Is(err, platform.ErrLocked)
}

// releaseAs releases a dead steward's holds, running as the account that owns the files.
func releaseAs(ctx context.Context, a *cli.App, who service.Account, paths platform.Paths) []string {
	if atWork(paths.State) {
		return nil
	}
	if who.UID == os.Getuid() {
		if n := releaseAll(ctx, a); n > 0 {
			return []string{"released " + terminal.Plural(n, "held task")}
		}
		return nil
	}
	if out, err := runAs(ctx, who, paths, "release"); err != nil {
		return []string{"held tasks could not be released: " + terminal.OneWord(out+" "+err.Error())}
	}
	return nil
}

// endAgents ends all agents that this user's steward started: for removing the service while no daemon runs.
func endAgents(ctx context.Context, a *cli.App, paths platform.Paths) (ended int, err error) {
	alone, err := daemon.LockState(paths.State)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // no steward has ever run here
	}
	if err != nil {
		return 0, fmt.Errorf("end the agents: %w", err)
	}
	defer func() { _ = alone.Unlock() }()
	root, err := jsonfile.Open(paths.State)
	if err != nil {
		return 0, fmt.Errorf("end the agents: %w", err)
	}
	defer root.Close()
	o := keep.Options{State: paths.State, Root: root, Now: time.Now, Log: a.Logger(), Environ: os.Environ(), OpenUnits: service.OpenUnits}
	cfg, _, err := a.Settings()
	if err != nil {
		cfg = config.Defaults()
	}
	return keep.EndAll(ctx, o, cfg.Keep.Stop)
}
