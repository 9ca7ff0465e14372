// Package service has the commands that install steward as a background service and look after it.
package service

import (
	"context"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/doctor"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

func NewCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "service",
		Short: "Install steward as a background service, and look after it",
		Long: "service installs steward with the machine's service manager (systemd, launchd, or what else there is). By default it is\n" +
			"your own service, which reaches your desktop and needs no root; --system installs a unit of the machine that is there\n" +
			"before anybody logs in, and runs as you, never as root.",
	}
	c.AddCommand(newInstallCommand(a), newUninstallCommand(a), newUnitCommand(a),
		newTurnCommand(a, "start", "Start the service, also after it was given up"),
		newTurnCommand(a, "stop", "Stop the service; what steward holds is released"),
		newTurnCommand(a, "restart", "Restart the service; what steward holds stays held"),
		newServiceStatusCommand(a), newEndedCommand(a), newFailedCommand(a), newAddCommand(a))
	return c
}

func newTurnCommand(a *cli.App, verb, short string) *cobra.Command {
	var o Target
	c := &cobra.Command{Use: verb, Short: short, Example: "  steward service " + verb, RunE: func(c *cobra.Command, _ []string) error {
		return control(c.Context(), a, verb, o)
	}}
	return targetFlags(a, c, &o)
}

func control(ctx context.Context, a *cli.App, verb string, o Target) error {
	m, who, paths, err := find(a, o)
	if err != nil {
		return err
	}
	if _, err := configOf(a, paths); err != nil && verb != "stop" {
		return terminal.Report(supervisor.ErrRefused, "service %s: the configuration is refused, so steward would not come up: %v", verb, err)
	}
	switch verb {
	case "start":
		forgive(paths.State, who)
		err = m.Start(ctx)
	case "stop":
		if err = m.Stop(ctx); err == nil {
			releaseAs(ctx, a, who, paths) // the daemon may have been dead already
		}
	case "restart":
		forgive(paths.State, who)
		announceRestart(a, paths.State, who)
		err = m.Restart(ctx)
	}
	if err != nil {
		return wrap(err)
	}
	st, err := m.Status(ctx)
	if err != nil {
		return wrap(err)
	}
	return a.Report(st, "%s: %s", verb, doctor.ServiceWords(st))
}
