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

	"github.com/spf13/cobra"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
)

// incidentQuery is what `steward incidents` is asked for.
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

// incidentList is the document of incidents.
type incidentList struct {
	Incidents []escalate.Incident `json:"incidents"`
}

// incidents lists the incidents that the query asks for. Without a daemon it lists what the ledger holds.
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

// foundIncident is an incident, and its document as the daemon gave it.
type foundIncident struct {
	escalate.Incident
	raw json.RawMessage
}

// askIncidents asks the daemon: what is open, or in the state of the query, and with --all what is resolved too.
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

// listIncidents prints what is left of them by --agent, --since and --limit.
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
		p.incidents(incidents, len(found))
	case q.set() || q.filter != (filter{}):
		p.Line("no incidents match")
		p.Styled(terminal.Dim, "everything that is open: steward incidents")
	case q.all:
		p.Line("no incidents")
	default:
		p.noIncidents()
	}
	return a.write(p.String())
}

// lastIncidents lists what the ledger holds while no daemon runs: that steward is down may be among it.
func (a *app) lastIncidents(q incidentQuery) error {
	paths, err := a.reach()
	if err != nil {
		return nil // ask has returned this error already
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

// renderIncidents lists all of them.
func renderIncidents(p *page, doc incidentList) {
	if len(doc.Incidents) == 0 {
		p.noIncidents()
		return
	}
	p.incidents(doc.Incidents, len(doc.Incidents))
}

func (p *page) noIncidents() {
	p.Line("no incidents")
	p.Styled(terminal.Dim, "nothing needs you now; what is over: steward incidents --all")
}

// incidents prints a table of the first n, the totals of all, and how an incident is answered.
func (p *page) incidents(all []escalate.Incident, n int) {
	head := []string{"KEY", "SEVERITY", "STATE", "AGE", "COUNT", "PROJECT", "AGENT", "TASK", "SUMMARY"}
	p.Table("", head, incidentRows(p, all[:n], false)...)
	p.Styled(terminal.Dim, "%s", totals(all, n))
	open := slices.DeleteFunc(slices.Clone(all[:n]), func(i escalate.Incident) bool { return i.State == rules.Resolved })
	switch {
	case len(open) == 1 && len(open[0].Options) > 0:
		p.Full("steward answer %s OPTION: %s", open[0].Handle(), optionWords(open[0].Options))
	case len(open) > 0:
		p.Line("details and options: steward explain KEY   settle: steward answer KEY OPTION")
	}
}

// totals counts them: "7 incidents: 2 critical, 5 high; 1 acked"; "the first 3 of 7 incidents" where only n are shown.
func totals(all []escalate.Incident, n int) string {
	severities, states := map[protocol.Severity]int{}, map[rules.State]int{}
	for _, i := range all {
		severities[i.Severity]++
		states[i.State]++
	}
	line := terminal.Plural(len(all), "incident")
	if n < len(all) {
		line = fmt.Sprintf("the first %d of %s", n, line)
	}
	sep := ": "
	for _, s := range []protocol.Severity{protocol.Critical, protocol.High, protocol.Medium, protocol.Low, protocol.Info} {
		if n := severities[s]; n > 0 {
			line, sep = line+sep+fmt.Sprintf("%d %s", n, s), ", "
		}
	}
	sep = "; "
	for _, s := range []rules.State{rules.Acked, rules.Snoozed, rules.Resolved} {
		if n := states[s]; n > 0 {
			line, sep = line+sep+fmt.Sprintf("%d %s", n, s), ", "
		}
	}
	return line
}

// Names are cut on a screen that is narrower than roomyWidth, so that the summary has room for its first words.
const (
	roomyWidth  = 120
	narrowName  = 12
	leastOfText = 26
)

// incidentRows gives a row for each incident: its key, how grave and how old it is, and which agent and task it is about.
// An incident is open unless its row says otherwise; the project is named where there are several.
func incidentRows(p *page, incidents []escalate.Incident, several bool) [][]terminal.Cell {
	var keys, tasks []string
	for _, i := range incidents {
		keys = append(keys, i.Key)
		tasks = append(tasks, taskOf(i))
		several = several || i.Project != incidents[0].Project
	}
	short, shortTask := distinctLength(keys), shortIDs(tasks)
	name := func(s string) terminal.Cell {
		if p.Width < roomyWidth {
			s = terminal.Fit(terminal.Clean(s), narrowName)
		}
		return terminal.Text(s)
	}
	var rows [][]terminal.Cell
	for _, i := range incidents {
		key, state, times, project := i.Key[:min(len(i.Key), short)], terminal.Cell{}, "", ""
		if handle := i.Handle(); strings.Contains(handle, "@") { // only this form answers it
			key += handle[strings.Index(handle, "@"):]
		}
		if i.State != rules.Raised {
			state = terminal.Word(i.State)
		}
		if i.Count > 1 {
			times = fmt.Sprintf("%d×", i.Count)
		}
		if several {
			project = i.Project
		}
		rows = append(rows, []terminal.Cell{terminal.Text(key), terminal.Word(i.Severity), state, terminal.Colored(strings.TrimSuffix(p.Ago(&i.Last), " ago"), terminal.Dim), terminal.Text(times), name(project),
			name(i.Agent), name(shortTask(taskOf(i))), terminal.Text(terminal.LocalTimes(i.Summary, p.Now))})
	}
	const count, agent, task = 4, 6, 7
	p.Spare(rows, leastOfText, count, agent, task)
	return rows
}

// taskOf is the id of the task that the incident is about; "" for none.
func taskOf(i escalate.Incident) string {
	if s := i.Subject(); s.Kind == protocol.KindTask {
		return s.ID
	}
	return ""
}
