package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

func newBootCommand(a *cli.App) *cobra.Command {
	var project, protocolName, session string
	var pid int
	c := &cobra.Command{
		Use:   "boot AGENT",
		Short: "Set up the shared folders and files for an agent",
		Long: "boot sets up the protocol's folders, registry, heartbeat and log for one agent, as its boot script would, but\n" +
			"merges with what is there. It replaces the whole set-up part of a boot script:\n\n" +
			"    steward boot livhana-layer1.1 --project \"$ROOT\"\n    steward boot codex-cursor --project \"$ROOT\"\n\n" +
			"Another agent joins the protocol that the project speaks. Where it speaks none or several, --protocol names it, which\n" +
			"creates its layout: agentstatus, handoffs, ralph, mailbox or envelope.\n\n" +
			"With --pid the process is recorded as proof of life, and the daemon keeps the agent's heartbeat while that process lives.\n" +
			"Without, the registry shows the caller's pid, which proves nothing: the agent is expected, and falls due after its own\n" +
			"first heartbeat.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			b := protocol.Boot{Agent: args[0], PID: os.Getppid(), Session: session, Now: time.Now()}
			if c.Flags().Changed("pid") {
				id, err := cli.ProcessOf("boot", pid)
				if err != nil {
					return err
				}
				b.PID, b.Process = pid, id
			}
			return bootAgent(a, c, project, protocolName, b)
		},
	}
	c.Flags().StringVar(&project, "project", ".", "the project's `DIR`")
	c.Flags().StringVar(&protocolName, "protocol", "", "the protocol's `NAME`: agentstatus, handoffs, ralph, mailbox or envelope (default: the only one that the project speaks)")
	c.Flags().IntVar(&pid, "pid", 0, "the agent's own process `ID`")
	c.Flags().StringVar(&session, "session", "", "the session's `ID`")
	return c
}

func bootAgent(a *cli.App, c *cobra.Command, project, protocolName string, b protocol.Boot) error {
	if !cli.IsAgentName(b.Agent) {
		return cli.Usagef("boot: %q is not a valid agent name: it must not begin with '-', '.' or a space, nor end with a space", terminal.OneWord(b.Agent))
	}
	dir, err := cli.ProjectDir("boot", project)
	if err != nil {
		return err
	}
	cfg, _, err := a.Settings()
	if err != nil {
		cfg = config.Defaults() // a boot script must not fail because of the daemon's configuration
	}
	if protocolName == "" {
		if protocolName, err = protocolFor(b.Agent, dir, cfg); err != nil {
			return err
		}
	}
	ad, ok := daemon.AdapterNamed(protocolName)
	if !ok {
		return cli.Usagef("boot: this version does not support protocol %s; it supports %s", terminal.OneWord(protocolName), protocolNames())
	}
	speaker := ad.Open(dir, cfg, daemon.GuardLock)
	defer speaker.Close()
	err = speaker.Prepare(c.Context(), b)
	if errors.Is(err, agentstatus.ErrNotInitialized) {
		// The message of the document (protocol 000, CODEX Boot Sequence); the returned error names the replacement command.
		if a.Output != "json" {
			fmt.Fprintln(a.Err, "ERROR: Inter-agent communication not initialized")
			fmt.Fprintln(a.Err, "Run: bash scripts/claude_tier1_boot.sh first")
		}
		return fmt.Errorf("boot %s: first run: steward boot livhana-layer1.1 --project %s", b.Agent, dir)
	}
	if err != nil {
		return err
	}
	doc := map[string]any{"agent": b.Agent, "project": dir, "protocol": protocolName, "pid": b.PID, "proof": b.Process.Proves()}
	return a.Report(doc, "✅ %s initialized in %s", terminal.Clean(b.Agent), dir)
}

// protocolFor picks the protocol when --protocol is not given: protocol 000 for its known agents, otherwise the only
// protocol that the folder speaks.
func protocolFor(agent, dir string, cfg config.Config) (string, error) {
	if slices.Contains(agentstatus.KnownAgents(), agent) {
		return agentstatus.Name, nil
	}
	spoken := daemon.OpenProject(config.ProjectRef{Path: dir}, cfg, false).Detect()
	switch len(spoken) {
	case 0:
		return "", cli.Usagef("boot %s: name the protocol with --protocol (%s)", terminal.OneWord(agent), protocolNames())
	case 1:
		return spoken[0], nil
	}
	return "", cli.Usagef("boot %s: the project speaks %s; name one with --protocol", terminal.OneWord(agent), strings.Join(spoken, " and "))
}

func protocolNames() string {
	var names []string
	for _, ad := range daemon.Adapters {
		names = append(names, ad.Name)
	}
	return strings.Join(names, ", ")
}
