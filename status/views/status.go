package views

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
)

// Status writes the status document on one screen.
func Status(p *terminal.Page, doc status.Document) {
	if d := doc.Daemon; d != nil && !d.Running && d.Since != nil {
		p.Styled(terminal.Red, "no steward is running: this is what the last one%s saw %s", ofUser(), p.Ago(d.Since))
		p.Styled(terminal.Bold, "steward %s had run for %s then, %s", terminal.Clean(doc.Version), terminal.Short(d.Since.Sub(doc.Started)), terminal.Plural(doc.Looks, "look"))
	} else {
		p.Styled(terminal.Bold, "steward %s, up %s, %s, the last %s", terminal.Clean(doc.Version), terminal.Short(p.Now.Sub(doc.Started)), terminal.Plural(doc.Looks, "look"), p.Ago(&doc.LastLook))
	}
	if doc.LastEnd != nil && !doc.LastEnd.Wanted() {
		p.Line("the run before this one: %s", Ending(p, doc.LastEnd))
	}
	p.Line("%s", loadLine(doc.Load))
	for _, c := range doc.Channels {
		if !c.OK && !c.At.IsZero() {
			p.Styled(terminal.Yellow, "%s does not reach you: %s", terminal.Clean(c.Name), terminal.Clean(c.Problem))
		}
	}
	projectsPart(p, doc.Projects)
	several := len(doc.Projects) > 1
	p.Wraps = true
	Section(p, "Agents", "no agents", agentRows(p, doc.Agents, spreadOf(doc.Agents, whereAgent).among(several), false))
	Section(p, "Started by steward", "", keptLines(p, doc.Kept, several))
	Section(p, "Waiting at the gate", "", waitingRows(p, doc.Waiting))
	tasksPart(p, doc.Tasks, several)
	Section(p, "Locks", "", lockRows(p, doc.Locks, spreadOf(doc.Locks, whereLock).among(several)))
	Section(p, "Incidents", "no incidents", incidentRows(p, doc.Incidents, several))
	donePart(p, doc.Done)
}

// ofUser names the user whose steward is shown, if that is not obvious: root's view differs from that of a user's
// service.
func ofUser() string {
	if os.Getuid() != 0 {
		return ""
	}
	return " of " + UserName(0)
}

func UserName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "uid " + strconv.Itoa(uid)
}

// Section prints a titled table, or one dim line if it has no rows.
func Section(p *terminal.Page, title, none string, rows [][]terminal.Cell) {
	switch {
	case len(rows) > 0:
		p.Title(title)
		p.Table("  ", nil, rows...)
	case none != "":
		p.Styled(terminal.Dim, "%s", none)
	}
}

func loadLine(l supervisor.LoadReport) string {
	line := "load " + terminal.Share(l.Used)
	if l.Binding != "" {
		line += " (" + terminal.Clean(l.Binding) + ")"
	}
	for _, d := range []struct {
		name string
		used protocol.Share
	}{{"cpu", l.CPU}, {"memory", l.Memory}, {"files", l.Files}, {"disk", l.Disk}} {
		line += "   " + d.name + " " + terminal.Share(d.used)
	}
	if len(l.Disks) > 1 {
		project, _ := fullestDisk(l.Disks)
		line += " (" + terminal.Clean(project) + ")"
	}
	return line
}

// shownFindings and shownDone limit how much of the screen a project's files take.
const (
	shownFindings = 3
	shownDone     = 5
)

func projectsPart(p *terminal.Page, projects []supervisor.ProjectReport) {
	if len(projects) == 0 {
		p.Styled(terminal.Dim, "no projects")
		return
	}
	p.Title("Projects")
	var rows [][]terminal.Cell
	for _, r := range projects {
		rows = append(rows, []terminal.Cell{terminal.Text(r.Name), terminal.Text(spokenBy(r)), terminal.Colored(troubles(r), terminal.Yellow), terminal.Colored(r.Path, terminal.Dim)})
	}
	widths := terminal.Measured(rows)
	for i, r := range projects {
		p.Row("  ", rows[i], widths)
		for _, note := range r.Notes {
			p.Styled(terminal.Dim, "    %s", terminal.Clean(note))
		}
		for _, f := range r.Faults[:min(len(r.Faults), status.ShownFaults)] {
			p.Styled(terminal.Red, "    %s: %s", terminal.Clean(f.Path), terminal.Clean(f.Problem))
		}
		for _, f := range r.Findings[:min(len(r.Findings), shownFindings)] {
			p.Styled(terminal.Dim, "    %s", FindingLine(f.Severity, f.Subject, f.Field, f.Path, f.Text))
		}
		repairLines(p, r.Repairs)
		if rest := max(len(r.Faults)-status.ShownFaults, 0) + max(len(r.Findings)-shownFindings, 0); rest > 0 {
			p.Styled(terminal.Dim, "    and %d more; see: steward status -o json", rest)
		}
	}
}

// FindingLine is a finding on one line: its severity, its task or file, and the problem.
func FindingLine(severity protocol.Severity, subject, field, file, text string) string {
	return fmt.Sprintf("%s: %s: %s%s", terminal.Clean(string(severity)), SubjectWords(subject), problemWords(field, text), inFile(file, subject+text))
}

// inFile names the file of a finding, unless its text already does.
func inFile(file, text string) string {
	if file == "" || strings.Contains(text, file) {
		return ""
	}
	return " (" + terminal.Clean(file) + ")"
}

// repairLines lists repairs that steward would make if permitted, and what they wait for.
func repairLines(p *terminal.Page, repairs []supervisor.RepairReport) {
	for _, r := range repairs[:min(len(repairs), status.ShownRepairs)] {
		p.Styled(terminal.Yellow, "    would %s %s: %s; waits for: %s", terminal.Clean(string(r.Verb)), terminal.Clean(r.Subject), terminal.Clean(r.Why), terminal.Clean(r.WaitsFor))
	}
	if rest := len(repairs) - status.ShownRepairs; rest > 0 {
		p.Styled(terminal.Dim, "    and %s more; see: steward status -o json", terminal.Plural(rest, "repair"))
	}
}

func spokenBy(r supervisor.ProjectReport) string {
	switch {
	case status.Unusable(r):
		return "not usable now"
	case len(r.Protocols) == 0:
		return "no protocol yet"
	}
	line := ""
	for i, name := range r.Protocols {
		if i > 0 {
			line += ", "
		}
		line += name + " (" + r.Mode[name] + ")"
	}
	return line
}

func troubles(r supervisor.ProjectReport) string {
	switch {
	case len(r.Faults) > 0 && len(r.Findings) > 0:
		return terminal.Plural(len(r.Faults), "fault") + ", " + terminal.Plural(len(r.Findings), "finding")
	case len(r.Faults) > 0:
		return terminal.Plural(len(r.Faults), "fault")
	case len(r.Findings) > 0:
		return terminal.Plural(len(r.Findings), "finding")
	}
	return ""
}

// tasksPart shows the open tasks and counts the others: those that need the operator are listed as incidents.
func tasksPart(p *terminal.Page, tasks []supervisor.TaskReport, several bool) {
	var open []supervisor.TaskReport
	ended := map[protocol.TaskState]int{}
	for _, t := range tasks {
		if t.State.Open() {
			open = append(open, t)
		} else {
			ended[t.State]++
		}
	}
	Section(p, "Tasks", "no open tasks", taskRows(p, open, spreadOf(open, whereTask).among(several)))
	line := ""
	for _, state := range []protocol.TaskState{protocol.TaskDone, protocol.TaskFailed, protocol.TaskDead} {
		if n := ended[state]; n > 0 {
			line += fmt.Sprintf(", %d %s", n, state)
		}
	}
	if line != "" {
		p.Styled(terminal.Dim, "  ended lately: %s", line[2:])
	}
}

// donePart shows the last changes, the newest first.
func donePart(p *terminal.Page, done []supervisor.Done) {
	var rows [][]terminal.Cell
	for _, d := range done[:min(len(done), shownDone)] {
		rows = append(rows, []terminal.Cell{terminal.Colored(p.Ago(&d.At), terminal.Dim), terminal.Text(d.Verb), terminal.Text(d.Subject), terminal.Colored(terminal.LocalTimes(d.Why, p.Now), terminal.Dim)})
	}
	Section(p, "Done last", "", rows)
}

// Carried shows the result of an operator's command.
func Carried(p *terminal.Page, c status.Carried) {
	what := terminal.Clean(c.Verb)
	if c.Subject != "" {
		what += " " + terminal.Clean(c.Subject)
	}
	p.Line("%s: done", what)
	for _, note := range c.Notes {
		p.Line("  note: %s", terminal.Clean(note))
	}
}

// Ending says how a run ended.
func Ending(p *terminal.Page, e *status.Ending) string {
	text := terminal.Clean(e.How)
	if !e.At.IsZero() {
		text += " " + p.Ago(&e.At)
	}
	if e.Why != "" {
		text += ": " + terminal.Clean(e.Why)
	}
	return text
}
