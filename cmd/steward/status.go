package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
)

// newViewCommands are the read-only commands.
func newViewCommands(a *cli.App) []*cobra.Command {
	var watch bool
	statusCmd := &cobra.Command{
		Use:   "status",
		Short: "Show the whole picture",
		Long: "status shows load, projects, agents, open tasks, locks, incidents and what was done last. When no steward is\n" +
			"running, its first line says so; it shows what the last one saw, and exits with 3.",
		Example: "  steward status\n  steward status --watch\n  steward status -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if watch {
				return watchStatus(c.Context(), a)
			}
			return showStatus(c.Context(), a)
		},
	}
	statusCmd.Flags().BoolVar(&watch, "watch", false, "draw it again every two seconds until Ctrl-C")
	return append([]*cobra.Command{statusCmd, newExplainCommand(a), newLogCommand(a), newLogsCommand(a), newCapacityCommand(a)}, newListCommands(a)...)
}

// showStatus shows the daemon's snapshot, or the last snapshot if no daemon runs.
func showStatus(ctx context.Context, a *cli.App) error {
	err := cli.Show(ctx, a, "show the status", "/v1/status", views.Status)
	if !errors.Is(err, status.ErrNoDaemon) {
		return err
	}
	return lastStatus(ctx, a, err)
}

// watchStatus redraws the snapshot on a terminal continuously.
func watchStatus(ctx context.Context, a *cli.App) error {
	if a.Output == "json" || !terminal.IsTerminal(a.Out) {
		return cli.Usagef("status --watch draws on a terminal; elsewhere use: steward status -o json")
	}
	last, err := terminal.Live(ctx, a.Out, 2*time.Second, time.Now, func(ctx context.Context) (string, string, error) {
		doc, err := watchedStatus(ctx, a)
		if err != nil {
			return "", "", err
		}
		p := a.Page()
		views.Status(p, doc)
		return p.String(), p.String(), nil
	})
	if err == nil {
		err = a.Write(last)
	}
	return err
}

// watchedStatus is the daemon's snapshot. While no daemon runs it is the last snapshot: the daemon may be restarting.
func watchedStatus(ctx context.Context, a *cli.App) (doc status.Document, err error) {
	err = a.Ask(ctx, "show the status", func(c *status.Client) error { return c.Get(ctx, "/v1/status", &doc) })
	if errors.Is(err, status.ErrNoDaemon) {
		_, paths, _ := a.Settings() // ask has already reported what is wrong with them
		if written, unread := status.ReadSnapshot(filepath.Join(paths.State, daemon.SnapshotFile), &doc); unread == nil {
			doc.Daemon, err = &status.Daemon{Since: &written}, nil
		}
	}
	return doc, err
}

// Without a daemon the commands show the last snapshot, the journal and the incidents from the state folder.

// withDaemon inserts the daemon's state before the other keys of a document.
func withDaemon(raw json.RawMessage, d status.Daemon) json.RawMessage {
	head, err := json.Marshal(d)
	if err != nil || len(raw) < 2 || raw[0] != '{' {
		return raw
	}
	return fmt.Appendf(nil, `{"daemon":%s,%s`, head, raw[1:])
}

// lastStatus shows the last steward's snapshot, and reports that no steward is running.
func lastStatus(ctx context.Context, a *cli.App, none error) error {
	_, paths, _ := a.Settings() // ask has said what is wrong with them
	var raw json.RawMessage
	written, readErr := status.ReadSnapshot(filepath.Join(paths.State, daemon.SnapshotFile), &raw)
	others := othersRunning(ctx, a)
	switch {
	case errors.Is(readErr, os.ErrNotExist):
		return terminal.Report(none, "no steward is running; none has been seen here yet%s. Start one with: steward run", others)
	case readErr != nil:
		return terminal.Report(none, "no steward is running, and its last status cannot be read: %v%s. Start one with: steward run", readErr, others)
	}
	if err := daemon.Newer(raw); err != nil {
		return terminal.Report(none, "no steward is running, and its last status cannot be shown: %v%s. Start one with: steward run", err, others)
	}
	if shown := cli.Present(a, withDaemon(raw, status.Daemon{Since: &written}), views.Status); shown != nil {
		return shown
	}
	p := a.Page()
	seen := written // the snapshot is written on changes only, the heartbeat always
	if beat, err := os.Stat(filepath.Join(paths.State, daemon.HeartbeatFile)); err == nil && beat.ModTime().After(seen) {
		seen = beat.ModTime()
	}
	return terminal.Report(none, "no steward is running; last seen %s (%s)%s. Start one with: steward run", p.Ago(&seen), seen.Format(time.RFC3339), others)
}

// othersTime bounds the request to each steward of another user.
const othersTime = 300 * time.Millisecond

// othersRunning lists, for root, the running stewards of other users: root's own snapshot does not cover them.
func othersRunning(ctx context.Context, a *cli.App) string {
	if os.Getuid() != 0 || a.Socket != "" || os.Getenv("STEWARD_SOCKET") != "" {
		return ""
	}
	sockets, _ := filepath.Glob("/run/user/*/steward/steward.sock")
	if name := service.MachineUser(); name != "" {
		sockets = append(sockets, platform.MachinePaths("").Socket)
	}
	text := ""
	for _, socket := range sockets {
		if user := answersAs(ctx, socket); user != "" {
			text += fmt.Sprintf("; the steward of %s runs beside it, see: sudo -u %s steward status", user, user)
		}
	}
	return text
}

// answersAs returns the user whose steward answers on a socket, or "" if no steward answers.
func answersAs(ctx context.Context, socket string) string {
	info, err := os.Stat(socket)
	if err != nil {
		return ""
	}
	uid := platform.OwnerOf(info)
	ctx, cancel := context.WithTimeout(ctx, othersTime)
	defer cancel()
	if uid <= 0 || status.NewClient(socket).Trusting(uid).Get(ctx, "/healthz", nil) != nil {
		return ""
	}
	return views.UserName(uid)
}
