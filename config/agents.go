package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Agent is an [[agent]] row: an agent that steward starts and restarts.
type Agent struct {
	Name    string   `toml:"name"`
	Project string   `toml:"project"` // the agent's project folder, as written; Expand resolves it
	Command []string `toml:"command"`
	// Restart is never, on-failure or always; "" is on-failure.
	Restart     string   `toml:"restart"`
	Directory   string   `toml:"directory"`   // "" for the project
	Environment []string `toml:"environment"` // KEY=value, in addition to the daemon's environment
}

// Keep is the [keep] table: how agents are restarted.
type Keep struct {
	Place      string        `toml:"place"` // auto, session, service
	Backoff    time.Duration `toml:"backoff"`
	MaxBackoff time.Duration `toml:"max_backoff"`
	Burst      int           `toml:"burst"`
	Within     time.Duration `toml:"within"`
	Stop       time.Duration `toml:"stop"`
}

// Worker is the [worker] table.
type Worker struct {
	Poll        time.Duration  `toml:"poll"`
	Beat        time.Duration  `toml:"-"`
	Stop        time.Duration  `toml:"stop"`
	Output      int            `toml:"output"` // bytes per stream
	Keep        time.Duration  `toml:"keep"`   // for files with output
	Paths       []string       `toml:"paths"`
	Programs    []string       `toml:"programs"`
	Writable    []string       `toml:"writable"`
	Confine     bool           `toml:"confine"`
	Environment []string       `toml:"environment"` // names; a trailing * matches any suffix
	Commands    WorkerCommands `toml:"commands"`
}

// WorkerCommands are the commands for task types that are not scripts (protocol 000, Task Types & Payloads).
type WorkerCommands struct {
	Research     []string `toml:"research"`
	Validate     []string `toml:"validate"`
	Deploy       []string `toml:"deploy"`
	DeployDryRun []string `toml:"deploy_dry_run"`
}

func (c Config) joinFlaws() []flaw {
	const hour = time.Hour
	k, w := c.Keep, c.Worker
	all := slices.Concat(
		agentFlaws(c.Agents),
		c.strayAgents(),
		oneOf("keep.place", k.Place, "auto", "session", "service"),
		between("keep.backoff", k.Backoff, 10*time.Millisecond, hour),
		between("keep.max_backoff", k.MaxBackoff, 10*time.Millisecond, 24*hour),
		positive("keep.burst", k.Burst),
		between("keep.within", k.Within, time.Second, 24*hour),
		between("keep.stop", k.Stop, 0, 10*time.Minute),
		between("worker.poll", w.Poll, 100*time.Millisecond, 10*time.Minute),
		between("worker.stop", w.Stop, 0, 10*time.Minute),
		between("worker.keep", w.Keep, time.Minute, 10*365*24*hour),
	)
	if w.Output < 0 || w.Output > 256<<10 {
		all = append(all, wrong("worker.output", "%d must be from 0 to %d bytes: it stands in the result, and every reader reads all of it", w.Output, 256<<10))
	}
	if k.MaxBackoff < k.Backoff {
		all = append(all, flaw{[]keyPath{"keep.max_backoff", "keep.backoff"},
			fmt.Sprintf("keep.max_backoff: %v must be at least keep.backoff, %v", k.MaxBackoff, k.Backoff)})
	}
	for i, path := range w.Paths {
		all = append(all, absolute(keyPath("worker.paths").entry(i), path)...)
	}
	for i, path := range w.Programs {
		all = append(all, absolute(keyPath("worker.programs").entry(i), path)...)
	}
	for i, path := range w.Writable {
		all = append(all, absolute(keyPath("worker.writable").entry(i), path)...)
	}
	for i, name := range w.Environment {
		if strings.Trim(strings.TrimSuffix(name, "*"), nameChars) != "" {
			all = append(all, wrong(keyPath("worker.environment").entry(i), "%q must be the name of a variable; * may stand at its end", name))
		}
	}
	return all
}

// nameChars are the characters allowed in the names of environment variables.
const nameChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

func oneOf(key keyPath, word string, words ...string) []flaw {
	if slices.Contains(words, word) {
		return nil
	}
	return []flaw{wrong(key, "%q must be one of %s", word, strings.Join(words, ", "))}
}

// strayAgents reports rows whose project is not supervised, because such an agent would never be started. Without
// [[project]] rows the projects depend on where steward is started, so it reports none.
func (c Config) strayAgents() []flaw {
	if len(c.Projects) == 0 {
		return nil
	}
	home, _ := os.UserHomeDir()
	known := map[string]bool{}
	plain := func(path string) string {
		if full, err := Expand(path, home, "/"); err == nil {
			return full
		}
		return path
	}
	for _, p := range c.Projects {
		if !filepath.IsAbs(p.Path) && !strings.HasPrefix(p.Path, "~") {
			return nil // depends on where steward is started
		}
		known[plain(p.Path)] = true
	}
	var all []flaw
	for i, a := range c.Agents {
		if a.Project != "" && !known[plain(a.Project)] {
			all = append(all, wrong(keyPath("agent").entry(i).key("project"), "%q is the path of no [[project]], so the agent would never start", a.Project))
		}
	}
	return all
}

// in adds the row to the places of a flaw, for a key that may be missing in the file.
func in(row keyPath, f flaw) flaw {
	f.at = append(f.at, row)
	return f
}

func agentFlaws(rows []Agent) []flaw {
	var all []flaw
	seen := map[string]bool{}
	for i, a := range rows {
		row := keyPath("agent").entry(i)
		switch {
		case a.Name == "" || strings.ContainsAny(a.Name, "/\\\x00\n") || strings.HasPrefix(a.Name, ".") || len(a.Name) > 100:
			all = append(all, in(row, wrong(row.key("name"), "%q must be a plain name", a.Name)))
		case seen[a.Project+"\x00"+a.Name]:
			all = append(all, wrong(row.key("name"), "%q stands there twice for the same project", a.Name))
		}
		seen[a.Project+"\x00"+a.Name] = true
		if a.Project == "" {
			all = append(all, in(row, wrong(row.key("project"), "it must name the folder that the agent works for")))
		}
		all = append(all, absolute(row.key("project"), a.Project)...)
		all = append(all, absolute(row.key("directory"), a.Directory)...)
		if len(a.Command) == 0 || strings.TrimSpace(a.Command[0]) == "" {
			all = append(all, in(row, wrong(row.key("command"), `it must be a program with its arguments, like ["steward", "worker", "--agent", "codex-cursor"]`)))
		}
		if a.Restart != "" {
			all = append(all, oneOf(row.key("restart"), a.Restart, "never", "on-failure", "always")...)
		}
		for j, pair := range a.Environment {
			if name, _, ok := strings.Cut(pair, "="); !ok || name == "" || strings.Trim(name, nameChars) != "" {
				all = append(all, wrong(row.key("environment").entry(j), "%q must be KEY=value", pair))
			}
		}
	}
	return all
}
