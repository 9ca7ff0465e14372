package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/status/terminal"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/status"
)

func (a *app) ackCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "ack KEY… | --all",
		Short: "Acknowledge incidents: nobody is called about them for a while",
		Long: "ack says that you have seen an incident. It is told again when its time is up and it is not resolved by then. KEY\n" +
			"may be cut short. --all acknowledges everything that is open now.",
		Example: "  steward ack 3fa9\n  steward ack 3fa9 77c0 216a\n  steward ack --all",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: a.completeEach("incident"),
		RunE: func(c *cobra.Command, keys []string) error {
			switch {
			case all && len(keys) > 0:
				return usageError{fmt.Errorf("acknowledge: use keys or --all, not both")}
			case all:
				return a.ackAll(c.Context())
			case len(keys) == 0:
				return usageError{fmt.Errorf("acknowledge: missing argument KEY, or --all; see: steward incidents")}
			}
			return a.quieten(c.Context(), "acknowledge", keys, renderAcked, postAck(c.Context()))
		},
	}
	c.Flags().BoolVar(&all, "all", false, "acknowledge everything that is open")
	return c
}

// ackAll acknowledges each raised incident; acknowledged or snoozed incidents keep their time.
func (a *app) ackAll(ctx context.Context) error {
	found, err := a.askIncidents(ctx, incidentQuery{filter: filter{state: string(rules.Raised)}})
	if err != nil {
		return err
	}
	var keys []string
	for _, f := range found {
		keys = append(keys, f.Key)
	}
	if len(keys) == 0 && a.output != "json" {
		return a.write("no incident is open\n")
	}
	return a.quietenAll(ctx, "acknowledge", keys, renderAcked, postAck(ctx))
}

// post sends the daemon an order about the incident with that key.
type post func(cl *status.Client, key string, raw *json.RawMessage) error

func postAck(ctx context.Context) post {
	return func(cl *status.Client, key string, raw *json.RawMessage) error {
		return cl.Post(ctx, "/v1/incidents/"+key+"/ack", nil, raw)
	}
}

func (a *app) snoozeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "snooze KEY… DURATION",
		Short:   "Keep incidents quiet for a while; then they call again",
		Example: "  steward snooze 3fa9 2h\n  steward snooze 3fa9 77c0 30m",
		Args:    cobra.MinimumNArgs(2), ValidArgsFunction: a.completeEach("incident"),
		RunE: func(c *cobra.Command, args []string) error {
			keys, length := args[:len(args)-1], args[len(args)-1]
			d, err := time.ParseDuration(length)
			if err != nil || d <= 0 || d > status.LongestSnooze {
				return usageError{fmt.Errorf("snooze %s: %q is not a duration of up to 30 days; use a value like 30m or 2h", keys[0], length)}
			}
			return a.quieten(c.Context(), "snooze", keys, renderSnoozed, func(cl *status.Client, key string, raw *json.RawMessage) error {
				return cl.Post(c.Context(), "/v1/incidents/"+key+"/snooze", status.Snooze{Seconds: d.Seconds()}, raw)
			})
		},
	}
}

// quieted is the daemon's answer about one incident.
type quieted struct {
	Incident escalate.Incident `json:"incident"`
}

// quieten posts for each key and prints the daemon's answers. For a single key it prints the daemon's document unchanged.
func (a *app) quieten(ctx context.Context, verb string, keys []string, render func(*terminal.Page, quieted), do post) error {
	if len(keys) > 1 {
		return a.quietenAll(ctx, verb, keys, render, do)
	}
	raw, err := a.quietenOne(ctx, verb, keys[0], do)
	if err != nil {
		return err
	}
	return present(a, raw, render)
}

func (a *app) quietenOne(ctx context.Context, verb, key string, do post) (raw json.RawMessage, err error) {
	at, err := segment(key)
	if err != nil {
		return nil, err
	}
	err = a.ask(ctx, verb+" "+key, func(cl *status.Client) error { return do(cl, at, &raw) })
	return raw, err
}

// quietenAll continues after a rejected key, and finally reports the rejected keys.
func (a *app) quietenAll(ctx context.Context, verb string, keys []string, render func(*terminal.Page, quieted), do post) error {
	done := struct {
		Incidents []json.RawMessage `json:"incidents"`
	}{[]json.RawMessage{}}
	p := a.page()
	var troubles error
	for _, key := range keys {
		raw, err := a.quietenOne(ctx, verb, key, do)
		if errors.Is(err, status.ErrNoDaemon) {
			troubles = errors.Join(troubles, err)
			break
		}
		var one struct {
			Incident json.RawMessage `json:"incident"`
		}
		var q quieted
		if err == nil {
			err = errors.Join(json.Unmarshal(raw, &one), json.Unmarshal(raw, &q))
		}
		if err != nil {
			troubles = errors.Join(troubles, err)
			continue
		}
		done.Incidents = append(done.Incidents, one.Incident)
		render(p, q)
	}
	if a.output == "json" {
		return errors.Join(a.print(done), troubles)
	}
	return errors.Join(a.write(p.String()), troubles)
}

func renderAcked(p *terminal.Page, q quieted) {
	p.Line("acknowledged until %s: %s", p.Clock(q.Incident.AckedUntil), terminal.Clean(q.Incident.Summary))
}

func renderSnoozed(p *terminal.Page, q quieted) {
	p.Line("quiet until %s: %s", p.Clock(q.Incident.AckedUntil), terminal.Clean(q.Incident.Summary))
}
