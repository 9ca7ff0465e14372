package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/spf13/cobra"
)

func newAnswerCommand(a *cli.App) *cobra.Command {
	var why string
	var stop bool
	var requirements []string
	c := &cobra.Command{
		Use:   "answer KEY [OPTION]",
		Short: "Answer an incident; the agent that asked reads the answer",
		Long: "answer settles an incident with one of its options (see: steward incidents), by its id or its words; where it offers none,\n" +
			"OPTION is your answer in your own words. The first answer counts. It is written where the agent that asked looks for it.\n" +
			"KEY may be cut short. KEY@REVISION answers the question as it was listed with that revision; a question that was reworded\n" +
			"since it was raised can be answered so only.\n\n" +
			"--stop tells the agent to end its task instead of going on; then OPTION may be left out. --requirement gives its task other\n" +
			"requirements. Both work for questions of protocol 004 (envelope), whose answer has a place for them.",
		Example: "  steward answer 3fa9 1 --why \"the staging database is a copy\"\n  steward answer 3fa9 \"Use approach B\"\n  steward answer 216a retry\n" +
			"  steward answer 77c0 --stop --why \"the customer cancelled\"\n  steward answer 77c0 2 --requirement \"Use OAuth2\" --requirement \"Keep the old login for a month\"",
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: cli.CompleteNames(a, "incident"),
		RunE: func(c *cobra.Command, args []string) error {
			option := ""
			if len(args) > 1 {
				option = args[1]
			}
			if len(args) == 1 && !stop {
				return cli.Usagef("answer %s: missing argument OPTION or TEXT (or use --stop); see: steward incidents", args[0])
			}
			for _, requirement := range requirements {
				if strings.TrimSpace(requirement) == "" {
					return cli.Usagef("answer %s: a --requirement has no words", args[0])
				}
			}
			name, rev, err := splitKey(args[0])
			if err != nil {
				return err
			}
			raw, err := postIncident(c.Context(), a, "answer "+args[0], name, "answer", status.Answer{Option: option, Why: why, Rev: rev, Stop: stop, Requirements: requirements})
			if err != nil {
				return err
			}
			return cli.Present(a, raw, views.Answered)
		},
	}
	cli.WhyFlag(c, &why)
	c.Flags().BoolVar(&stop, "stop", false, "tell the agent to end its task instead of going on")
	c.Flags().StringArrayVar(&requirements, "requirement", nil, "a `REQUIREMENT` that the task has from now on (repeatable)")
	return c
}

// splitKey splits KEY or KEY@REVISION; rev is 0 without a revision.
func splitKey(text string) (key string, rev int, err error) {
	key, number, bound := strings.Cut(text, "@")
	if !bound {
		return key, 0, nil
	}
	if rev, err = strconv.Atoi(number); err != nil || rev < 1 {
		return "", 0, cli.Usagef("answer %s: %q is not a revision; see: steward incidents", text, number)
	}
	return key, rev, nil
}

func newAckCommand(a *cli.App) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "ack KEY… | --all",
		Short: "Acknowledge incidents: no reminders about them for a while",
		Long: "ack says that you have seen an incident. It is told again when its time is up and it is not resolved by then. KEY\n" +
			"may be cut short. --all acknowledges everything that is open now.",
		Example: "  steward ack 3fa9\n  steward ack 3fa9 77c0 216a\n  steward ack --all",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: cli.CompleteEach(a, "incident"),
		RunE: func(c *cobra.Command, keys []string) error {
			switch {
			case all && len(keys) > 0:
				return cli.Usagef("acknowledge: use keys or --all, not both")
			case all:
				return ackAll(c.Context(), a)
			case len(keys) == 0:
				return cli.Usagef("acknowledge: missing argument KEY, or --all; see: steward incidents")
			}
			return quiet(c.Context(), a, "acknowledge", keys, "ack", nil, views.Acked)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "acknowledge everything that is open")
	return c
}

// ackAll acknowledges each raised incident; acknowledged or snoozed incidents keep their time.
func ackAll(ctx context.Context, a *cli.App) error {
	found, err := askIncidents(ctx, a, "", string(rules.Raised))
	if err != nil {
		return err
	}
	var keys []string
	for _, f := range found {
		keys = append(keys, f.Key)
	}
	if len(keys) == 0 && a.Output != "json" {
		return a.Write("no incident is open\n")
	}
	return quietEach(ctx, a, "acknowledge", keys, "ack", nil, views.Acked)
}

func newSnoozeCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "snooze KEY… DURATION",
		Short:   "Keep incidents quiet for a while; then they call again",
		Example: "  steward snooze 3fa9 2h\n  steward snooze 3fa9 77c0 30m",
		Args:    cobra.MinimumNArgs(2), ValidArgsFunction: cli.CompleteEach(a, "incident"),
		RunE: func(c *cobra.Command, args []string) error {
			keys, length := args[:len(args)-1], args[len(args)-1]
			d, err := time.ParseDuration(length)
			if err != nil || d <= 0 || d > status.LongestSnooze {
				return cli.Usagef("snooze %s: %q is not a duration of up to 30 days; use a value like 30m or 2h", keys[0], length)
			}
			return quiet(c.Context(), a, "snooze", keys, "snooze", status.Snooze{Seconds: d.Seconds()}, views.Snoozed)
		},
	}
}

// quiet posts an order about each incident and prints the daemon's answers: for a single key its document unchanged.
func quiet(ctx context.Context, a *cli.App, verb string, keys []string, order string, body any, render func(*terminal.Page, views.AnsweredIncident)) error {
	if len(keys) > 1 {
		return quietEach(ctx, a, verb, keys, order, body, render)
	}
	raw, err := postIncident(ctx, a, verb+" "+keys[0], keys[0], order, body)
	if err != nil {
		return err
	}
	return cli.Present(a, raw, render)
}

func postIncident(ctx context.Context, a *cli.App, doing, key, order string, body any) (raw json.RawMessage, err error) {
	at, err := cli.PathSegment(key)
	if err != nil {
		return nil, err
	}
	err = a.Ask(ctx, doing, func(cl *status.Client) error {
		return cl.Post(ctx, "/v1/incidents/"+at+"/"+order, body, &raw)
	})
	return raw, err
}

// quietEach continues after a rejected key, and finally reports the rejected keys.
func quietEach(ctx context.Context, a *cli.App, verb string, keys []string, order string, body any, render func(*terminal.Page, views.AnsweredIncident)) error {
	done := struct {
		Incidents []escalate.Incident `json:"incidents"`
	}{[]escalate.Incident{}}
	p := a.Page()
	var troubles error
	for _, key := range keys {
		var answered views.AnsweredIncident
		raw, err := postIncident(ctx, a, verb+" "+key, key, order, body)
		if err == nil {
			err = json.Unmarshal(raw, &answered)
		}
		if err != nil {
			troubles = errors.Join(troubles, err)
			if errors.Is(err, status.ErrNoDaemon) {
				break
			}
			continue
		}
		done.Incidents = append(done.Incidents, answered.Incident)
		render(p, answered)
	}
	if a.Output == "json" {
		return errors.Join(a.Print(done), troubles)
	}
	return errors.Join(a.Write(p.String()), troubles)
}
