package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
)

// headlines are the figures that docs/performance.md shows, by how their rows begin, with the words for them there. A row that is
// indented belongs to the last one before it that is not, and is named together with that.
var headlines = []struct{ under, row, words string }{
	{"", "request file → held", "request file → held"},
	{"", "exit of a registered agent", "exit of a registered agent → known"},
	{"", "failure file → popup accepted", "fatal result → popup accepted"},
	{"", "failure file → first audible sample", "fatal result → the first sound of the voice"},
	{"", "failure file → incident, every", "the same with every file event lost"},
	{"", "due retry → reissued", "due retry → reissued"},
	{"", "kill of a kept agent", "kill of an agent that steward keeps → its replacement"},
	{"kill of a kept agent", "the same → and is on record", "&nbsp; the same, and that is on record"},
	{"kill of a kept agent", "the same, as a transient unit", "&nbsp; the same as a transient unit of systemd"},
	{"kill of a kept agent", "the same under supervisord", "&nbsp; the same under supervisord"},
	{"", "burst of", ""},
	{"burst of", "its makespan", "&nbsp; its makespan"},
	{"burst of", "the same, a client", "&nbsp; the same, a client that starts all it sees"},
	{"burst of", "the same, without steward", "&nbsp; the same at a plain threshold"},
	{"", "descriptor storm", "descriptor storm → gate shut"},
	{"", "machine sample", "machine sample"},
	{"", "cold decision: 5 projects, 100 agents, 20 tasks, 1000 ended", "cold decision: 100 agents, 20 open tasks, 1,000 ended ones"},
	{"", "idle, 5 projects", "idle, 5 projects, 100 agents beating"},
	{"idle, 5 projects", "resident memory", "&nbsp; its memory"},
	{"idle, 5 projects", "wake-ups", "&nbsp; its wake-ups"},
	{"idle, 5 projects", "forks", "&nbsp; its forks"},
	{"idle, 5 projects", "the document's polling loops", "&nbsp; the document's polling loops in 5 projects"},
	{"", "nobody registered", "nobody registered"},
	{"nobody registered", "wake-ups", "&nbsp; its wake-ups"},
	{"cost of keeping", "steward", ""},
	{"cost of keeping", "supervisord", ""},
	{"cost of keeping", "process-compose", ""},
	{"", "status over the socket", "status over the socket, 100 agents"},
	{"", "steward status, whole process", "`steward status`, whole process"},
	{"", "start of steward for a hook call", "start of `steward` for a hook call"},
	{"", "daemon killed with 100 agents that it started", "daemon killed with 100 agents that it started → serving again"},
	{"daemon killed with 100 agents that it started", "agents doubled", "&nbsp; agents doubled; lost"},
	{"", "false deaths", ""},
	{"", "live locks lost", "live locks lost in contention and kills"},
	{"", "kill -9 at random", "kill -9 of the daemon at random"},
	{"", "incidents lost", "incidents lost while daemon, screen, bus and voice are killed"},
	{"one event", "processor time", "one event among 100,000 finished tasks against 100, processor time"},
	{"", "steward boot", "`steward boot` against the document's two scripts"},
	{"", "binary", "binary"},
	{"", "request appears → result", "request appears → result of an empty script by an idle worker"},
	{"", "press of a button", "your press of a popup's button → the agent can read it"},
	{"100000 finished", "request → held", "100,000 finished and 1,000 open tasks, 200 agents, 20 projects: request → held"},
	{"100000 finished", "at rest", "&nbsp; at rest, all agents beating"},
	{"100000 finished", "with 40 requests held", "&nbsp; the same with 40 requests held"},
	{"100000 finished", "resident memory", "&nbsp; its memory"},
}

// publish prints the table of docs/performance.md from a saved one.
func publish(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	saved, err := parseTable(string(data))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	fmt.Println("| | measured | wanted |\n|---|---|---|")
	for _, h := range headlines {
		for _, r := range saved {
			if (r.under == "") == (h.under == "") && strings.HasPrefix(r.under, h.under) && strings.HasPrefix(r.figure, h.row) {
				fmt.Println(r.markdown(h.words))
				break
			}
		}
	}
	return nil
}

// savedRow is a row as it was printed.
type savedRow struct {
	under string // the row that it belongs to
	row
}

// markdown is a row of docs/performance.md; without words for it its own stand.
func (r savedRow) markdown(words string) string {
	measured := r.measured
	if r.verdict == "misses" {
		measured += ": not there yet"
	}
	return fmt.Sprintf("| %s | %s | %s |", cmp.Or(words, r.figure), measured, r.target)
}

// parseTable reads what formatTable wrote: each column begins where its heading does.
func parseTable(text string) ([]savedRow, error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "figure") {
		return nil, fmt.Errorf("this is no table of bench")
	}
	var starts []int
	for _, name := range []string{"figure", "target", "measured", "verdict"} {
		starts = append(starts, len([]rune(lines[0][:max(strings.Index(lines[0], name), 0)])))
	}
	var saved []savedRow
	above := ""
	for _, line := range lines[2:] {
		if strings.TrimSpace(line) == "" {
			break
		}
		cells := cut([]rune(line), starts)
		r := savedRow{row: row{strings.TrimSpace(cells[0]), cells[1], cells[2], cells[3]}}
		if strings.HasPrefix(line, " ") {
			r.under = above
		} else {
			above = r.figure
		}
		saved = append(saved, r)
	}
	return saved, nil
}

// cut cuts a line at the columns.
func cut(line []rune, starts []int) (cells [4]string) {
	for i, from := range starts {
		to := len(line)
		if i+1 < len(starts) {
			to = min(to, starts[i+1])
		}
		if from < to {
			cells[i] = strings.TrimSpace(string(line[from:to]))
		}
	}
	return cells
}
