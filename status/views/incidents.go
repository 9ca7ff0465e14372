package views

import (
	"fmt"
	"slices"
	"strings"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
)

// incidentList is the document of incidents.
type incidentList struct {
	Incidents []escalate.Incident `json:"incidents"`
}

// Incidents lists all incidents.
func Incidents(p *terminal.Page, doc incidentList) {
	if len(doc.Incidents) == 0 {
		NoIncidents(p)
		return
	}
	IncidentRows(p, doc.Incidents, len(doc.Incidents))
}

func NoIncidents(p *terminal.Page) {
	p.Line("no incidents")
	p.Styled(terminal.Dim, "nothing needs you now; what is over: steward incidents --all")
}

// IncidentRows prints a table of the first n incidents, the totals of all, and how to answer an incident.
func IncidentRows(p *terminal.Page, all []escalate.Incident, n int) {
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

// totals counts incidents: "7 incidents: 2 critical, 5 high; 1 acked"; "the first 3 of 7 incidents" if only n are
// shown.
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

// On a screen narrower than roomyWidth, names are cut so that the summary has room for its first words.
const (
	roomyWidth  = 120
	narrowName  = 12
	leastOfText = 26
)

// incidentRows returns a row for each incident: its key, severity, age, agent and task. An incident is open unless its
// row says otherwise; the project is named if there are several.
func incidentRows(p *terminal.Page, incidents []escalate.Incident, several bool) [][]terminal.Cell {
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
		if handle := i.Handle(); strings.Contains(handle, "@") { // it can only be answered in this form
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

// optionWords lists the possible answers to an incident.
func optionWords(options []rules.Option) string {
	var all []string
	for _, o := range options {
		words := fmt.Sprintf("%s (%s)", o.ID, terminal.Clean(o.Label))
		if o.Dangerous {
			words += " !"
		}
		all = append(all, words)
	}
	return strings.Join(all, ", ")
}
