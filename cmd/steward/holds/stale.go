package holds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

// releaseTime bounds the time that a command spends on releasing unrelated tasks.
const releaseTime = 5 * time.Second

// releaseEvery is the interval at which a long-running command scans for holds with an expired lease.
const releaseEvery = 30 * time.Second

// leavesHolds lists the commands that do not release stale holds: they start their own steward, only show the program's
// own files, run inside a task, or handle holds themselves.
var leavesHolds = []string{"steward run", "steward demo", "steward plan", "steward check", "steward doctor", "steward version", "steward config", "steward completion",
	"steward help", "steward __complete", "steward __completeNoDesc", "steward run-task", "steward release", "steward service"}

// Releases reports whether a command scans for holds with an expired lease.
func Releases(c *cobra.Command) bool {
	if await := c.Flags().Lookup("await-word"); await != nil && await.Changed { // a waiting child of exec
		return false
	}
	way := c.CommandPath() + " "
	return !slices.ContainsFunc(leavesHolds, func(name string) bool { return strings.HasPrefix(way, name+" ") })
}

// ReleaseWhile releases a dead steward's expired holds, now and as long as the command runs.
func ReleaseWhile(a *cli.App, c *cobra.Command) {
	dir := ""
	if f := c.Flags().Lookup("project"); f != nil && f.Value.Type() == "string" {
		dir = f.Value.String()
	}
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	if n := ReleaseStale(ctx, a, dir); n > 0 {
		fmt.Fprintf(a.Err, "steward: no steward is running; released %s held past the lease\n", terminal.Plural(n, "task"))
	}
	go func() {
		again := time.NewTicker(releaseEvery)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-again.C:
				ReleaseStale(ctx, a, dir)
			}
		}
	}()
}

// ReleaseStale releases the tasks whose lease expired because no steward renews it, and counts them. It scans the known
// projects and dir. It does nothing where a daemon answers.
func ReleaseStale(ctx context.Context, a *cli.App, dir string) (released int) {
	usual := a.Paths().Socket
	if listens(ctx, usual) { // usually a daemon runs, and finding it does not need the configuration
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	cfg, paths, err := a.Settings()
	if err != nil {
		cfg = config.Defaults()
	} else if paths.Socket != usual && listens(ctx, paths.Socket) {
		return 0
	}
	refs := slices.DeleteFunc(withFolder(a.KnownProjects(cfg, paths), dir, cfg), func(ref config.ProjectRef) bool { return !mayHold(ref.Path, cfg.Envelope.Messages) })
	l := &List{}
	defer l.Close()
	l.look(ctx, paths.State, refs, cfg)
	now := time.Now()
	for _, h := range l.Tasks() {
		if h.isStale(now) && h.Free(ctx, protocol.ReasonLease, "the hold outlived its lease, and no steward is running") == nil {
			released++
		}
	}
	return released
}

// listens reports whether a process listens on the socket. If unsure it returns true: a live daemon renews its leases.
func listens(ctx context.Context, socket string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err == nil {
		_ = conn.Close()
		return true
	}
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED)
}

// withFolder adds a folder that a command names to the known projects.
func withFolder(refs []config.ProjectRef, dir string, cfg config.Config) []config.ProjectRef {
	abs, err := filepath.Abs(dir)
	folder, statErr := os.Stat(abs)
	known := func(ref config.ProjectRef) bool {
		info, err := os.Stat(ref.Path)
		return err == nil && os.SameFile(info, folder)
	}
	if err != nil || statErr != nil || dir == "" || slices.ContainsFunc(refs, known) {
		return refs
	}
	cfg.Projects = []config.Project{{Path: abs}}
	more, _ := cfg.ProjectList("", "")
	return append(refs, more...)
}

// mayHold reports whether the project may contain a held file, by file names only: most projects have no holds, and a
// full scan is slow in a project with a long history.
func mayHold(project, messages string) bool {
	for _, dir := range []string{path.Join(agentstatus.Base, "codex_tasks"), messages} {
		f, err := os.Open(filepath.Join(project, filepath.FromSlash(dir)))
		if err != nil {
			continue
		}
		names, _ := f.Readdirnames(-1)
		_ = f.Close()
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".held") }) {
			return true
		}
	}
	return false
}
