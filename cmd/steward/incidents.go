package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

type incidentQuery struct {
	listQuery
	all bool
}

func newIncidentsCommand(a *cli.App) *cobra.Command {
	var q incidentQuery
	c := &cobra.Command{
		Use: "incidents", Short: "List what needs a human",
		Long: "incidents lists what needs a human: the gravest first, the newest first among equals. steward explain KEY shows one of them\n" +
			"with its options, and steward answer KEY OPTION settles it.",
		Example: "  steward incidents\n  steward incidents --agent codex-cursor --since 2h\n  steward incidents --all --limit 20 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if q.all && q.state != "" {
				return cli.Usagef("list incidents: use --all or --state, not both")
			}
			if err := q.read("list incidents", time.Now()); err != nil {
				return err
			}
			return showIncidents(c.Context(), a, q)
		},
	}
	q.flags(c, "open acked snoozed resolved")
	c.Flags().BoolVar(&q.all, "all", false, "also those that are resolved")
	return c
}

// showIncidents lists the incidents that match the query. Without a daemon it lists the incidents in the ledger.
func showIncidents(ctx context.Context, a *cli.App, q incidentQuery) error {
	found, err := askIncidents(ctx, a, q)
	if errors.Is(err, status.ErrNoDaemon) && q.filter == (filter{}) && !q.all {
		return errors.Join(lastIncidents(a, q), err)
	}
	if err != nil {
		return err
	}
	return listIncidents(a, found, q)
}

// askIncidents asks the daemon for open incidents or those in the query's state, and with --all for resolved ones too.
func askIncidents(ctx context.Context, a *cli.App, q incidentQuery) (found []row[escalate.Incident], err error) {
	states := []string{q.state}
	if q.all {
		states = append(states, string(rules.Resolved))
	}
	err = a.Ask(ctx, "list incidents", func(c *status.Client) error {
		for _, state := range states {
			part := struct{ Incidents []json.RawMessage }{}
			if err := c.Get(ctx, cli.Query("/v1/incidents", "project", q.project, "state", state), &part); err != nil {
				return err
			}
			rows, err := rowsOf[escalate.Incident](part.Incidents)
			if err != nil {
				return err
			}
			found = append(found, rows...)
		}
		return nil
	})
	return found, err
}

// listIncidents filters by --agent, --since and --limit, and prints the rest.
func listIncidents(a *cli.App, found []row[escalate.Incident], q incidentQuery) error {
	found = slices.DeleteFunc(found, func(f row[escalate.Incident]) bool { return !q.has(f.value.Agent, f.value.Last) })
	_, incidents := split(found)
	raws, _ := split(firstOf(found, q.limit))
	return cli.Tell(a, map[string]any{"incidents": raws}, func(p *terminal.Page, _ map[string]any) {
		switch {
		case len(incidents) > 0:
			views.IncidentRows(p, incidents, len(raws))
		case q.isSet():
			p.Line("no incidents match")
			p.Styled(terminal.Dim, "everything that is open: steward incidents")
		case q.all:
			p.Line("no incidents")
		default:
			views.NoIncidents(p)
		}
	})
}

// lastIncidents lists the incidents in the ledger while no daemon runs, among them possibly that steward is down.
func lastIncidents(a *cli.App, q incidentQuery) error {
	paths, err := a.Reach()
	if err != nil {
		return nil // ask has already reported this error
	}
	var found []row[escalate.Incident]
	for _, i := range escalate.ReadAll(filepath.Join(paths.State, "incidents")) {
		if i.State == rules.Resolved {
			continue
		}
		raw, err := json.Marshal(i)
		if err != nil {
			return fmt.Errorf("list incidents: %w", err)
		}
		found = append(found, row[escalate.Incident]{i, raw})
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b row[escalate.Incident]) int {
		return cmp.Or(b.value.Severity.Rank()-a.value.Severity.Rank(), b.value.Last.Compare(a.value.Last), strings.Compare(a.value.Key, b.value.Key))
	})
	return listIncidents(a, found, q)
}
