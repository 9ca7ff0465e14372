package main

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

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status/terminal"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/desktop"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol"
)

// endedCommand is the command that systemd calls after every end of the service (ExecStopPost).
func (a *app) endedCommand() *cobra.Command {
	return &cobra.Command{Use: "ended", Hidden: true, Short: "Note how the service manager saw this run end", RunE: func(*cobra.Command, []string) error {
		result := os.Getenv("SERVICE_RESULT")
		if result == "" || result == "success" {
			return nil
		}
		_, paths, err := a.settings()
		if err != nil {
			return err
		}
		return daemon.NoteVerdict(paths.State, strings.TrimSpace(result+" "+os.Getenv("EXIT_CODE")+" "+os.Getenv("EXIT_STATUS")))
	}}
}

// failedCommand is the command that systemd starts when it stops restarting steward (OnFailure).
func (a *app) failedCommand() *cobra.Command {
	return &cobra.Command{Use: "failed", Hidden: true, Short: "Release what a failed service held, and tell the human", RunE: func(c *cobra.Command, _ []string) error {
		return a.serviceFailed(c.Context(), "")
	}}
}

// serviceFailed replaces a steward that is down: it releases what that steward held, and alerts the operator.
func (a *app) serviceFailed(ctx context.Context, why string) error {
	cfg, paths, err := a.settings()
	if err != nil {
		cfg, paths = config.Defaults(), a.place()
		why = cmp.Or(why, terminal.ErrorText(err))
	}
	alone, err := daemon.LockState(paths.State)
	if errors.Is(err, platform.ErrLocked) {
		return nil // another steward is running
	}
	if err == nil {
		defer func() { _ = alone.Unlock() }()
	}
	freed := a.freeAll(ctx)
	alert := daemon.DownAlert()
	if t := daemon.ReadRun(paths.State); t != nil && why == "" {
		e := t.Ending(t.Process, "")
		why = e.How + ": " + e.Why
	}
	alert.Detail = why + ". " + terminal.Plural(freed, "held task") + " released. Look into its log, then: steward service start"
	alert.Occurrence = time.Now().UTC().Format(time.RFC3339)
	i, err := enter(paths.State, alert)
	if err != nil {
		a.logger().Error("the incident cannot be written; it is told all the same", "error", err)
	}
	fmt.Fprintf(a.out, "steward is down (%s); released %s\n", terminal.Clean(why), terminal.Plural(freed, "held task"))
	if err := callHuman(ctx, cfg.Escalate, i); err != nil {
		a.logger().Warn("nobody could be told; the incident waits", "key", i.Key, "error", err)
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
	for _, name := range cfg.Channels {
		c := o.Channel(name)
		limited, cancel := context.WithTimeout(ctx, min(c.Deadline, 15*time.Second))
		_, err := c.Deliver(limited, n)
		cancel()
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(failures) == len(cfg.Channels) && len(failures) > 0 {
		return fmt.Errorf("tell the human: %w", errors.Join(failures...))
	}
	return nil
}

// freeAll releases every hold in the files, and counts them.
func (a *app) freeAll(ctx context.Context) (freed int) {
	l := a.lookForHolds(ctx)
	defer l.close()
	for _, h := range l.tasks() {
		if h.free(ctx, protocol.ReasonStopping, "steward is down; nothing stays held") == nil {
			freed++
		}
	}
	return freed
}

func (a *app) uninstallCommand() *cobra.Command {
	var o serviceOptions
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Stop and remove the service; what steward holds is released",
		Long: "uninstall stops the service, releases what steward holds, and removes everything that install and the service have made,\n" +
			"but for the history: incidents, journal and memory, and the attempts in the projects. --purge removes that as well, and\n" +
			"names every folder that it removes. Your configuration stays.",
		Example: "  steward service uninstall\n  sudo steward service uninstall --system --purge",
		RunE:    func(c *cobra.Command, _ []string) error { return a.uninstall(c.Context(), o) },
	}
	c.Flags().BoolVar(&o.purge, "purge", false, "remove incidents, journal, memory, and steward's folders in the projects too")
	return a.serviceFlags(c, &o)
}

func (a *app) uninstall(ctx context.Context, o serviceOptions) error {
	if o.nobody() {
		return a.tellOutcome(service.Outcome{Unit: "steward.service"}, "", nothingThere)
	}
	m, who, paths, err := a.meant(o)
	if err != nil {
		return err
	}
	if !o.system && platform.IsMachineState(paths.State) {
		return refuse("the machine's unit runs as %s; to remove it: sudo steward service uninstall --system", who.User)
	}
	refs := a.projectsOf(paths, who)
	outcome, err := m.Uninstall(ctx)
	if err != nil && !errors.Is(err, service.ErrNotInstalled) {
		return lacking(err)
	}
	outcome.Notes = append(outcome.Notes, a.dismissAgents(ctx, paths)...)
	outcome.Notes = append(outcome.Notes, a.freeAs(ctx, who, paths)...)
	gone, notes := tidyUp(paths, refs, o)
	outcome.Removed = append(outcome.Removed, gone...)
	outcome.Notes = append(outcome.Notes, notes...)
	outcome.Changed = outcome.Changed || len(gone) > 0
	return a.tellOutcome(outcome, "uninstalled", nothingThere)
}

// dismissAgents ends the agents that the removed service started: no process would supervise them any more.
func (a *app) dismissAgents(ctx context.Context, paths platform.Paths) []string {
	if atWork(paths.State) {
		return nil
	}
	ended, err := a.endAgents(ctx, paths)
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

func (a *app) tellOutcome(o service.Outcome, done, nothing string) error {
	if a.output == "json" {
		return a.print(o)
	}
	p := a.page()
	renderOutcome(p, o, done, nothing)
	return a.write(p.String())
}

// projectsOf are the folders that this service supervises, and those of its last run.
func (a *app) projectsOf(paths platform.Paths, who service.Account) []config.ProjectRef {
	cfg, err := a.configOf(paths)
	if err != nil {
		cfg = config.Defaults()
	}
	refs, _ := cfg.ProjectList(who.Home, who.Home)
	return withLast(refs, cfg, paths)
}

// atWork reports whether any running steward uses this state folder: its holds must not be touched.
func atWork(state string) bool {
	lock, err := daemon.LockState(state)
	if err == nil {
		_ = lock.Unlock()
	}
	return errors.Is(err, platform.ErrLocked)
}

// freeAs releases a dead steward's holds, running as the account that owns the files.
func (a *app) freeAs(ctx context.Context, who service.Account, paths platform.Paths) []string {
	if atWork(paths.State) {
		return nil
	}
	if who.UID == os.Getuid() {
		if n := a.freeAll(ctx); n > 0 {
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
func (a *app) endAgents(ctx context.Context, paths platform.Paths) (ended int, err error) {
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
	o := keep.Options{State: paths.State, Root: root, Now: time.Now, Log: a.logger(), Environ: os.Environ(), OpenUnits: service.OpenUnits}
	cfg, _, err := a.settings()
	if err != nil {
		cfg = config.Defaults()
	}
	return keep.EndAll(ctx, o, cfg.Keep.Stop)
}
