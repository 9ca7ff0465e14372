package daemon

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/platform"
)

// keptRows resolves the [[agent]] and [[role]] rows into those of supervised projects and the others. steward holds the first
// words of the command that plays a role.
func keptRows(cfg config.Config, refs []config.ProjectRef, steward []string) (rows, others []keep.Row, played map[roleKey]config.Role) {
	home, _ := os.UserHomeDir()
	add := func(project, directory string, r keep.Row) string {
		dir, err := config.Expand(project, home, "/")
		if err != nil {
			return "" // Validate has rejected it
		}
		r.Dir, r.Project = dir, filepath.Base(dir)
		if directory != "" {
			r.Directory, _ = config.Expand(directory, home, "/") // Validate has checked it
		}
		if r.Restart == keep.WhenDue {
			r.Command = append(slices.Clone(steward), "worker", "--role", r.Name, "--project", dir, "--drain")
		}
		i := slices.IndexFunc(refs, func(ref config.ProjectRef) bool { return platform.SameFolder(ref.Path, dir) })
		if i < 0 {
			others = append(others, r)
			return ""
		}
		r.Project = refs[i].Name
		rows = append(rows, r)
		return r.Project
	}
	for _, a := range cfg.Agents {
		add(a.Project, a.Directory, keep.Row{Name: a.Name, Command: a.Command, Restart: cmp.Or(a.Restart, keep.OnFailure), Protocol: a.Protocol, Environment: a.Environment})
	}
	played = map[roleKey]config.Role{}
	for _, r := range cfg.Roles {
		// The row's folder and environment are those of its runs.
		if project := add(r.Project, "", keep.Row{Name: r.Name, Restart: keep.WhenDue, Protocol: r.Protocol}); project != "" {
			played[roleKey{project, r.Name}] = r
		}
	}
	return rows, others, played
}
