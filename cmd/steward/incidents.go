package main

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
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

func newIncidentsCommand(a *cli.App) *cobra.Command {
	var q query
	var resolved bool
	c := &cobra.Command{
		Use: "incidents", Short: "List what needs a human",
		Long: "incidents lists what needs a human: the gravest first, the newest first among equals. steward explain KEY shows one of them\n" +
			"with its options, and steward answer KEY OPTION settles it.",
		Example: "  steward incidents\n  steward incidents --agent codex-cursor --since 2h\n  steward incidents --all --limit 20 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if resolved && q.state != "" {
				return cli.Usagef("list incidents: use --all or --state, not both")
			}
			if err := q.read(c, "list incidents", time.Now()); err != nil {
				return err
			}
			return showIncidents(c.Context(), a, q, resolved)
		},
	}
	q.flags(c, "open acked snoozed resolved")
	c.Flags().BoolVar(&resolved, "all", false, "also those that are resolved")
	return c
}

// showIncidents lists the incidents that match the query, with resolved also those. Without a daemon it lists the
// incidents in the ledger.
func showIncidents(ctx context.Context, a *cli.App, q query, resolved bool) error {
	states := []string{q.state}
	if resolved {
		states = append(states, string(rules.Resolved))
	}
	found, err := askIncidents(ctx, a, q.project, states...)
	if errors.Is(err, status.ErrNoDaemon) && q.project == "" && q.state == "" && !resolved {
		return errors.Join(lastIncidents(a, q), err)
	}
	if err != nil {
		return err
	}
	return listIncidents(a, found, q, resolved)
}

// askIncidents asks the daemon for the incidents in these states; "" means the open ones.
func askIncidents(ctx context.Context, a *cli.App, project string, states ...string) (found []escalate.Incident, err error) {
	err = a.Ask(ctx, "list incidents", func(c *status.Client) error {
		for _, state := range states {
			var part struct{ Incidents []escalate.Incident }
			if err := c.Get(ctx, cli.Query("/v1/incidents", "project", project, "state", state), &part); err != nil {
				return err
			}
			found = append(found, part.Incidents...)
		}
		return nil
	})
	return found, err
}

// listIncidents filters by --agent, --since and --limit, and prints the rest.
func listIncidents(a *cli.App, found []escalate.Incident, q query, resolved bool) error {
	all, shown := matching(&q, found, func(i escalate.Incident) (string, time.Time) { return i.Agent, i.Last })
	return cli.Tell(a, map[string]any{"incidents": shown}, func(p *terminal.Page, _ map[string]any) {
		switch {
		case len(all) > 0:
			views.IncidentRows(p, all, len(shown))
		case q.isSet():
			p.Line("no incidents match")
			p.Styled(terminal.Dim, "everything that is open: steward incidents")
		case resolved:
			p.Line("no incidents")
		default:
			views.NoIncidents(p)
		}
	})
}

// lastIncidents lists the incidents in the ledger while no daemon runs, among them possibly that steward is down.
func lastIncidents(a *cli.App, q query) error {
	paths, err := a.Reach()
	if err != nil {
		return nil // ask has already reported this error
	}
	open := slices.DeleteFunc(escalate.ReadAll(filepath.Join(paths.State, "incidents")), func(i escalate.Incident) bool { return i.State == rules.Resolved })
	if len(open) == 0 {
		return nil
	}
	slices.SortStableFunc(open, func(a, b escalate.Incident) int {
		return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), b.Last.Compare(a.Last), strings.Compare(a.Key, b.Key))
	})
	return listIncidents(a, open, q, false)
}
