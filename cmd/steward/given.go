package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/livhana/steward"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// only narrows the configured projects down to the given folders; one that is not configured gets the defaults.
func only(configured []steward.Project, dirs []string, home, cwd string) []steward.Project {
	var chosen []steward.Project
	for _, dir := range dirs {
		full, err := filepath.Abs(dir)
		if err != nil {
			full = dir
		}
		p := steward.Project{Path: full}
		for _, c := range configured {
			if path, err := steward.Expand(c.Path, home, cwd); err == nil && path == full {
				p = c
				p.Path = full
			}
		}
		chosen = append(chosen, p)
	}
	return chosen
}

// checkGiven refuses what --project cannot mean, before anything is opened. A folder that is not there is waited for, as its
// disk may come later; with --once there is no later.
func (h *house) checkGiven(once bool) error {
	for _, dir := range h.dirs {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return usageError{fmt.Errorf("run: --project %s: it is no folder", clean(dir))}
		case once && errors.Is(err, fs.ErrNotExist):
			return usageError{fmt.Errorf("run: --project %s: there is no such folder", clean(dir))}
		}
	}
	return nil
}

// tellMissing says at once which projects cannot be looked after yet: a slip of the pen looks just like a disk that comes later.
func (h *house) tellMissing(refs []steward.ProjectRef) {
	for _, ref := range refs {
		info, err := os.Stat(ref.Path)
		switch {
		case err == nil && info.IsDir():
			continue
		case err == nil:
			err = errors.New("it is no folder")
		case errors.Is(err, fs.ErrNotExist):
			err = errors.New("there is no such folder")
		}
		if h.manager != "" {
			h.log.Warn("a project cannot be looked at; it is waited for", "project", ref.Name, "path", ref.Path, "error", err)
			continue
		}
		fmt.Fprintf(h.app.err, "steward: project %s: %s: %s; steward waits for it. If the path is wrong, stop this and correct it\n",
			clean(ref.Name), clean(ref.Path), clean(bareReason(err)))
	}
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
