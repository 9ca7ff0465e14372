package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/status"
)

// viewCommands are the read-only commands.
func (a *app) viewCommands() []*cobra.Command {
	var watch bool
	statusCmd := &cobra.Command{
		Use:   "status",
		Short: "Show the whole picture",
		Long: "status shows load, projects, agents, open tasks, locks, incidents and what was done last. When no steward is\n" +
			"running, its first line says so; it shows what the last one saw, and exits with 3.",
		Example: "  steward status\n  steward status --watch\n  steward status -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if watch {
				return a.watchStatus(c.Context())
			}
			return a.status(c.Context())
		},
	}
	statusCmd.Flags().BoolVar(&watch, "watch", false, "draw it again every two seconds until Ctrl-C")
	return append([]*cobra.Command{statusCmd, a.explainCommand(), a.logCommand(), a.logsCommand(), a.capacityCommand()}, a.listCommands()...)
}

// reach finds the files and the socket of this user's steward. An invalid configuration must not cut the operator off
// from the daemon, which continues with the previous configuration.
func (a *app) reach() (platform.Paths, error) {
	if p := a.place(); a.configFile == "" && os.Getenv("STEWARD_CONFIG") == "" {
		// The defaults set no paths, and parsing them is a large part of a short command's run time.
		if _, err := os.Lstat(p.Config); errors.Is(err, fs.ErrNotExist) {
			return p, nil
		}
	}
	_, paths, err := a.settings()
	if err == nil || a.configFile != "" {
		return paths, err
	}
	paths = a.place()
	if !a.warned {
		fmt.Fprintf(a.err, "steward: the configuration cannot be used (see: steward config); the daemon is asked at %s\n", paths.Socket)
		a.warned = true
	}
	return paths, nil
}

// ask calls the daemon.
func (a *app) ask(ctx context.Context, doing string, call func(*status.Client) error) error {
	paths, err := a.reach()
	if err != nil {
		return err
	}
	return failed(call(status.NewClient(paths.Socket)), doing)
}

// failed prefixes the error with the operation, unless the daemon's message already begins with it.
func failed(err error, doing string) error {
	if err == nil {
		return nil
	}
	verb, _, _ := strings.Cut(doing, " ")
	if strings.HasPrefix(err.Error(), verb+" ") {
		return terminal.Report(err, "%v", err)
	}
	return terminal.Report(err, "%s: %v", doing, err)
}

// show gets a document from the daemon and prints it: unchanged as JSON, or as text.
func show[T any](ctx context.Context, a *app, doing, path string, render func(*terminal.Page, T)) error {
	var raw json.RawMessage
	err := a.ask(ctx, doing, func(c *status.Client) error { return c.Get(ctx, path, &raw) })
	if err != nil {
		return err
	}
	return present(a, raw, render)
}

func present[T any](a *app, raw json.RawMessage, render func(*terminal.Page, T)) error {
	if a.output == "json" {
		return a.print(raw)
	}
	var doc T
	if err := json.Unmarshal(raw, &doc); err != nil {
		return fmt.Errorf("read steward's answer: %w; is it another version than this command?", err)
	}
	p := a.page()
	render(p, doc)
	return a.write(p.String())
}

// status shows the daemon's snapshot, or the last snapshot if no daemon runs.
func (a *app) status(ctx context.Context) error {
	err := show(ctx, a, "show the status", "/v1/status", views.Status)
	if !errors.Is(err, status.ErrNoDaemon) {
		return err
	}
	return a.lastStatus(ctx, err)
}

// watchStatus redraws the snapshot on a terminal continuously.
func (a *app) watchStatus(ctx context.Context) error {
	if a.output == "json" || !terminal.IsTerminal(a.out) {
		return usageError{errors.New("status --watch draws on a terminal; elsewhere use: steward status -o json")}
	}
	last, err := a.live(ctx, 2*time.Second, func(ctx context.Context) (string, string, error) {
		doc, err := a.watchedStatus(ctx)
		if err != nil {
			return "", "", err
		}
		p := a.page()
		views.Status(p, doc)
		return p.String(), p.String(), nil
	})
	if err == nil {
		err = a.write(last)
	}
	return err
}

// watchedStatus is the daemon's snapshot. While no daemon runs it is the last snapshot: the daemon may be restarting.
func (a *app) watchedStatus(ctx context.Context) (doc status.Document, err error) {
	err = a.ask(ctx, "show the status", func(c *status.Client) error { return c.Get(ctx, "/v1/status", &doc) })
	if errors.Is(err, status.ErrNoDaemon) {
		_, paths, _ := a.settings() // ask has already reported what is wrong with them
		if written, unread := status.ReadSnapshot(filepath.Join(paths.State, daemon.SnapshotFile), &doc); unread == nil {
			doc.Daemon, err = &status.Daemon{Since: &written}, nil
		}
	}
	return doc, err
}

// printStatus shows the snapshot of the daemon on that socket.
func (a *app) printStatus(ctx context.Context, socket string) error {
	var raw json.RawMessage
	if err := status.NewClient(socket).Get(ctx, "/v1/status", &raw); err != nil {
		return err
	}
	return present(a, raw, views.Status)
}

// query appends to path one parameter for each pair with a value.
func query(path string, pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}
