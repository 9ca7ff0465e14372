package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/status/terminal"
)

// Only narrows the configured projects down to the given folders. A folder that is not configured gets the defaults.
func Only(configured []config.Project, dirs []string, home, cwd string) []config.Project {
	var chosen []config.Project
	for _, dir := range dirs {
		full, err := filepath.Abs(dir)
		if err != nil {
			full = dir
		}
		p := config.Project{Path: full}
		for _, c := range configured {
			if path, err := config.Expand(c.Path, home, cwd); err == nil && platform.SameFolder(path, full) {
				p = c
				p.Path = full
			}
		}
		chosen = append(chosen, p)
	}
	return chosen
}

// Twin is a project whose folder an earlier row already names by another path.
type Twin struct{ path, first string }

func (t Twin) String() string {
	return fmt.Sprintf("%s is the same folder as %s; it is one project, and the first row holds", t.path, t.first)
}

// Distinct drops each row whose path leads to the folder of an earlier row: one folder is one project, whatever links
// lead to it. A path that is written twice stays, because ProjectList rejects it.
// See docs/decisions.md, "One folder is one project, whatever links lead to it".
func Distinct(rows []config.Project, home, cwd string) (kept []config.Project, twins []Twin) {
	var paths []string
	for _, row := range rows {
		path, err := config.Expand(row.Path, home, cwd)
		first := slices.IndexFunc(paths, func(p string) bool { return p != path && platform.SameFolder(p, path) })
		if err == nil && first >= 0 && !slices.Contains(paths, path) {
			twins = append(twins, Twin{path, paths[first]})
			continue
		}
		kept, paths = append(kept, row), append(paths, path)
	}
	return kept, twins
}

// tellProjects reports at once which projects cannot be supervised yet: a mistyped path looks just like a disk that is
// mounted later. It also names the folders that are listed under two names.
func tellProjects(o Options, refs []config.ProjectRef, twins []Twin) {
	say := func(log string, fields []any, text string, args ...any) {
		if o.Manager != "" {
			o.Log.Warn(log, fields...)
			return
		}
		for i := range args {
			args[i] = terminal.Clean(fmt.Sprint(args[i]))
		}
		fmt.Fprintf(o.Err, "steward: "+text+"\n", args...)
	}
	for _, t := range twins {
		say("a project is named twice; the first row holds", []any{"path", t.path, "same_folder_as", t.first}, "%s", t)
	}
	for _, ref := range refs {
		if err := FolderTrouble(ref.Path); err != nil {
			say("a project cannot be read; steward waits for it", []any{"project", ref.Name, "path", ref.Path, "error", err},
				"project %s: %s: %s; steward waits for it. If the path is wrong, stop this and correct it", ref.Name, ref.Path, err)
		}
	}
}

// FolderTrouble returns the reason why there is no folder at the path now; nil if there is one.
func FolderTrouble(path string) error {
	info, err := os.Stat(path)
	switch pe := (*fs.PathError)(nil); {
	case err == nil && !info.IsDir():
		return errors.New("it is not a folder")
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such folder")
	case errors.As(err, &pe):
		return pe.Err // the line names the path already
	}
	return err
}

// Projects lists the projects to supervise: the named folders, else those of the configuration, else, outside a service
// manager, the current folder.
func Projects(cfg config.Config, dirs []string, managed bool) ([]config.ProjectRef, []Twin, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return nil, nil, fmt.Errorf("find the current folder: %w", err)
	}
	if len(dirs) == 0 && len(cfg.Projects) == 0 && !managed {
		dirs = []string{cwd}
	}
	home, _ := os.UserHomeDir()
	if len(dirs) > 0 {
		cfg.Projects = Only(cfg.Projects, dirs, home, cwd)
	}
	rows, twins := Distinct(cfg.Projects, home, cwd)
	cfg.Projects = rows
	refs, err := cfg.ProjectList(home, cwd)
	return refs, twins, err
}

// PathsOf lists the folders of projects.
func PathsOf(refs []config.ProjectRef) []string {
	var paths []string
	for _, r := range refs {
		paths = append(paths, r.Path)
	}
	return paths
}

// ByProjectName keys the load's disks by project name; the gauge knows only folders.
func ByProjectName(load capacity.Load, refs []config.ProjectRef) capacity.Load {
	disks := make(map[string]capacity.Disk, len(refs))
	for _, r := range refs {
		if d, known := load.Disks[r.Path]; known {
			disks[r.Name] = d
		}
	}
	load.Disks = disks
	return load
}
