package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status/terminal"
)

func (a *app) runCommand() *cobra.Command {
	var dirs []string
	var once, managed bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Supervise projects in the foreground (what the service runs)",
		Long:  "run supervises the projects of the configuration, or those given, or else the current folder. It needs no\nconfiguration. A folder that is not there yet is told and waited for. With --once it looks, decides and acts a single time,\nleaves nothing held, and exits.\n\nIt goes on when whoever reads its output has gone; an interrupt ends it.",
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case once && managed:
				return usageError{errors.New("run: use --once or --service, not both")}
			case !once:
				outliveReader()
			}
			if managed {
				return a.runManaged(c.Context(), dirs)
			}
			return a.supervise(c.Context(), dirs, once)
		},
	}
	c.Flags().StringArrayVar(&dirs, "project", nil, "supervise this `DIR` (may be repeated)")
	c.Flags().BoolVar(&once, "once", false, "one look, then exit")
	c.Flags().BoolVar(&managed, "service", false, "run under a service manager: only the projects of the configuration, starts paced after failures")
	return c
}

// supervise runs the daemon in the foreground, or a single scan of it.
func (a *app) supervise(ctx context.Context, dirs []string, once bool) error {
	if err := checkDirs(dirs, once); err != nil {
		return err
	}
	d, err := daemon.New(a.daemonOptions(dirs, once, "", service.Connect()))
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
	return a.printDone(d.LastState())
}

func (a *app) daemonOptions(dirs []string, once bool, manager string, line *service.Line) daemon.Options {
	return daemon.Options{Dirs: dirs, Once: once, Manager: manager, Line: line, Settings: a.settings, Log: a.logger(), Out: a.out, Err: a.err, Version: version()}
}

// checkDirs rejects invalid --project folders before any project is opened. The daemon waits for a missing folder, as its
// disk may be mounted later; with --once a missing folder is an error.
func checkDirs(dirs []string, once bool) error {
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return usageError{fmt.Errorf("run: --project %s: it is not a folder", terminal.Clean(dir))}
		case once && errors.Is(err, fs.ErrNotExist):
			return usageError{fmt.Errorf("run: --project %s: there is no such folder", terminal.Clean(dir))}
		}
	}
	return nil
}
