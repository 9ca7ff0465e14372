package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/cmd/steward/gate"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/join/role"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
)

// runRole plays a role of a protocol, as its [[role]] row and the flags say.
func runRole(ctx context.Context, a *cli.App, f workerFlags, jobsGiven bool) error {
	dir, err := cli.ProjectDir("worker", f.project)
	if err != nil {
		return err
	}
	cfg, paths, err := a.Settings()
	if err != nil {
		return err
	}
	row := roleRow(cfg, f, dir)
	if jobsGiven || row.Jobs == 0 {
		row.Jobs = f.jobs
	}
	if row.Protocol, err = roleProtocol(cfg, row.Protocol, dir); err != nil {
		return err
	}
	if row.Protocol == agentstatus.Name {
		f.agent, f.jobs, f.command = row.Name, row.Jobs, row.Command
		return runWorker(ctx, a, f)
	}
	taker, ok := daemon.Participate(dir, row.Protocol, cfg)
	if !ok {
		return cli.Usagef("worker: this version does not support protocol %s", terminal.OneWord(row.Protocol))
	}
	defer taker.Close()
	o, err := roleOptions(ctx, a, cfg, paths, dir, row)
	if err != nil {
		return err
	}
	o.Participant, o.Once, o.Drain = taker, f.once, f.drain
	var unwatch func()
	o.Hints, unwatch, _ = task.Hints(daemon.Folders(dir, row.Protocol, cfg))
	defer unwatch()
	tally, err := role.New(o).Run(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("worker: %s of %s: %w", row.Name, row.Protocol, err)
	case len(tally.Unsaved) > 0, f.once && tally.Failed:
		return cli.Exit(cli.ExitFailed)
	case f.once && tally.Taken == 0:
		return cli.Exit(cli.ExitNoSubject)
	}
	return nil
}

// roleRow is the [[role]] row of the role in the project, with what the flags override; without a row the flags alone.
func roleRow(cfg config.Config, f workerFlags, dir string) config.Role {
	home, _ := os.UserHomeDir()
	row := config.Role{Name: f.role}
	for _, r := range cfg.Roles {
		if path, err := config.Expand(r.Project, home, "/"); err == nil && r.Name == f.role && platform.SameFolder(path, dir) {
			row = r
		}
	}
	row.Protocol = cmp.Or(f.protocol, row.Protocol)
	if len(f.command) > 0 {
		row.Command = f.command
	}
	return row
}

// roleProtocol is the protocol of a role: the named one, or the only one that the project speaks.
func roleProtocol(cfg config.Config, name, dir string) (string, error) {
	spoken := daemon.Spoken(dir, cfg)
	switch {
	case name != "" && !slices.Contains(daemon.Names(), name):
		return "", cli.Usagef("worker: this version does not support protocol %s; it supports %s", terminal.OneWord(name), strings.Join(daemon.Names(), ", "))
	case name != "":
		return name, nil
	case len(spoken) == 0:
		return "", fmt.Errorf("worker: %s: %w; set one up with: steward boot", dir, protocol.ErrAbsent)
	case len(spoken) > 1:
		return "", cli.Usagef("worker: the project speaks %s; name one with --protocol", strings.Join(spoken, " and "))
	}
	return spoken[0], nil
}

// roleOptions are those of a role with a command, or of an orchestrator.
func roleOptions(ctx context.Context, a *cli.App, cfg config.Config, paths platform.Paths, dir string, row config.Role) (role.Options, error) {
	w, err := workerOptions(a, cfg, paths, dir)
	if err != nil {
		return role.Options{}, err
	}
	w.Agent = row.Name
	home, _ := os.UserHomeDir()
	o := role.Options{Part: role.Part{Role: row.Name, Protocol: row.Protocol, Project: dir, Program: w.Program}, Command: row.Command, Dir: dir, Environment: row.Environment, Jobs: row.Jobs,
		Limit: cmp.Or(row.Timeout, cfg.Tasks.MaxTimeout), Log: os.Getenv("STEWARD_LOG"), Returns: daemon.Returns(row.Protocol),
		Pace: role.Pace{Poll: w.Poll, Beat: w.Beat, Stop: w.Stop}, Process: w.Process, Execute: w.Run, Now: w.Now, Say: w.Say}
	if row.Directory != "" {
		o.Dir, _ = config.Expand(row.Directory, home, "/") // the configuration was checked
	}
	if o.Log == "" {
		if err := platform.PrivateDir(filepath.Join(paths.State, keep.Folder)); err == nil {
			o.Log = keep.LogFile(paths.State, filepath.Base(dir), row.Name)
			w.Say("the output of its runs goes to " + o.Log)
		}
	}
	own := &gate.Own{Project: dir, Limits: cfg.Capacity, Several: row.Jobs > 1}
	o.Gate = func(ctx context.Context, id string) (bool, string, time.Duration) {
		if gate.Supervised(ctx, a, dir) {
			return gate.Ask(ctx, a, status.AdmitOrder{Project: dir, Task: id, Role: row.Name})
		}
		return own.Admit(ctx, capacity.Waiter{Subject: protocol.Subject{Project: dir, Kind: protocol.KindTask, ID: id}}, nil)
	}
	return o, nil
}
