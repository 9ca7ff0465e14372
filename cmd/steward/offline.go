package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/livhana/steward/supervisor"
)

// Without a daemon the commands show the last snapshot, the journal and the incidents from the state folder.

// showJournal is show for documents that the journal on disk can answer too.
func showJournal[T any](ctx context.Context, a *app, doing, path string, render func(*terminal.Page, T)) error {
	err := show(ctx, a, doing, path, render)
	if !errors.Is(err, status.ErrNoDaemon) {
		return err
	}
	_, paths, _ := a.settings() // ask has said what is wrong with them
	raw, since, readErr := fromJournal(ctx, paths, path)
	switch {
	case errors.Is(readErr, os.ErrNotExist):
		return err
	case readErr != nil:
		return failed(readErr, doing)
	}
	fmt.Fprintf(a.err, "steward: no steward is running; this is the journal on disk, last written %s\n", a.page().Ago(&since))
	return present(a, withDaemon(raw, status.Daemon{Since: &since}), render)
}

// fromJournal answers a query from the files, and returns when the journal was last written.
func fromJournal(ctx context.Context, paths platform.Paths, path string) (json.RawMessage, time.Time, error) {
	file := filepath.Join(paths.State, daemon.JournalFile)
	info, err := os.Stat(file)
	if err != nil {
		return nil, time.Time{}, err
	}
	nothing := &supervisor.State{}
	server := &status.Server{Picture: func() *supervisor.State { return nothing }, Ledger: escalate.ReadLedger(filepath.Join(paths.State, "incidents")), Journal: supervisor.JournalAt(file), Now: time.Now}
	raw, err := server.Local(ctx, path)
	return raw, info.ModTime().UTC(), err
}

// withDaemon inserts the daemon's state before the other keys of a document.
func withDaemon(raw json.RawMessage, d status.Daemon) json.RawMessage {
	head, err := json.Marshal(d)
	if err != nil || len(raw) < 2 || raw[0] != '{' {
		return raw
	}
	return fmt.Appendf(nil, `{"daemon":%s,%s`, head, raw[1:])
}

// lastStatus shows the last steward's snapshot, and reports that no steward is running.
func (a *app) lastStatus(ctx context.Context, none error) error {
	_, paths, _ := a.settings() // ask has said what is wrong with them
	var raw json.RawMessage
	written, readErr := status.ReadSnapshot(filepath.Join(paths.State, daemon.SnapshotFile), &raw)
	others := a.othersRunning(ctx)
	switch {
	case errors.Is(readErr, os.ErrNotExist):
		return terminal.Report(none, "no steward is running; none has been seen here yet%s. Start one with: steward run", others)
	case readErr != nil:
		return terminal.Report(none, "no steward is running, and its last status cannot be read: %v%s. Start one with: steward run", readErr, others)
	}
	if err := daemon.Newer(raw); err != nil {
		return terminal.Report(none, "no steward is running, and its last status cannot be shown: %v%s. Start one with: steward run", err, others)
	}
	if shown := present(a, withDaemon(raw, status.Daemon{Since: &written}), views.Status); shown != nil {
		return shown
	}
	p := a.page()
	seen := written // the snapshot is written on changes only, the heartbeat always
	if beat, err := os.Stat(filepath.Join(paths.State, daemon.HeartbeatFile)); err == nil && beat.ModTime().After(seen) {
		seen = beat.ModTime()
	}
	return terminal.Report(none, "no steward is running; last seen %s (%s)%s. Start one with: steward run", p.Ago(&seen), seen.Format(time.RFC3339), others)
}

// othersTime bounds the request to each steward of another user.
const othersTime = 300 * time.Millisecond

// othersRunning lists, for root, the running stewards of other users: root's own snapshot does not cover them.
func (a *app) othersRunning(ctx context.Context) string {
	if os.Getuid() != 0 || a.socket != "" || os.Getenv("STEWARD_SOCKET") != "" {
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
