package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/cmd/steward/doctor"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/spf13/cobra"
)

// serviceReport is the JSON output of `service status`.
type serviceReport struct {
	service.Status
	Version string         `json:"version"`           // of this program
	Running string         `json:"running,omitempty"` // version of the running steward; "" if no steward answers
	Beat    *time.Time     `json:"last_heartbeat"`
	LastEnd *status.Ending `json:"last_end,omitempty"`
	Trouble string         `json:"trouble,omitempty"` // why the service cannot work
	// Machine is the account of the machine's unit, if it is not the caller's and the caller has no service.
	Machine string `json:"machine_user,omitempty"`
}

func newServiceStatusCommand(a *cli.App) *cobra.Command {
	var o Target
	c := &cobra.Command{
		Use:     "status",
		Short:   "Show what is installed and how it is",
		Long:    "status shows what is installed, which program it starts and how that is: your own service, or else the machine's. It exits with 3 when the service does not run, and\nwith 4 when it is not installed.",
		Example: "  steward service status\n  steward service status --system -o json",
		RunE:    func(c *cobra.Command, _ []string) error { return showStatus(c.Context(), a, o) },
	}
	return targetFlags(a, c, &o)
}

func showStatus(ctx context.Context, a *cli.App, o Target) error {
	if o.isUnclaimed() {
		none := serviceReport{Status: service.Status{Manager: "systemd (machine)", State: "inactive"}, Version: a.Version}
		return showReport(a, none)
	}
	r, err := reportOf(ctx, a, o)
	if machine := (Target{System: true, User: service.MachineUser()}); !o.System && !r.Installed && machine.User != "" {
		if found, e := reportOf(ctx, a, machine); e == nil && found.Installed {
			r, err = besideMachine(r, found, machine.User, accountName()), nil
		}
	}
	if err != nil {
		return err
	}
	return showReport(a, r)
}

// besideMachine is the report for an account without its own service where the machine's unit is installed: the unit's
// report if it runs as this account, otherwise the own report with the unit's account.
func besideMachine(own, machine serviceReport, runsAs, me string) serviceReport {
	if runsAs == me {
		return machine
	}
	own.Machine = runsAs
	return own
}

// accountName is the caller's account name, or "" if it is not in the user database.
func accountName() string {
	u, err := lookUpAccount("")
	if err != nil {
		return ""
	}
	return u.Username
}

func reportOf(ctx context.Context, a *cli.App, o Target) (serviceReport, error) {
	m, who, paths, err := find(a, o)
	if err != nil {
		return serviceReport{}, err
	}
	r, err := gatherService(ctx, a.Version, m, who, paths)
	return r, wrap(err)
}

// showReport prints the report; the exit code reflects the state.
func showReport(a *cli.App, r serviceReport) error {
	switch err := cli.Tell(a, r, renderService); {
	case err != nil:
		return err
	case !r.Installed:
		return cli.Exit(cli.ExitNoSubject)
	case r.State != "active":
		return cli.Exit(cli.ExitNoDaemon)
	}
	return nil
}

func gatherService(ctx context.Context, version string, m service.Host, who service.Account, paths platform.Paths) (serviceReport, error) {
	st, err := m.Status(ctx)
	r := serviceReport{Status: st, Version: version}
	if err != nil {
		return r, err
	}
	var doc status.Document
	asked := status.NewClient(paths.Socket).Trusting(who.UID).Get(ctx, "/v1/status", &doc)
	switch t := daemon.ReadRun(paths.State); {
	case asked == nil:
		r.Running, r.LastEnd = doc.Version, doc.LastEnd
	case t == nil:
	case t.Lives():
		r.Trouble = fmt.Sprintf("process %d lives, and does not answer on the socket", t.PID)
	default:
		r.LastEnd = t.Ending(t.Process, daemon.CrashLeft(paths.State))
	}
	if _, err := os.Stat(r.Binary); r.Binary != "" && errors.Is(err, fs.ErrNotExist) {
		r.Trouble = "the program is gone: " + r.Binary
	}
	if beat, err := daemon.ReadHeartbeat(paths.State); err == nil {
		r.Beat = &beat.Beat
	}
	return r, nil
}

func renderService(p *terminal.Page, r serviceReport) {
	if !r.Installed {
		p.Line("%s: not installed%s; install it with: %s", terminal.Clean(r.Manager), detailOf(r), installHint(r.Manager))
		if r.Machine != "" {
			p.Line("  the machine's unit is installed; it runs as %s, and looks after that account's projects", terminal.Clean(r.Machine))
		}
		return
	}
	p.Styled(terminal.Bold, "%s", doctor.ServiceWords(r.Status))
	if r.Trouble != "" {
		p.Line("  trouble   %s", terminal.Clean(r.Trouble))
	}
	enabled := "not enabled: it does not start by itself"
	switch {
	case r.State == "unknown":
		enabled = "whether it is enabled is not known"
	case r.Enabled:
		enabled = "enabled"
	}
	p.Line("  unit      %s (%s)", terminal.Clean(r.Unit), enabled)
	p.Line("  program   %s", terminal.Clean(r.Binary))
	switch {
	case r.Running == "":
		p.Line("  version   no answer on the socket; this program is %s", terminal.Clean(r.Version))
	case r.Running != r.Version:
		p.Line("  version   %s runs, this program is %s; upgrade with: steward service install", terminal.Clean(r.Running), terminal.Clean(r.Version))
	default:
		p.Line("  version   %s", terminal.Clean(r.Running))
	}
	if r.Lingers != nil {
		p.Line("  lingers   %s", map[bool]string{true: "yes: it runs while you are logged out, too", false: "no: it ends with your last session"}[*r.Lingers])
	}
	if r.Beat != nil {
		p.Line("  heartbeat %s", p.Ago(r.Beat))
	}
	if r.Restarts > 0 && r.Status.Running() {
		p.Line("  restarts  %d since it was started", r.Restarts)
	}
	if e := r.LastEnd; e != nil {
		p.Line("  last end  %s", views.Ending(p, e))
	}
}

func detailOf(r serviceReport) string {
	if r.Detail == "" || r.Detail == "dead" {
		return ""
	}
	return " (" + terminal.Clean(r.Detail) + ")"
}

func installHint(manager string) string {
	if strings.Contains(manager, "machine") {
		return "sudo steward service install --system"
	}
	return "steward service install"
}
