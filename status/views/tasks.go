package views

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
)

// CreatedAt is when the task was created; the zero time if its files do not say.
func CreatedAt(t supervisor.TaskReport) time.Time {
	if t.Created == nil {
		return time.Time{}
	}
	return *t.Created
}

// NewestFirst orders open tasks before ended ones, and newer tasks before older ones.
func NewestFirst(x, y supervisor.TaskReport) int {
	if x.State.Open() != y.State.Open() {
		if x.State.Open() {
			return -1
		}
		return 1
	}
	return CreatedAt(y).Compare(CreatedAt(x))
}

func Tasks(p *terminal.Page, doc TaskList) {
	p.Wraps = true
	if len(doc.Tasks) == 0 {
		p.Line("no tasks")
		p.Styled(terminal.Dim, "how to submit a task: steward task submit --help")
		return
	}
	p.Table("", []string{"WHERE", "TASK", "STATE", "AGE", "PRIO", "AGENT", "TYPE", "PROGRESS", "WHY"}, taskRows(p, doc.Tasks, spreadOf(doc.Tasks, whereTask))...)
	p.Styled(terminal.Dim, "%s", taskTotals(doc.Tasks))
}

// taskTotals counts the tasks by state, and tasks that do not progress by reason: "4 tasks: 1 running, 3 waiting (1
// blocked, 2 retry)".
func taskTotals(tasks []supervisor.TaskReport) string {
	counts, reasons := map[protocol.TaskState]int{}, map[protocol.TaskState]map[protocol.Reason]int{}
	for _, t := range tasks {
		counts[t.State]++
		if reasons[t.State] == nil {
			reasons[t.State] = map[protocol.Reason]int{}
		}
		reasons[t.State][t.Reason]++
	}
	line, sep := terminal.Plural(len(tasks), "task"), ": "
	for _, s := range []protocol.TaskState{protocol.TaskPending, protocol.TaskDeferred, protocol.TaskRunning, protocol.TaskWaiting, protocol.TaskDone, protocol.TaskFailed, protocol.TaskDead} {
		if n := counts[s]; n > 0 {
			line, sep = line+sep+fmt.Sprintf("%d %s", n, s), ", "
			if s == protocol.TaskDeferred || s == protocol.TaskWaiting || s == protocol.TaskFailed {
				line += countReasons(reasons[s])
			}
		}
	}
	return line
}

// countReasons returns " (2 blocked, 1 retry)"; "" if the tasks have no reason.
func countReasons(counts map[protocol.Reason]int) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		if reason != "" {
			parts = append(parts, fmt.Sprintf("%d %s", counts[reason], strings.ReplaceAll(string(reason), "_", " ")))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// LeastWhy is the width that a table of tasks or agents reserves for the reason before it shows other columns.
const LeastWhy = 30

// taskRows returns a row for each task, in the order of NewestFirst. A narrow screen shows short ids and fewer columns.
func taskRows(p *terminal.Page, tasks []supervisor.TaskReport, all spread) [][]terminal.Cell {
	tasks = slices.Clone(tasks)
	slices.SortStableFunc(tasks, NewestFirst)
	var ids []string
	for _, t := range tasks {
		ids = append(ids, t.ID)
	}
	id, name := shortIDs(ids), func(s string) string { return s }
	if p.Width >= terminal.Unbounded {
		id = name
	}
	if p.Width < roomyWidth {
		name = func(s string) string { return terminal.Fit(terminal.Clean(s), narrowName) }
	}
	var rows [][]terminal.Cell
	for _, t := range tasks {
		where := all.of(t.Project, t.Protocol)
		where.Text = name(where.Text)
		rows = append(rows, []terminal.Cell{where, terminal.Text(id(t.ID)), terminal.Word(t.State), terminal.Colored(strings.TrimSuffix(p.Ago(t.Created), " ago"), terminal.Dim), terminal.Text(t.Priority.String()),
			terminal.Text(name(t.Agent)), terminal.Text(terminal.Fit(terminal.Clean(t.Type), 16)), terminal.Text(progressOf(p, t)), terminal.Colored(terminal.LocalTimes(t.Why, p.Now), terminal.Dim)})
	}
	const prio, typed, progress = 4, 6, 7
	p.Spare(rows, LeastWhy, typed, prio, progress)
	return rows
}

// progressOf is a task's progress: the attempt number from the second attempt on, its reported progress, or when it is
// due. It omits what the reason already says.
func progressOf(p *terminal.Page, t supervisor.TaskReport) string {
	var parts []string
	if attempt := fmt.Sprintf("attempt %d", t.Attempt); t.Attempt > 1 && !strings.Contains(t.Why, attempt) {
		parts = append(parts, attempt)
	}
	if t.State.Open() && t.Progress != nil && !t.Progress.At.IsZero() {
		parts = append(parts, fmt.Sprintf("%.0f %%", t.Progress.Percent))
	}
	if t.State.Open() && t.NotBefore != nil && t.NotBefore.After(p.Now) && !strings.Contains(t.Why, "due at") {
		parts = append(parts, "due "+p.Ago(t.NotBefore))
	}
	return strings.Join(parts, ", ")
}
