package tasks

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

// place says where a command acts: in which project, and in which of its protocols.
type place struct{ project, protocol string }

func (p *place) flags(c *cobra.Command) {
	cli.ProjectFlag(c, &p.project)
	c.Flags().StringVar(&p.protocol, "protocol", "", "the protocol's `NAME` (default: the only one that the project speaks, or has the task in)")
	_ = c.RegisterFlagCompletionFunc("protocol", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return daemon.Names(), cobra.ShellCompDirectiveNoFileComp
	})
}

// settings are the configured ones; an agent's work does not depend on a valid configuration of the daemon.
func settings(a *cli.App) config.Config {
	cfg, _, err := a.Settings()
	if err != nil {
		return config.Defaults()
	}
	return cfg
}

// folder is the folder of the project: of --project, else the current one if it speaks a protocol, else the project of the
// run that started this process (STEWARD_PROJECT).
func (p *place) folder(a *cli.App, doing string) (dir string, spoken []string, err error) {
	cfg := settings(a)
	if dir, err = cli.ProjectDir(doing, p.project); err != nil {
		return "", nil, err
	}
	if spoken = daemon.Spoken(dir, cfg); len(spoken) == 0 && p.project == "" {
		if own := os.Getenv("STEWARD_PROJECT"); filepath.IsAbs(own) && len(daemon.Spoken(own, cfg)) > 0 {
			dir, spoken = own, daemon.Spoken(own, cfg)
		}
	}
	if p.protocol != "" && !slices.Contains(daemon.Names(), p.protocol) {
		return "", nil, cli.Usagef("%s: this version does not support protocol %s; it supports %s", doing, terminal.OneWord(p.protocol), strings.Join(daemon.Names(), ", "))
	}
	return dir, spoken, nil
}

// choose picks the protocol of a new task, or of the next one: --protocol, the one of the run that started this process
// (STEWARD_PROTOCOL), protocol 000, or else the only one.
func (p *place) choose(a *cli.App, doing string) (dir, name string, err error) {
	dir, spoken, err := p.folder(a, doing)
	if err != nil {
		return "", "", err
	}
	switch run := os.Getenv("STEWARD_PROTOCOL"); {
	case p.protocol != "":
		return dir, p.protocol, nil
	case slices.Contains(spoken, run):
		return dir, run, nil
	case len(spoken) == 0 || slices.Contains(spoken, agentstatus.Name):
		return dir, agentstatus.Name, nil
	case len(spoken) > 1:
		return "", "", cli.Usagef("%s: the project speaks %s; name one with --protocol", doing, strings.Join(spoken, " and "))
	}
	return dir, spoken[0], nil
}

// found is a task, in protocol 000 or in another one.
type found struct {
	*taskClient // nil in the other protocols
	detail      agentstatus.Detail
	other       *participant // nil in protocol 000
	task        protocol.Assignment
}

// protocol is the name of the protocol that has the task.
func (f *found) protocol() string {
	if f.other != nil {
		return f.other.name
	}
	return agentstatus.Name
}

func (f *found) close() {
	if f.other != nil {
		f.other.Close()
		return
	}
	f.taskClient.close()
}

// find looks for a task in the protocols of the current folder, and without --project then in the other projects of this
// user. The beginning of the id is enough.
func (p *place) find(ctx context.Context, a *cli.App, id, doing string) (*found, error) {
	first, spoken, err := p.folder(a, doing)
	if err != nil {
		return nil, err
	}
	f, err := p.findIn(ctx, a, first, spoken, id, doing)
	if err == nil || p.project != "" {
		return f, err
	}
	cfg, paths, broken := a.Settings()
	if broken != nil {
		cfg = config.Defaults()
	}
	for _, ref := range a.KnownProjects(cfg, paths) {
		other := daemon.Spoken(ref.Path, cfg)
		if len(other) == 0 {
			continue
		}
		f, failed := p.findIn(ctx, a, ref.Path, other, id, doing)
		if failed == nil {
			return f, nil
		}
		if len(spoken) == 0 || errors.Is(err, protocol.ErrNoTask) && !errors.Is(failed, protocol.ErrNoTask) {
			err, spoken = failed, other
		}
	}
	return nil, err
}

// findIn looks for a task in one project. A task that several of its protocols have must be named with its protocol.
func (p *place) findIn(ctx context.Context, a *cli.App, dir string, spoken []string, id, doing string) (*found, error) {
	if p.protocol != "" {
		spoken = []string{p.protocol}
	} else if len(spoken) == 0 {
		spoken = []string{agentstatus.Name} // its error says how to begin
	}
	var hits []*found
	var names []string
	var first error
	for _, name := range spoken {
		f, err := open(ctx, a, dir, name, id, doing)
		if err != nil {
			if first == nil || errors.Is(first, protocol.ErrNoTask) && !errors.Is(err, protocol.ErrNoTask) {
				first = err
			}
			continue
		}
		hits, names = append(hits, f), append(names, name)
	}
	if len(hits) == 1 {
		return hits[0], nil
	}
	for _, f := range hits {
		f.close()
	}
	if len(hits) > 1 {
		first = cli.Usagef("%s: the protocols %s have a task with this id; name one of them with --protocol", doing, strings.Join(names, " and "))
	}
	return nil, first
}

// open opens one task of one protocol.
func open(ctx context.Context, a *cli.App, dir, name, id, doing string) (*found, error) {
	if name == agentstatus.Name {
		d, err := openTasks(a, dir, doing)
		if err != nil {
			return nil, err
		}
		detail, err := d.Task(ctx, id)
		if err != nil {
			d.close()
			return nil, taskError(err, doing)
		}
		return &found{taskClient: d, detail: detail}, nil
	}
	p, err := participate(a, dir, name, doing)
	if err != nil {
		return nil, err
	}
	t, err := p.find(ctx, id)
	if err != nil {
		p.Close()
		return nil, taskError(err, doing)
	}
	return &found{other: p, task: t}, nil
}

// role is the agent that a command acts for: the named one, that of the run that started this process, or the given one.
func role(named, otherwise string) string { return cmp.Or(named, os.Getenv("STEWARD_ROLE"), otherwise) }

func agentFlag(c *cobra.Command, agent *string) {
	c.Flags().StringVar(agent, "agent", "", "the `AGENT` that reports (default: the run's own, else the task's; not in agentstatus)")
}
