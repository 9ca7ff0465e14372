package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/livhana/steward/capacity/measure"
	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
	"github.com/spf13/cobra"
)

func newPlanCommand(a *cli.App) *cobra.Command {
	var dirs []string
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what steward would do now and why; touch nothing",
		Long:  "plan looks at the projects as run would and prints what would be changed and told, and why. It writes nothing. Silence is\njudged from what a running steward has seen; where none has looked yet, plan says when a verdict falls due.",
		RunE: func(c *cobra.Command, _ []string) error {
			return showPlan(c.Context(), a, dirs)
		},
	}
	c.Flags().StringArrayVar(&dirs, "project", nil, "look at this `DIR` (may be repeated)")
	return c
}

func showPlan(ctx context.Context, a *cli.App, dirs []string) error {
	cfg, paths, err := a.Settings()
	if err != nil {
		return err
	}
	refs, _, err := daemon.Projects(cfg, dirs, false)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if _, err := cli.ProjectDir("plan", ref.Path); err != nil && len(dirs) > 0 {
			return err
		}
		if _, err := os.Stat(ref.Path); err != nil {
			fmt.Fprintf(a.Err, "steward: project %s is left out: %v\n", ref.Name, err)
		}
	}
	refs = slices.DeleteFunc(refs, func(ref config.ProjectRef) bool { _, err := os.Stat(ref.Path); return err != nil })
	paused, modes, err := daemon.OrdersAbout(paths.State, refs)
	if err != nil {
		return err
	}
	view, err := scanOnce(ctx, a, refs, cfg, modes)
	if err != nil {
		return err
	}
	view.Paused = paused
	for i := range view.Snapshots {
		s := &view.Snapshots[i]
		s.Act = s.Act && view.Paused[s.Project] == ""
	}
	memory := decide.Memory{}
	if state, err := jsonfile.Open(paths.State); err == nil {
		defer state.Close()
		memory = daemon.Recall(state, a.Err)
	}
	view.Incidents = escalate.ReadHeads(filepath.Join(paths.State, "incidents"))
	return cli.Tell(a, status.PlanOf(view, supervisor.Decide(view, memory, cfg.Policies())), views.Plan)
}

// scanOnce scans every project once without changing it.
func scanOnce(ctx context.Context, a *cli.App, refs []config.ProjectRef, cfg config.Config, modes map[string]map[string]supervisor.ModeOrder) (decide.View, error) {
	gauge := measure.New(daemon.PathsOf(refs)...)
	gauge.Sample(time.Now())
	view := decide.View{}
	for _, ref := range refs {
		p := daemon.OpenProject(ref, cfg, false)
		for _, name := range p.Detect() {
			s, err := p.Open(name, modes[ref.Name][name].Mode)
			if err != nil {
				return view, err
			}
			snap := s.Adapter.Observe(ctx, protocol.ScanOrder{Now: time.Now(), Since: time.Now().Add(-cfg.Tasks.History)})
			s.Close()
			snap.Name(ref.Name, name, s.Mode == protocol.ModeAct)
			snap.Mode = s.Mode
			view.Snapshots = append(view.Snapshots, snap)
		}
		if len(view.Snapshots) == 0 {
			fmt.Fprintf(a.Err, "%s speaks no protocol yet; set one up with: steward boot livhana-layer1.1 --project %s\n", ref.Path, terminal.ShellQuote(ref.Path))
		}
	}
	view.Processes = processesOf(view.Snapshots)
	select {
	case <-ctx.Done():
		return view, ctx.Err()
	case <-time.After(200 * time.Millisecond): // CPU usage is known from the second sample on
	}
	view.Now = time.Now()
	view.Load = daemon.ByProjectName(gauge.Sample(view.Now), refs)
	return view, nil
}

// processesOf inspects the processes that the agents' files name.
func processesOf(snaps []protocol.Snapshot) []decide.Process {
	var list []decide.Process
	for _, s := range snaps {
		for _, ag := range s.Agents {
			if ag.Process.Proves() {
				list = append(list, decide.Process{Identity: ag.Process, State: daemon.ProcessState(ag.Process)})
				continue
			}
			if ag.PID == 0 {
				continue
			}
			p := decide.Process{Identity: protocol.Identity{PID: ag.PID}, State: heartbeat.ProcessGone, Claimed: true}
			if id, err := proc.Inspect(ag.PID); err == nil {
				p.Identity, p.State = protocol.Identity(id), heartbeat.ProcessAlive
			}
			list = append(list, p)
		}
	}
	return list
}
