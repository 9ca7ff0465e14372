package views

import (
	"fmt"
	"strings"

	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
)

// The states of agents and locks, as totals name them.
const (
	AgentStates = "starting alive late dead hung paused unknown expected absent gone left"
	LockStates  = "held overdue stale"
)

// CountStates counts the items of a list by state: "3 agents: 2 alive, 1 late". all is the total if the list holds only
// the first items.
func CountStates(noun, states string, found []string, all int) string {
	line, sep := terminal.Plural(len(found), noun), ": "
	for state := range strings.FieldsSeq(states) {
		n := 0
		for _, s := range found {
			if s == state {
				n++
			}
		}
		if n > 0 {
			line, sep = line+sep+fmt.Sprintf("%d %s", n, state), ", "
		}
	}
	if all > len(found) {
		line += fmt.Sprintf("; the first of %d", all)
	}
	return line
}

// agentList, taskList and lockList are the documents of the lists.
type (
	agentList struct {
		Agents []supervisor.AgentReport `json:"agents"`
		Kept   []status.Kept            `json:"kept_agents"`
		Total  int                      `json:"total"`
	}
	TaskList struct {
		Tasks []supervisor.TaskReport `json:"tasks"`
	}
	lockList struct {
		Locks []supervisor.LockReport `json:"locks"`
		Total int                     `json:"total"`
	}
	goalList struct {
		Goals []supervisor.Goal `json:"goals"`
	}
)

// Table prints a table with its head and a line below it. An empty table prints two lines: none, and a hint.
func Table(p *terminal.Page, none, hint string, head []string, rows [][]terminal.Cell, below string) {
	if len(rows) == 0 {
		p.Line("%s", none)
		if hint != "" {
			p.Styled(terminal.Dim, "%s", hint)
		}
		return
	}
	p.Table("", head, rows...)
	if below != "" {
		p.Styled(terminal.Dim, "%s", below)
	}
}

// spread says in what the items of a list differ: a row shows its project or protocol only if they differ.
type spread struct{ projects, protocols bool }

// spreadOf compares project and protocol of all items of a list.
func spreadOf[T any](list []T, where func(T) (project, protocolName string)) (s spread) {
	for i, item := range list {
		project, name := where(item)
		first, firstName := where(list[0])
		s.projects = s.projects || i > 0 && project != first
		s.protocols = s.protocols || i > 0 && name != firstName
	}
	return s
}

// among marks the list as one of several projects' lists.
func (s spread) among(several bool) spread {
	s.projects = s.projects || several
	return s
}

// of is the cell with project and protocol of an item, empty if all items share them.
func (s spread) of(project, protocolName string) terminal.Cell {
	var words []string
	if s.projects {
		words = append(words, project)
	}
	if s.protocols {
		words = append(words, protocolName)
	}
	return terminal.Colored(strings.Join(words, " "), terminal.Dim)
}

func whereAgent(a supervisor.AgentReport) (string, string) { return a.Project, a.Protocol }

func whereTask(t supervisor.TaskReport) (string, string) { return t.Project, t.Protocol }

func whereLock(l supervisor.LockReport) (string, string) { return l.Project, l.Protocol }

func Agents(p *terminal.Page, doc agentList) {
	p.Wraps = true
	var states []string
	for _, a := range doc.Agents {
		states = append(states, stateOf(a).Text)
	}
	Table(p, "no agents", "how to add one: steward boot --help", []string{"WHERE", "AGENT", "STATE", "LAST BEAT", "SAYS", "USED", "TASKS", "PID", "TAKES", "WHY"},
		agentRows(p, doc.Agents, spreadOf(doc.Agents, whereAgent), true), CountStates("agent", AgentStates, states, doc.Total))
	Section(p, "Started by steward", "", keptLines(p, doc.Kept, true))
}

func agentRows(p *terminal.Page, agents []supervisor.AgentReport, all spread, usage bool) [][]terminal.Cell {
	var rows [][]terminal.Cell
	for _, a := range agents {
		beat, used, tasks, pid, taken := p.Ago(a.LastBeat), "", "", "", ""
		if usage {
			taken = takes(a.Usage)
			if a.PID != nil {
				pid = fmt.Sprint(*a.PID)
			}
		}
		if beat == "" {
			beat = "no beat"
		}
		if a.Used.Known() {
			used = a.Used.String()
		}
		if len(a.Tasks) > 0 {
			tasks = terminal.Plural(len(a.Tasks), "task")
		}
		rows = append(rows, []terminal.Cell{all.of(a.Project, a.Protocol), terminal.Text(a.Name), stateOf(a), terminal.Text(beat), terminal.Text(terminal.Fit(terminal.Clean(a.Status), 16)), terminal.Text(used), terminal.Text(tasks), terminal.Text(pid), terminal.Text(taken), terminal.Colored(terminal.LocalTimes(whyOf(a), p.Now), terminal.Dim)})
	}
	const says, use, count, process, taking = 4, 5, 6, 7, 8
	p.Spare(rows, LeastWhy, taking, process, says, use, count)
	return rows
}

// stateOf is the verdict, and the word for the agent's Absence.
func stateOf(a supervisor.AgentReport) terminal.Cell {
	c := terminal.Word(a.State)
	if a.Reason != "" {
		c.Text = string(a.Reason)
	}
	return c
}

// takes formats the resource usage of an agent's processes.
func takes(u *supervisor.UsageReport) string {
	if u == nil {
		return ""
	}
	line := mebibytes(u.Memory)
	if u.Cores != nil {
		line = fmt.Sprintf("%.1f cores, %s", *u.Cores, line)
	}
	if u.FileLimit > 0 && 2*u.Files > u.FileLimit {
		line += fmt.Sprintf(", %d of %d files", u.Files, u.FileLimit)
	}
	return line
}

// keptLines lists the agents that steward starts and keeps running.
func keptLines(p *terminal.Page, agents []status.Kept, several bool) [][]terminal.Cell {
	var rows [][]terminal.Cell
	for _, a := range agents {
		where, pid, restarts := "", "", ""
		if several {
			where = a.Project
		}
		if a.PID > 0 {
			pid = fmt.Sprintf("pid %d", a.PID)
		}
		if a.Restarts > 0 {
			restarts = terminal.Plural(a.Restarts, "restart")
		}
		rows = append(rows, []terminal.Cell{terminal.Colored(terminal.Clean(where), terminal.Dim), terminal.Text(a.Agent), terminal.Text(a.State), terminal.Text(pid), terminal.Text(a.Place), terminal.Text(restarts), terminal.Colored(terminal.Clean(a.Why), terminal.Dim)})
	}
	return rows
}

// whyOf is the verdict's reason, and the problem that the agent itself reports.
func whyOf(a supervisor.AgentReport) string {
	if a.Why == "" || a.Error == "" {
		return a.Why + a.Error
	}
	return a.Why + "; " + a.Error
}

func Locks(p *terminal.Page, doc lockList) {
	p.Wraps = true
	var states []string
	for _, l := range doc.Locks {
		states = append(states, string(l.State))
	}
	Table(p, "no locks", "how to take one: steward lock run --help", []string{"WHERE", "LOCK", "STATE", "AGE", "HOLDER", "EXPIRES", "WHY"},
		lockRows(p, doc.Locks, spreadOf(doc.Locks, whereLock)), CountStates("lock", LockStates, states, doc.Total))
}

func lockRows(p *terminal.Page, locks []supervisor.LockReport, all spread) [][]terminal.Cell {
	var rows [][]terminal.Cell
	for _, l := range locks {
		expires := p.Ago(l.Expires)
		if expires == "" {
			expires = "never"
		}
		rows = append(rows, []terminal.Cell{all.of(l.Project, l.Protocol), terminal.Text(l.Resource), terminal.Word(l.State), terminal.Colored(strings.TrimSuffix(p.Ago(l.Acquired), " ago"), terminal.Dim), terminal.Text(l.Holder), terminal.Text(expires), terminal.Colored(terminal.LocalTimes(l.Why, p.Now), terminal.Dim)})
	}
	return rows
}

func Goals(p *terminal.Page, doc goalList) {
	var rows [][]terminal.Cell
	for _, g := range doc.Goals {
		value, verdict := "?", terminal.Colored("met", terminal.Green)
		switch {
		case g.Value == nil:
			verdict = terminal.Colored("", terminal.Plain)
		case !g.OK:
			verdict = terminal.Word("missed")
		}
		if g.Value != nil {
			value = fmt.Sprintf("%g", *g.Value)
		}
		rows = append(rows, []terminal.Cell{terminal.Text(strings.ReplaceAll(g.Name, "_", " ")), terminal.Text(value), terminal.Text(g.Target), verdict, terminal.Colored(g.Note, terminal.Dim)})
	}
	Table(p, "no goals", "", []string{"GOAL", "VALUE", "TARGET", "", "NOTE"}, rows, "")
}
