package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/holds"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/spf13/cobra"
)

// newOperatorCommands are the commands with which the operator intervenes.
func newOperatorCommands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		newAckCommand(a), newAnswerCommand(a), newSnoozeCommand(a),
		newOrderCommand(a, order{verb: "retry", arg: "TASK", kinds: []string{"task"}, path: "/v1/tasks/%s/retry",
			short:   "Run a failed task again, whatever the rules say",
			example: "  steward retry 7c0e2f5a-3b1d-4f7e-9a51-5d1c8e7f2a10 --why \"the disk was full\""}),
		newOrderCommand(a, order{verb: "cancel", arg: "TASK", kinds: []string{"task"}, path: "/v1/tasks/%s/cancel",
			short: "End a task, or steward's retry of it, for good", example: "  steward cancel sot:task/7c0e2f5a-3b1d-4f7e-9a51-5d1c8e7f2a10"}),
		newOrderCommand(a, order{verb: "hold", arg: "AGENT", kinds: []string{"agent"}, path: "/v1/agents/%s/hold",
			short: "Hold an agent: it is neither reaped nor restarted until it is released", example: "  steward hold codex-cursor --why \"debugging it\""}),
		newOrderCommand(a, order{verb: "restart", arg: "AGENT", kinds: []string{"agent"}, path: "/v1/agents/%s/restart",
			short: "End an agent of an [[agent]] row, and start it again", example: "  steward restart codex-cursor --why \"it uses the old key\""}),
		newReleaseCommand(a), newForgetCommand(a), newModeCommand(a),
		newOrderCommand(a, order{verb: "pause", arg: "[PROJECT]", kinds: []string{"project"}, path: "/v1/projects/%s/pause", all: "/v1/pause",
			short: "Only observe a project (or all) until it is resumed", example: "  steward pause sot --why \"I move files by hand\""}),
		newOrderCommand(a, order{verb: "resume", arg: "[PROJECT]", kinds: []string{"project"}, path: "/v1/projects/%s/resume", all: "/v1/resume",
			short: "Act in a project (or all) again", example: "  steward resume"}),
		newOrderCommand(a, order{verb: "reload", all: "/v1/reload",
			short: "Put the configuration file in force; a bad one leaves the old in force", example: "  steward reload"}),
	}
}

// order is a command that sends one POST request.
type order struct {
	verb, arg string
	kinds     []string // the kinds that the argument can name
	path      string   // with %s for the argument; "": a call without argument only
	all       string   // the path without an argument; "": the argument is required
	short     string
	example   string
}

func newOrderCommand(a *cli.App, o order) *cobra.Command {
	var why string
	c := &cobra.Command{Use: o.verb, Short: o.short, Example: o.example, Args: o.args()}
	c.RunE = func(c *cobra.Command, args []string) error {
		doing, path := o.verb, o.all
		if len(args) > 0 {
			at, err := cli.PathSegment(args[0])
			if err != nil {
				return err
			}
			doing, path = o.verb+" "+args[0], fmt.Sprintf(o.path, at)
		}
		raw, err := cli.PostOrder(c.Context(), a, doing, path, why)
		if err != nil {
			return err
		}
		return cli.Present(a, raw, views.Carried)
	}
	if o.path != "" {
		c.Use += " " + o.arg
		c.ValidArgsFunction = cli.CompleteNames(a, o.kinds...)
		cli.WhyFlag(c, &why)
	}
	return c
}

func (o order) args() cobra.PositionalArgs {
	switch {
	case o.path == "":
		return cobra.NoArgs
	case o.all == "":
		return cobra.ExactArgs(1)
	}
	return cobra.MaximumNArgs(1)
}

func newReleaseCommand(a *cli.App) *cobra.Command {
	var why string
	c := &cobra.Command{
		Use:   "release [TASK or AGENT]",
		Short: "Release a held task or agent, or of all held tasks; works without a daemon",
		Long: "release lets agents see a held task again, or ends the operator's hold on an agent. Without a name it releases all held\n" +
			"tasks. It works on the files themselves when no steward is running.",
		Example: "  steward release\n  steward release 7c0e2f5a-3b1d-4f7e-9a51-5d1c8e7f2a10\n  steward release agent/codex-cursor",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: cli.CompleteNames(a, "task", "agent"),
		RunE: func(c *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				if _, err := cli.PathSegment(args[0]); err != nil {
					return err
				}
				name = args[0]
			}
			return releaseHeld(c.Context(), a, name, why)
		},
	}
	cli.WhyFlag(c, &why)
	return c
}

func releaseHeld(ctx context.Context, a *cli.App, name, why string) error {
	paths, err := a.Reach()
	if err != nil {
		return err
	}
	raw, err := askRelease(ctx, status.NewClient(paths.Socket), name, why)
	switch {
	case errors.Is(err, status.ErrNoDaemon):
		return releaseFiles(ctx, a, name, why)
	case err != nil:
		return cli.Failed(err, strings.TrimSpace("release "+name))
	}
	return cli.Present(a, raw, views.Carried)
}

// askRelease asks the daemon to release. A bare name means a task, or else an agent.
func askRelease(ctx context.Context, c *status.Client, name, why string) (raw json.RawMessage, err error) {
	post := func(path string) error { return c.Post(ctx, path, status.Order{Why: why}, &raw) }
	at := url.PathEscape(name)
	switch kind := protocol.ParseQuery(name).Kind; {
	case name == "":
		return raw, post("/v1/release")
	case kind == protocol.KindAgent:
		return raw, post("/v1/agents/" + at + "/release")
	case kind != "":
		return raw, post("/v1/tasks/" + at + "/release")
	}
	var remote *status.Error
	if err = post("/v1/tasks/" + at + "/release"); errors.As(err, &remote) && remote.Code == status.CodeNoSubject {
		err = post("/v1/agents/" + at + "/release")
	}
	return raw, err
}

// released is the output of release without a daemon.
type released struct {
	Verb     string   `json:"verb"`
	Released []string `json:"released"`
	Failed   []string `json:"failed"`
}

// releaseFiles works without a daemon: it releases in the files what a dead daemon holds.
func releaseFiles(ctx context.Context, a *cli.App, name, why string) error {
	holds := holds.Read(ctx, a)
	defer holds.Close()
	wanted, err := holds.Named(name)
	if err != nil {
		return err
	}
	if why == "" {
		why = "released by you"
	}
	done := released{Verb: "release", Released: []string{}, Failed: []string{}}
	var troubles error
	for _, h := range wanted {
		if err := h.Free(ctx, protocol.ReasonOperator, why); err != nil {
			troubles = errors.Join(troubles, cli.Failed(err, "release "+h.Subject.String()))
			done.Failed = append(done.Failed, h.Subject.String())
			continue
		}
		done.Released = append(done.Released, h.Subject.String())
	}
	if a.Output == "json" {
		return errors.Join(a.Print(done), troubles)
	}
	p := a.Page()
	for _, subject := range done.Released {
		p.Line("released %s (no steward is running)", terminal.Clean(subject))
	}
	if len(wanted) == 0 {
		p.Line("queue empty (no steward is running)")
	}
	return errors.Join(a.Write(p.String()), troubles)
}
