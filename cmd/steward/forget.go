package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

func newForgetCommand(a *cli.App) *cobra.Command {
	var project string
	c := &cobra.Command{
		Use:   "forget AGENT",
		Short: "Take an agent that is not alive off the list",
		Long: "forget removes the registry entry of an agent that ended, never came, or is gone (protocol agentstatus). Its heartbeat is\n" +
			"kept in tmp/agent_status/steward/forgotten/. An agent that is alive is refused with exit code 5. An agent that beats\n" +
			"or boots again is listed again. forget works without a daemon.",
		Example: "  steward forget claude-3",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cli.CompleteNames(a, "agent"),
		RunE: func(c *cobra.Command, args []string) error {
			return forgetAgent(c.Context(), a, project, args[0])
		},
	}
	c.Flags().StringVar(&project, "project", ".", "the project's `DIR`")
	return c
}

func forgetAgent(ctx context.Context, a *cli.App, project, agent string) error {
	dir, err := cli.ProjectDir("forget", project)
	if err != nil {
		return err
	}
	if err := mayForget(ctx, a, dir, agent); err != nil {
		return err
	}
	cfg, _, err := a.Settings()
	if err != nil {
		cfg = config.Defaults()
	}
	client := daemon.Connect(dir)
	defer client.Close()
	err = client.ForgetAgent(ctx, agent, cfg.Heartbeat.For(agentstatus.Name, agent).Dead, time.Now())
	switch {
	case errors.Is(err, agentstatus.ErrNoAgent), errors.Is(err, agentstatus.ErrNotInitialized):
		return terminal.Report(supervisor.ErrNoSubject, "forget %s: protocol agentstatus lists no such agent in %s", agent, dir)
	case errors.Is(err, agentstatus.ErrTaken):
		return terminal.Report(supervisor.ErrRefused, "forget %s: it is alive: %s", agent, terminal.ErrorText(err))
	case err != nil:
		return fmt.Errorf("forget %s: %w", agent, err)
	}
	return a.Report(map[string]any{"agent": agent, "project": dir, "forgotten": true}, "%s is forgotten", terminal.Clean(agent))
}

// mayForget asks a running daemon, which knows more than the files show.
func mayForget(ctx context.Context, a *cli.App, dir, agent string) error {
	paths, err := a.Reach()
	if err != nil {
		return nil
	}
	var doc status.Document
	if err := status.NewClient(paths.Socket).Get(ctx, "/v1/status", &doc); err != nil {
		return nil // no daemon: decide by the files
	}
	for _, r := range doc.Agents {
		here := slices.ContainsFunc(doc.Projects, func(p supervisor.ProjectReport) bool { return p.Name == r.Project && p.Path == dir })
		if r.Name != agent || r.Protocol != agentstatus.Name || !here {
			continue
		}
		switch r.State {
		case protocol.AgentAlive, protocol.AgentLate, protocol.AgentHung, protocol.AgentPaused:
			return terminal.Report(supervisor.ErrRefused, "forget %s: it is %s: %s", agent, r.State, r.Why)
		}
	}
	return nil
}
