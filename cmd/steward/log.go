package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/status"
)

func (a *app) logCommand() *cobra.Command {
	var follow bool
	var n int
	c := &cobra.Command{
		Use:   "log [SUBJECT]",
		Short: "Show the journal: what was seen, decided and done, and why",
		Long: "log shows what the journal has on everything, or on one agent, task, lock, call for help, incident or project: also on one\n" +
			"that has left the files. SUBJECT is as for explain; the beginning of a task's id (four characters) or of an incident's key\n" +
			"will do. A name that neither the files nor the journal know ends with 4. Without a daemon it reads the journal on disk.",
		Example: "  steward log -n 20\n  steward log --follow\n  steward log codex-cursor -o json",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: a.completeNames("agent", "task", "lock", "incident"),
		RunE: func(c *cobra.Command, args []string) error {
			if n < 0 {
				return usageError{fmt.Errorf("log: -n %d: use 0 or more", n)}
			}
			path := query("/v1/log", "n", strconv.Itoa(n), "subject", strings.Join(args, ""))
			if follow {
				return a.follow(c.Context(), path)
			}
			return showJournal(c.Context(), a, "read the log", path, views.Log)
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted; json prints one entry on each line")
	c.Flags().IntVarP(&n, "lines", "n", 100, "show the last `N` entries first")
	return c
}

// follow prints entries as they are written, until the command is interrupted.
func (a *app) follow(ctx context.Context, path string) error {
	err := a.ask(ctx, "follow the log", func(c *status.Client) error {
		return c.Stream(ctx, path, func(data []byte) error {
			if a.output == "json" {
				return a.write(terminal.Guarded(string(data)) + "\n")
			}
			var e status.Entry
			if err := json.Unmarshal(data, &e); err != nil {
				return fmt.Errorf("read an entry: %w", err)
			}
			p := a.page()
			views.LogEntry(p, e)
			return a.write(p.String())
		})
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
