package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// only narrows the configured projects down to the given folders; one that is not configured gets the defaults.
func only(configured []config.Project, dirs []string, home, cwd string) []config.Project {
	var chosen []config.Project
	for _, dir := range dirs {
		full, err := filepath.Abs(dir)
		if err != nil {
			full = dir
		}
		p := config.Project{Path: full}
		for _, c := range configured {
			if path, err := config.Expand(c.Path, home, cwd); err == nil && sameFolder(path, full) {
				p = c
				p.Path = full
			}
		}
		chosen = append(chosen, p)
	}
	return chosen
}

// twin is a project whose folder an earlier row names already, by another path.
type twin struct{ path, first string }

func (t twin) String() string {
	return fmt.Sprintf("%s is the same folder as %s; it is one project, and the first row holds", t.path, t.first)
}

// apart leaves out each row whose path leads to the folder of an earlier row: one folder is one project, whatever links
// lead to it. A path that is written twice stays, because it is refused.
func apart(rows []config.Project, home, cwd string) (kept []config.Project, twins []twin) {
	var paths []string
	for _, row := range rows {
		path, err := config.Expand(row.Path, home, cwd)
		first := slices.IndexFunc(paths, func(p string) bool { return p != path && sameFolder(p, path) })
		if err == nil && first >= 0 && !slices.Contains(paths, path) {
			twins = append(twins, twin{path, paths[first]})
			continue
		}
		kept, paths = append(kept, row), append(paths, path)
	}
	return kept, twins
}

// checkGiven refuses what --project cannot mean, before anything is opened. A folder that is not there is waited for, as its
// disk may come later; with --once there is no later.
func (h *daemon) selectProjects(once bool) error {
	for _, dir := range h.dirs {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return usageError{fmt.Errorf("run: --project %s: it is not a folder", terminal.Clean(dir))}
		case once && errors.Is(err, fs.ErrNotExist):
			return usageError{fmt.Errorf("run: --project %s: there is no such folder", terminal.Clean(dir))}
		}
	}
	return nil
}

// tellProjects says at once which projects cannot be looked after yet: a slip of the pen looks just like a disk that comes
// later. It also names the folders that are given under two names.
func (h *daemon) tellProjects(refs []config.ProjectRef, twins []twin) {
	for _, t := range twins {
		if h.manager != "" {
			h.log.Warn("a project is named twice; the first row holds", "path", t.path, "same_folder_as", t.first)
			continue
		}
		fmt.Fprintf(h.app.err, "steward: %s\n", terminal.Clean(t.String()))
	}
	for _, ref := range refs {
		err := folderTrouble(ref.Path)
		if err == nil {
			continue
		}
		if h.manager != "" {
			h.log.Warn("a project cannot be looked at; it is waited for", "project", ref.Name, "path", ref.Path, "error", err)
			continue
		}
		fmt.Fprintf(h.app.err, "steward: project %s: %s: %s; steward waits for it. If the path is wrong, stop this and correct it\n",
			terminal.Clean(ref.Name), terminal.Clean(ref.Path), terminal.Clean(err.Error()))
	}
}

// folderTrouble says why there is no folder at the path now.
func folderTrouble(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return errors.New("it is not a folder")
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such folder")
	case err != nil:
		return errors.New(bareReason(err))
	}
	return nil
}

// bareReason is an error without the path that the line names already.
func bareReason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// unusable reports whether a project's own folder cannot be used now, whatever is spoken there.
func unusable(r supervisor.ProjectReport) bool {
	return len(r.Protocols) == 0 && slices.ContainsFunc(r.Faults, func(f protocol.Fault) bool { return f.Path == r.Path })
}
