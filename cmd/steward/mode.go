package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

// modeDefault ends an order about a mode.
const modeDefault = "default"

func newModeCommand(a *cli.App) *cobra.Command {
	var why string
	words := []string{string(protocol.ModeObserve), string(protocol.ModeAsk), string(protocol.ModeAct), modeDefault}
	c := &cobra.Command{
		Use:   "mode [PROJECT PROTOCOL MODE]",
		Short: "List or set what steward does by itself in a project's protocol",
		Long: "mode sets what steward does in one protocol of a project without your word:\n" +
			"  observe   it shows what is wrong, and changes nothing\n" +
			"  ask       it offers each repair as an option of an incident, and makes it when you choose it\n" +
			"  act       it repairs by itself\n" +
			"  default   as the configuration says\n" +
			"What you order (retry, cancel, answer) is done in every mode. The order takes effect at once and stays until you give another\n" +
			"one. Without arguments mode lists the modes and where each comes from; that needs no daemon.",
		Example: "  steward mode\n  steward mode sot ralph act --why \"it has proved itself\"",
		Args: cobra.MatchAll(cobra.MaximumNArgs(3), func(_ *cobra.Command, args []string) error {
			if n := len(args); n != 0 && n != 3 {
				return fmt.Errorf("name a project, a protocol and a mode, or nothing")
			}
			return nil
		}),
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return cli.CompleteNames(a, "project")(c, args, typed)
			case 1:
				var names []string
				for _, ad := range daemon.Adapters {
					names = append(names, ad.Name)
				}
				return names, cobra.ShellCompDirectiveNoFileComp
			case 2:
				return words, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listModes(a)
			}
			return setMode(c.Context(), a, args[0], args[1], args[2], why, words)
		},
	}
	cli.WhyFlag(c, &why)
	return c
}

func setMode(ctx context.Context, a *cli.App, project, protocolName, mode, why string, words []string) error {
	if !slices.Contains(words, mode) {
		return cli.Usagef("mode: %q is not a mode; use one of %s", mode, strings.Join(words, ", "))
	}
	if _, ok := daemon.AdapterNamed(protocolName); !ok {
		return cli.Usagef("mode: there is no protocol %q", protocolName)
	}
	at, err := cli.PathSegment(project)
	if err != nil {
		return err
	}
	o := status.ModeOrder{Protocol: protocolName, Mode: protocol.Mode(mode), Why: why}
	if mode == modeDefault {
		o.Mode = ""
	}
	var raw json.RawMessage
	err = a.Ask(ctx, "mode "+project+" "+protocolName, func(c *status.Client) error {
		return c.Post(ctx, "/v1/projects/"+at+"/mode", o, &raw)
	})
	if err != nil {
		return err
	}
	return cli.Present(a, raw, views.Carried)
}

// modeRow is the mode of a protocol of a project, and where it comes from.
type modeRow struct {
	Project  string        `json:"project"`
	Protocol string        `json:"protocol"`
	Mode     protocol.Mode `json:"mode"`
	From     string        `json:"from"` // default, configuration, or order
	At       *time.Time    `json:"at"`   // of the order
	Why      string        `json:"why,omitempty"`
	Paused   string        `json:"paused,omitempty"`
}

type modeList struct {
	Modes []modeRow `json:"modes"`
}

func listModes(a *cli.App) error {
	cfg, paths, err := a.Settings()
	if err != nil {
		return err
	}
	refs := a.KnownProjects(cfg, paths)
	paused, ordered, err := daemon.OrdersAbout(paths.State, refs)
	if err != nil {
		return err
	}
	doc := modeList{Modes: []modeRow{}}
	for _, ref := range refs {
		for _, name := range daemon.OpenProject(ref, cfg, false).Detect() {
			doc.Modes = append(doc.Modes, modeOf(ref, name, ordered[ref.Name][name], paused[ref.Name]))
		}
	}
	return cli.Tell(a, doc, func(p *terminal.Page, doc modeList) {
		var rows [][]terminal.Cell
		for _, r := range doc.Modes {
			from := r.From
			if r.At != nil {
				from += " of " + p.Ago(r.At)
			}
			if r.Paused != "" {
				from += "; the project is paused"
			}
			rows = append(rows, []terminal.Cell{{Text: r.Project}, {Text: r.Protocol}, {Text: string(r.Mode)}, {Text: from}, {Text: r.Why}})
		}
		views.Table(p, "no project speaks a protocol", "how to set one up: steward boot --help", []string{"PROJECT", "PROTOCOL", "MODE", "FROM", "WHY"}, rows,
			"change one: steward mode PROJECT PROTOCOL observe|ask|act|default")
	})
}

func modeOf(ref config.ProjectRef, name string, o supervisor.ModeOrder, paused string) modeRow {
	r := modeRow{Project: ref.Name, Protocol: name, Mode: cmp.Or(o.Mode, protocol.Mode(ref.Mode(name))), From: "default", Why: o.Why, Paused: paused}
	switch {
	case o.Mode != "":
		at := o.At.UTC()
		r.From, r.At = "order", &at
	case ref.Sets(name):
		r.From = "configuration"
	}
	return r
}
