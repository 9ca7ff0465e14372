package doctor

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/platform"
)

// roles checks the [[role]] and [[agent]] rows of a project: that their programs exist, and that the project speaks the
// protocols of the roles.
func (d *facts) roles(_ context.Context, f projectFacts) []Finding {
	spoken := daemon.Spoken(f.ref.Path, d.cfg)
	var all []Finding
	for _, r := range d.cfg.Roles {
		if !d.isIn(f, r.Project) {
			continue
		}
		switch _, err := findProgram(r.Command, f.ref.Path); {
		case err != nil:
			all = append(all, broken(r.Name, "correct role.command in "+d.paths.Config, "[[role]] %s of %s: its program cannot be started: %v", r.Name, f.ref.Name, err))
		case r.Protocol != "" && !slices.Contains(spoken, r.Protocol):
			all = append(all, warning(r.Name, "steward boot "+r.Name+" --protocol "+r.Protocol+" --project "+f.ref.Path,
				"[[role]] %s: %s does not speak %s, so no work can wait for it", r.Name, f.ref.Name, r.Protocol))
		case r.Protocol == "" && len(spoken) > 1:
			all = append(all, broken(r.Name, "name one with role.protocol in "+d.paths.Config, "[[role]] %s: %s speaks %s", r.Name, f.ref.Name, strings.Join(spoken, " and ")))
		default:
			all = append(all, working(r.Name, "[[role]] %s of %s is started when work waits for it", r.Name, f.ref.Name))
		}
	}
	for _, a := range d.cfg.Agents {
		if _, err := findProgram(a.Command, f.ref.Path); err != nil && d.isIn(f, a.Project) {
			all = append(all, broken(a.Name, "correct agent.command in "+d.paths.Config, "[[agent]] %s of %s: its program cannot be started: %v", a.Name, f.ref.Name, err))
		}
	}
	return all
}

// isIn reports whether the project of a row is this one.
func (d *facts) isIn(f projectFacts, project string) bool {
	path, err := config.Expand(project, d.who.Home, "/")
	return err == nil && platform.SameFolder(path, f.ref.Path)
}

// findProgram finds the program of a command as the daemon would with this environment. No command is no error.
func findProgram(command []string, dir string) (string, error) {
	if len(command) == 0 {
		return "", nil
	}
	return run.Find(command[0], dir, os.Getenv("PATH"))
}
