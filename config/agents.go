package config

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// agentRow is what the [[agent]] and [[role]] rows have in common.
type agentRow struct {
	at                                 keyPath
	name, project, directory, protocol string
	command, environment               []string
}

// agents checks the rows of agents that steward starts.
func (l *flawList) agents(c Config) {
	var rows []agentRow
	seen := map[string]bool{}
	add := func(r agentRow) {
		l.agentRow(r)
		if key := r.project + "\x00" + r.name; seen[key] {
			l.wrong(r.at.key("name"), "%q is listed twice for the same project", r.name)
		} else {
			seen[key] = true
		}
		rows = append(rows, r)
	}
	for i, a := range c.Agents {
		row := keyPath("agent").entry(i)
		add(agentRow{row, a.Name, a.Project, a.Directory, a.Protocol, a.Command, a.Environment})
		if len(a.Command) == 0 {
			l.wrongAt([]keyPath{row.key("command"), row}, `it must be a program with its arguments, like ["steward", "worker", "--agent", "codex-cursor"]`)
		}
		if a.Restart != "" {
			l.oneOf(row.key("restart"), a.Restart, "never", "on-failure", "always")
		}
		if why := unspoken(a.Protocol); a.Protocol != "" && a.Protocol != NoProtocol && why != "" {
			l.wrong(row.key("protocol"), "%s (%q registers it nowhere)", why, NoProtocol)
		}
	}
	for i, r := range c.Roles {
		row := keyPath("role").entry(i)
		add(agentRow{row, r.Name, r.Project, r.Directory, r.Protocol, r.Command, r.Environment})
		l.role(r, row)
	}
	l.strayAgents(c, rows)
}

func (l *flawList) agentRow(r agentRow) {
	if r.name == "" || strings.ContainsAny(r.name, "/\\\x00\n") || strings.HasPrefix(r.name, ".") || len(r.name) > 100 {
		l.wrongAt([]keyPath{r.at.key("name"), r.at}, "%q must be a plain name", r.name)
	}
	if r.project == "" {
		l.wrongAt([]keyPath{r.at.key("project"), r.at}, "it must name the folder that the agent works for")
	}
	l.absolute(r.at.key("project"), r.project)
	l.absolute(r.at.key("directory"), r.directory)
	if len(r.command) > 0 && strings.TrimSpace(r.command[0]) == "" {
		l.wrongAt([]keyPath{r.at.key("command"), r.at}, "its first entry must be a program")
	}
	for j, pair := range r.environment {
		if name, _, ok := strings.Cut(pair, "="); !ok || name == "" || strings.Trim(name, nameChars) != "" {
			l.wrong(r.at.key("environment").entry(j), "%q must be KEY=value", pair)
		}
	}
}

// role checks what only [[role]] rows have.
func (l *flawList) role(r Role, row keyPath) {
	switch why := unspoken(r.Protocol); {
	case r.Protocol == "":
	case why != "":
		l.wrong(row.key("protocol"), "%s", why)
	case r.Protocol == "ralph":
		l.wrong(row.key("protocol"), `the program of this protocol starts its workers itself; start the program with an [[agent]] row and protocol = "ralph"`)
	}
	if len(r.Command) == 0 && r.Protocol != agentsOwn && !r.Acts() {
		l.wrongAt([]keyPath{row.key("command"), row}, `it must be a program with its arguments, like ["claude", "-p", "{prompt}"]; only an orchestrator acts without one`)
	}
	if r.Jobs < 0 || r.Jobs > 256 {
		l.wrong(row.key("jobs"), "%d must be from 1 to 256", r.Jobs)
	}
	if r.Timeout != 0 {
		l.between(row.key("timeout"), r.Timeout, time.Second, week)
	}
}

// strayAgents reports rows whose project is not supervised, because such an agent would never be started. If the
// projects depend on where steward is started, it reports none.
func (l *flawList) strayAgents(c Config, rows []agentRow) {
	home, _ := os.UserHomeDir()
	known := map[string]bool{}
	for _, p := range c.Projects {
		if !filepath.IsAbs(p.Path) && !strings.HasPrefix(p.Path, "~") {
			return
		}
		path, _ := Expand(p.Path, home, "/")
		known[path] = true
	}
	for _, r := range rows {
		if path, err := Expand(r.project, home, "/"); len(known) > 0 && r.project != "" && (err != nil || !known[path]) {
			l.wrong(r.at.key("project"), "%q is the path of no [[project]], so the agent would never start", r.project)
		}
	}
}
