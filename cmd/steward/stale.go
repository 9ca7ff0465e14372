package main

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

	"github.com/livhana/steward/status/terminal"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
)

// releaseTime bounds what a command does for tasks that it was not asked about.
const releaseTime = 5 * time.Second

// releaseEvery is how often a command that goes on for long looks for holds whose lease has ended.
const releaseEvery = 30 * time.Second

// leavesHolds lists the commands that release nothing by themselves: those that start a steward of their own, only show
// files of the program's own, run inside a task, or are about holds anyway.
var leavesHolds = []string{"steward run", "steward demo", "steward plan", "steward check", "steward doctor", "steward version", "steward config", "steward completion",
	"steward help", "steward __complete", "steward __completeNoDesc", "steward run-task", "steward release", "steward service"}

// releases reports whether a command looks for holds whose lease has ended.
func releases(c *cobra.Command) bool {
	if await := c.Flags().Lookup("await-word"); await != nil && await.Changed { // a waiting child of exec
		return false
	}
	way := c.CommandPath() + " "
	return !slices.ContainsFunc(leavesHolds, func(name string) bool { return strings.HasPrefix(way, name+" ") })
}

// releaseForClient releases what a dead steward holds past its lease, now and as long as the command runs.
func (a *app) releaseForClient(c *cobra.Command) {
	if !releases(c) {
		return
	}
	dir := ""
	if f := c.Flags().Lookup("project"); f != nil && f.Value.Type() == "string" {
		dir = f.Value.String()
	}
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	if n := a.releaseStale(ctx, dir); n > 0 {
		fmt.Fprintf(a.err, "steward: no steward is running; released %s held past the lease\n", terminal.Plural(n, "task"))
	}
	go func() {
		again := time.NewTicker(releaseEvery)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-again.C:
				a.releaseStale(ctx, dir)
			}
		}
	}()
}

// releaseStale releases the tasks whose lease has ended because no steward renews it, and counts them. It looks at the
// known projects and at dir. Where a daemon answers it does nothing.
func (a *app) releaseStale(ctx context.Context, dir string) (released int) {
	usual := a.place().Socket
	if listens(ctx, usual) { // a daemon is the rule, and the configuration need not be read to find it
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	cfg, paths, err := a.settings()
	if err != nil {
		cfg = config.Defaults()
	} else if paths.Socket != usual && listens(ctx, paths.Socket) {
		return 0
	}
	refs := slices.DeleteFunc(withFolder(a.knownProjects(cfg, paths), dir, cfg), func(ref config.ProjectRef) bool { return !mayHold(ref.Path, cfg.Envelope.Messages) })
	l := &holds{}
	defer l.close()
	l.look(ctx, refs, cfg)
	now := time.Now()
	for _, h := range l.tasks() {
		if h.isStale(now) && h.free(ctx, protocol.ReasonLease, "the hold outlived its lease, and no steward is running") == nil {
			released++
		}
	}
	return released
}

// listens reports whether a process listens on the socket. In doubt one does: it renews its leases.
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

// mayHold reports whether a held file lies in the project, by the names alone: most projects hold nothing, and a look at
// all of their files takes long where much history lies.
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
