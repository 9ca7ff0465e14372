package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	servicecmd "github.com/livhana/steward/cmd/steward/service"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

func newRunCommand(a *cli.App) *cobra.Command {
	var dirs []string
	var once, managed bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Supervise projects in the foreground (what the service runs)",
		Long:  "run supervises the projects of the configuration, or those given, or else the current folder. It needs no\nconfiguration. run reports a folder that does not exist yet and waits for it. With --once it scans, decides and acts a single time,\nleaves nothing held, and exits.\n\nIt continues when the reader of its output has gone; an interrupt ends it.",
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case once && managed:
				return cli.Usagef("run: use --once or --service, not both")
			case !once:
				cli.OutliveReader()
			}
			if err := checkDirs(dirs, once); err != nil {
				return err
			}
			if managed {
				return servicecmd.Run(c.Context(), a, func(manager string, line *service.Line) (*daemon.Daemon, error) {
					return daemon.New(daemonOptions(a, dirs, false, manager, line))
				})
			}
			return supervise(c.Context(), a, dirs, once)
		},
	}
	c.Flags().StringArrayVar(&dirs, "project", nil, "supervise this `DIR` (may be repeated)")
	c.Flags().BoolVar(&once, "once", false, "scan once, then exit")
	c.Flags().BoolVar(&managed, "service", false, "run under a service manager: only the projects of the configuration, starts paced after failures")
	return c
}

// supervise runs the daemon in the foreground, or a single scan of it.
func supervise(ctx context.Context, a *cli.App, dirs []string, once bool) error {
	d, err := daemon.New(daemonOptions(a, dirs, once, "", service.Connect()))
	if err != nil {
		return err
	}
	defer d.Close()
	if !once {
		return d.Run(ctx)
	}
	if err := d.Once(ctx); err != nil {
		return err
	}
	return printDone(a, d.LastState())
}

func daemonOptions(a *cli.App, dirs []string, once bool, manager string, line *service.Line) daemon.Options {
	log := a.Logger()
	settings := func() (config.Config, platform.Paths, error) {
		cfg, paths, err := a.Settings()
		for _, p := range cfg.Gone {
			log.Warn("a line of the configuration has no effect", "file", p.File, "line", p.Line, "reason", p.Text)
		}
		return cfg, paths, err
	}
	return daemon.Options{Dirs: dirs, Once: once, Manager: manager, Line: line, Settings: settings, Log: log, Out: a.Out, Err: a.Err, Version: a.Version}
}

// checkDirs rejects invalid --project folders before any project is opened. The daemon waits for a missing folder, as its
// disk may be mounted later; with --once a missing folder is an error.
func checkDirs(dirs []string, once bool) error {
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return cli.Usagef("run: --project %s: it is not a folder", terminal.Clean(dir))
		case once && errors.Is(err, fs.ErrNotExist):
			return cli.Usagef("run: --project %s: there is no such folder", terminal.Clean(dir))
		}
	}
	return nil
}

// onceDone is the result of a single scan.
type onceDone struct {
	Done     []supervisor.Done          `json:"done"`
	Faults   []protocol.Fault           `json:"faults"`
	Findings []supervisor.FindingReport `json:"findings"`
}

// printDone prints the result of a single scan.
func printDone(a *cli.App, p *supervisor.State) error {
	once := onceDone{Done: []supervisor.Done{}, Faults: []protocol.Fault{}, Findings: []supervisor.FindingReport{}}
	if p != nil {
		once.Done = append(once.Done, p.Done...)
		for _, project := range p.Report().Projects {
			once.Faults = append(once.Faults, project.Faults...)
			once.Findings = append(once.Findings, project.Findings...)
		}
	}
	return cli.Tell(a, once, renderDone)
}

func renderDone(pg *terminal.Page, once onceDone) {
	for _, f := range once.Faults {
		pg.Line("cannot use %s: %s", terminal.Clean(f.Path), terminal.Clean(f.Problem))
	}
	for _, f := range once.Findings {
		pg.Line("finding    %s", views.FindingLine(f.Severity, f.Subject, f.Field, f.Path, f.Text))
	}
	if len(once.Done) == 0 {
		pg.Line("nothing to do")
	}
	for _, d := range once.Done {
		pg.Line("%s %s: %s", d.Verb, terminal.Clean(d.Subject), terminal.Clean(d.Why))
	}
}
