package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serve answers requests on the socket.
func (h *Daemon) serve(ctx context.Context) error {
	metrics := promhttp.HandlerFor(h.metricsServer.registry, promhttp.HandlerOpts{})
	server := &status.Server{
		Fresh: h.machine.fresh,
		State: h.loop.State, Incidents: h.ledger, Journal: h.journal, Escalate: h.settings.escalation,
		Channels: h.channels.list, Reach: h.channels.reach, Reached: h.channels.reached,
		Kept: h.agents.list, Restart: h.agents.restart, HoldKept: h.agents.hold, Granted: h.grants.list, Admissions: h.admissions, Lives: mayRun,
		Do: h.loop.Do, Reply: h.answers.accept, Reload: h.reload, Metrics: metrics, Self: h.run.self(), Now: time.Now,
	}
	uid := os.Getuid()
	return server.Serve(ctx, platform.PeerListener(h.listener, func(peer int) bool { return peer == uid || peer == 0 }))
}

// onHangup reloads on SIGHUP. If the process has a controlling terminal, SIGHUP means that the terminal is gone:
// steward stops.
func (h *Daemon) onHangup(ctx context.Context) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangups:
			if terminal.HasControlling() {
				return errors.New("the terminal is gone")
			}
			notes, err := h.reload(ctx)
			if err != nil {
				h.log.Error("reload", "error", err)
			}
			for _, note := range notes {
				h.log.Warn("reload: " + note)
			}
		}
	}
}

// restartNotes names the changed settings that take effect only after a restart.
func (h *Daemon) restartNotes(now platform.Paths) (notes []string) {
	if now.Socket != h.paths.Socket {
		notes = append(notes, fmt.Sprintf("status.socket takes effect when steward is restarted; until then it is %s", h.paths.Socket))
	}
	if now.State != h.paths.State {
		notes = append(notes, fmt.Sprintf("supervisor.state_dir takes effect when steward is restarted; until then it is %s", h.paths.State))
	}
	return notes
}

func configAlert() rules.Alert {
	return ownAlert("config_refused", protocol.Medium, "config")
}

// configAccepted ends the incident about a configuration that was rejected before.
const configAccepted = "the configuration was accepted"

// reload puts the configuration file in force, and returns notes on what waits for the next start. A bad file leaves
// the old configuration in force and raises an incident.
func (h *Daemon) reload(ctx context.Context) (notes []string, err error) {
	h.options.Line.Reloading()
	defer h.sayReady()
	alert := configAlert()
	cfg, paths, err := h.options.Settings()
	var refs []config.ProjectRef
	var twins []Twin
	if err == nil {
		refs, twins, err = Projects(cfg, h.options.Dirs, h.options.Manager != "")
	}
	if err != nil {
		alert.Summary, alert.Detail, alert.Occurrence = "The new configuration was refused; the old one stays in force", err.Error(), err.Error()
		h.raise(alert)
		return nil, supervisor.Refuse(err)
	}
	h.resolve(configAlert(), configAccepted)
	tellProjects(h.options, refs, twins)
	h.settings.set(cfg, refs)
	h.metricsServer.changed.wake()
	h.channels.changed.wake()
	h.machine.gauge.SetPaths(PathsOf(refs)...)
	h.agents.apply()
	projects := openProjects(refs, cfg)
	h.log.Info("configuration reloaded", "projects", len(projects))
	return h.restartNotes(paths), h.loop.Reload(ctx, cfg.Policies(), projects)
}

// announce prints in one line which projects are supervised.
func (h *Daemon) announce() {
	h.answers.due.wake() // the answers that an earlier run recorded can be written now
	h.agents.apply()     // the gate can answer now
	var names []string
	picture := h.loop.State()
	projects := picture.Report().Projects
	for i, r := range projects {
		names = append(names, Describe(r, !picture.Projects[i].LookedAt.IsZero()))
	}
	TellHowToBoot(h.options.Out, picture)
	tellWhatWaits(h.options.Out, projects)
	if len(names) == 0 {
		names = []string{"no project is configured yet (add one to " + h.paths.Config + ", then: steward reload)"}
	}
	fmt.Fprintf(h.options.Out, "steward %s ready: %s; socket %s\n", h.options.Version, strings.Join(names, ", "), h.paths.Socket)
	h.run.ready()
	h.snapshot()
	h.sayReady()
}

// sayReady tells the service manager how many projects are supervised.
func (h *Daemon) sayReady() {
	text := "no project is configured"
	if p := h.loop.State(); p != nil && len(p.Projects) > 0 {
		text = "looks after " + terminal.Plural(len(p.Projects), "project")
	}
	h.options.Line.Ready(text)
}

// TellHowToBoot prints how to set up the folders in which a scan has found no protocol.
func TellHowToBoot(w io.Writer, p *supervisor.State) {
	for _, d := range p.Projects {
		if !d.LookedAt.IsZero() && d.Problem == nil && len(d.Speaks) == 0 && !p.Tries(d.Name) {
			fmt.Fprintf(w, "%s speaks no protocol yet. Set one up with: steward boot livhana-layer1.1 --project %s\n", d.Path, terminal.ShellQuote(d.Path))
		}
	}
}

// tellWhatWaits prints the files that cannot be read, and the repairs that wait because steward only observes there,
// with the line that enables them.
func tellWhatWaits(w io.Writer, projects []supervisor.ProjectReport) {
	for _, r := range projects {
		for _, f := range r.Faults[:min(len(r.Faults), status.ShownFaults)] {
			fmt.Fprintf(w, "%s: %s: %s\n", terminal.Clean(r.Name), terminal.Clean(f.Path), terminal.Clean(f.Problem))
		}
		for _, note := range r.Notes {
			fmt.Fprintf(w, "%s: %s\n", terminal.Clean(r.Name), terminal.Clean(note))
		}
		for _, repair := range r.Repairs[:min(len(r.Repairs), status.ShownRepairs)] {
			fmt.Fprintf(w, "%s: waits: %s %s: %s\n", terminal.Clean(r.Name), repair.Verb, terminal.Clean(repair.Subject), terminal.Clean(repair.Why))
		}
	}
}

// Describe names a project and its protocols.
func Describe(r supervisor.ProjectReport, looked bool) string {
	switch {
	case !looked:
		return r.Name + " (the first look is under way)"
	case status.Unusable(r):
		return r.Name + " (not usable now)"
	case len(r.Protocols) == 0:
		return r.Name + " (no protocol yet)"
	}
	return r.Name + " (" + strings.Join(r.Protocols, ", ") + ")"
}

// mayRun returns false only for a process that is gone.
func mayRun(pid int) bool {
	_, err := proc.Inspect(pid)
	return !errors.Is(err, proc.ErrGone)
}
