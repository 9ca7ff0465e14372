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

// What can be shown while no daemon runs: the last picture, the journal and the incidents, as they lie in the state folder.

// showJournal is show for what the journal on disk answers too.
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

// fromJournal answers a question from the files, and says when the journal was last written.
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

// withDaemon puts the daemon's state in front of the other keys of a document.
func withDaemon(raw json.RawMessage, d status.Daemon) json.RawMessage {
	head, err := json.Marshal(d)
	if err != nil || len(raw) < 2 || raw[0] != '{' {
		return raw
	}
	return fmt.Appendf(nil, `{"daemon":%s,%s`, head, raw[1:])
}

// lastStatus shows what the last steward saw, and says on its first line that none is running.
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
	seen := written // the picture is written when something changes, the heartbeat always
	if beat, err := os.Stat(filepath.Join(paths.State, daemon.HeartbeatFile)); err == nil && beat.ModTime().After(seen) {
		seen = beat.ModTime()
	}
	return terminal.Report(none, "no steward is running; last seen %s (%s)%s. Start one with: steward run", p.Ago(&seen), seen.Format(time.RFC3339), others)
}

// othersTime bounds the question to each steward of another user.
const othersTime = 300 * time.Millisecond

// othersRunning names, for root, the stewards of other users that run beside this one: root's own picture is not theirs.
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

// answersAs is the user whose steward answers on a socket; "" when none does.
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
