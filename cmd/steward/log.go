package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

func newLogCommand(a *cli.App) *cobra.Command {
	var follow bool
	var n int
	c := &cobra.Command{
		Use:   "log [SUBJECT]",
		Short: "Show the journal: what was seen, decided and done, and why",
		Long: "log shows what the journal has on everything, or on one agent, task, lock, call for help, incident or project: also on one\n" +
			"that has left the files. SUBJECT is as for explain; the beginning of a task's id (four characters) or of an incident's key\n" +
			"will do. A name that neither the files nor the journal know ends with 4. Without a daemon it reads the journal on disk.",
		Example: "  steward log -n 20\n  steward log --follow\n  steward log codex-cursor -o json",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: cli.CompleteNames(a, "agent", "task", "lock", "incident"),
		RunE: func(c *cobra.Command, args []string) error {
			if n < 0 {
				return cli.Usagef("log: -n %d: use 0 or more", n)
			}
			path := cli.Query("/v1/log", "n", strconv.Itoa(n), "subject", strings.Join(args, ""))
			if follow {
				return followJournal(c.Context(), a, path)
			}
			return showJournal(c.Context(), a, "read the log", path, views.Log)
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted; json prints one entry on each line")
	c.Flags().IntVarP(&n, "lines", "n", 100, "show the last `N` entries first")
	return c
}

// followJournal prints entries as they are written, until the command is interrupted.
func followJournal(ctx context.Context, a *cli.App, path string) error {
	err := a.Ask(ctx, "follow the log", func(c *status.Client) error {
		return c.Stream(ctx, path, func(data []byte) error {
			if a.Output == "json" {
				return a.Write(terminal.Guarded(string(data)) + "\n")
			}
			var e status.Entry
			if err := json.Unmarshal(data, &e); err != nil {
				return fmt.Errorf("read an entry: %w", err)
			}
			p := a.Page()
			views.LogEntry(p, e)
			return a.Write(p.String())
		})
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func newExplainCommand(a *cli.App) *cobra.Command {
	var speaks string
	c := &cobra.Command{
		Use:   "explain SUBJECT",
		Short: "Say why: evidence and decisions for an agent, task, lock, call for help or incident",
		Long: "explain gives the verdict on one thing, what it rests on, and what the journal has on it, oldest first. SUBJECT is an id,\n" +
			"kind/id, project:kind/id, or project:protocol:kind/id where two protocols use one name; an incident's key may be cut short.\n" +
			"Without a daemon it cites the journal on disk.",
		Example: "  steward explain codex-cursor\n  steward explain sot:task/7c0e2f5a-3b1d-4f7e-9a51-5d1c8e7f2a10\n  steward explain incident/3fa9",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cli.CompleteNames(a, "agent", "task", "lock", "incident"),
		RunE: func(c *cobra.Command, args []string) error {
			return showJournal(c.Context(), a, "explain "+args[0], cli.Query("/v1/explain", "subject", args[0], "protocol", speaks), views.Explanation)
		},
	}
	c.Flags().StringVar(&speaks, "protocol", "", "where two protocols of a project use the same name, the `NAME` of the one meant")
	return c
}

// showJournal is show for documents that the journal on disk can answer too.
func showJournal[T any](ctx context.Context, a *cli.App, doing, path string, render func(*terminal.Page, T)) error {
	err := cli.Show(ctx, a, doing, path, render)
	if !errors.Is(err, status.ErrNoDaemon) {
		return err
	}
	_, paths, _ := a.Settings() // ask has said what is wrong with them
	raw, since, readErr := fromJournal(ctx, paths, path)
	switch {
	case errors.Is(readErr, os.ErrNotExist):
		return err
	case readErr != nil:
		return cli.Failed(readErr, doing)
	}
	fmt.Fprintf(a.Err, "steward: no steward is running; this is the journal on disk, last written %s\n", a.Page().Ago(&since))
	return cli.Present(a, withDaemon(raw, status.Daemon{Since: &since}), render)
}

// fromJournal answers a query from the files, and returns when the journal was last written.
func fromJournal(ctx context.Context, paths platform.Paths, path string) (json.RawMessage, time.Time, error) {
	file := filepath.Join(paths.State, daemon.JournalFile)
	info, err := os.Stat(file)
	if err != nil {
		return nil, time.Time{}, err
	}
	nothing := &supervisor.State{}
	server := &status.Server{State: func() *supervisor.State { return nothing }, Incidents: escalate.ReadIncidents(filepath.Join(paths.State, "incidents")), Journal: supervisor.JournalAt(file), Now: time.Now}
	raw, err := server.Local(ctx, path)
	return raw, info.ModTime().UTC(), err
}
