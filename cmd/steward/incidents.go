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

	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/status"
)

// incidentQuery holds the flags of `steward incidents`.
type incidentQuery struct {
	filter
	narrowing
	all bool
}

func (a *app) incidentsCommand() *cobra.Command {
	var q incidentQuery
	c := &cobra.Command{
		Use: "incidents", Short: "List what needs a human",
		Long: "incidents lists what needs a human: the gravest first, the newest first among equals. steward explain KEY shows one of them\n" +
			"with its options, and steward answer KEY OPTION settles it.",
		Example: "  steward incidents\n  steward incidents --agent codex-cursor --since 2h\n  steward incidents --all --limit 20 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if q.all && q.state != "" {
				return usageError{fmt.Errorf("list incidents: use --all or --state, not both")}
			}
			if err := q.read("list incidents", time.Now()); err != nil {
				return err
			}
			return a.incidents(c.Context(), q)
		},
	}
	q.filter.flags(c, "open acked snoozed resolved")
	q.narrowing.flags(c)
	c.Flags().BoolVar(&q.all, "all", false, "also those that are resolved")
	return c
}

// incidents lists the incidents that match the query. Without a daemon it lists the incidents in the ledger.
func (a *app) incidents(ctx context.Context, q incidentQuery) error {
	found, err := a.askIncidents(ctx, q)
	if errors.Is(err, status.ErrNoDaemon) && q.filter == (filter{}) && !q.all {
		return errors.Join(a.lastIncidents(q), err)
	}
	if err != nil {
		return err
	}
	return a.listIncidents(found, q)
}

// foundIncident is an incident with the daemon's original document.
type foundIncident struct {
	escalate.Incident
	raw json.RawMessage
}

// askIncidents asks the daemon for open incidents or those in the query's state, and with --all for resolved ones too.
func (a *app) askIncidents(ctx context.Context, q incidentQuery) (found []foundIncident, err error) {
	states := []string{q.state}
	if q.all {
		states = append(states, string(rules.Resolved))
	}
	err = a.ask(ctx, "list incidents", func(c *status.Client) error {
		for _, state := range states {
			part := struct{ Incidents []json.RawMessage }{}
			if err := c.Get(ctx, query("/v1/incidents", "project", q.project, "state", state), &part); err != nil {
				return err
			}
			for _, raw := range part.Incidents {
				f := foundIncident{raw: raw}
				if err := json.Unmarshal(raw, &f.Incident); err != nil {
					return fmt.Errorf("read steward's answer: %w; is it another version than this command?", err)
				}
				found = append(found, f)
			}
		}
		return nil
	})
	return found, err
}

// listIncidents filters by --agent, --since and --limit, and prints the rest.
func (a *app) listIncidents(found []foundIncident, q incidentQuery) error {
	found = slices.DeleteFunc(found, func(f foundIncident) bool { return !q.has(f.Agent, f.Last) })
	all := found
	if q.limit > 0 {
		found = found[:min(len(all), q.limit)]
	}
	if a.output == "json" {
		doc := struct {
			Incidents []json.RawMessage `json:"incidents"`
		}{[]json.RawMessage{}}
		for _, f := range found {
			doc.Incidents = append(doc.Incidents, f.raw)
		}
		return a.print(doc)
	}
	var incidents []escalate.Incident
	for _, f := range all {
		incidents = append(incidents, f.Incident)
	}
	p := a.page()
	switch {
	case len(all) > 0:
		views.IncidentRows(p, incidents, len(found))
	case q.set() || q.filter != (filter{}):
		p.Line("no incidents match")
		p.Styled(terminal.Dim, "everything that is open: steward incidents")
	case q.all:
		p.Line("no incidents")
	default:
		views.NoIncidents(p)
	}
	return a.write(p.String())
}

// lastIncidents lists the incidents in the ledger while no daemon runs, among them possibly that steward is down.
func (a *app) lastIncidents(q incidentQuery) error {
	paths, err := a.reach()
	if err != nil {
		return nil // ask has already reported this error
	}
	var found []foundIncident
	for _, i := range escalate.ReadAll(filepath.Join(paths.State, "incidents")) {
		if i.State == rules.Resolved {
			continue
		}
		raw, err := json.Marshal(i)
		if err != nil {
			return fmt.Errorf("list incidents: %w", err)
		}
		found = append(found, foundIncident{i, raw})
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b foundIncident) int {
		return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), b.Last.Compare(a.Last), strings.Compare(a.Key, b.Key))
	})
	return a.listIncidents(found, q)
}
