package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/livhana/steward"
	"github.com/livhana/steward/platform"
)

// The names in the state folder: what only a running service needs, and the history.
func serviceFiles() []string {
	return []string{beatFile, noteFile, crashFile, runFile, "status.json", "steward.lock", "steward.sock", "steward.sock.lock", "steward.log"}
}

func historyFiles() []string {
	return []string{"incidents", "journal.jsonl*", memoryFile, memoryFile + ".bad", "learnt.json", "crash-*.txt"}
}

// tidyUp removes what the service has left in its own folders; with purge the history too. Files that nobody here has
// made stay, and so does everything while another steward runs.
func tidyUp(paths platform.Paths, refs []steward.ProjectRef, o serviceOptions) (gone, notes []string) {
	alone, err := takeState(paths.State)
	switch {
	case errors.Is(err, platform.ErrLocked):
		return nil, []string{"a steward still runs with " + paths.State + "; its files stay"}
	case err != nil:
		return nil, nil // there is no state folder
	}
	defer func() { _ = alone.Unlock() }()
	for _, name := range serviceFiles() {
		_ = os.Remove(filepath.Join(paths.State, name))
	}
	_ = os.Remove(paths.Socket)
	_ = os.Remove(paths.Socket + ".lock")
	for _, voice := range []string{"speech.lock", "urgent.lock"} {
		_ = os.Remove(filepath.Join(filepath.Dir(paths.Socket), voice))
	}
	_ = os.Remove(filepath.Dir(paths.Socket))
	if o.purge {
		purgeProjects(refs)
		for _, pattern := range historyFiles() {
			found, _ := filepath.Glob(filepath.Join(paths.State, pattern))
			for _, path := range found {
				_ = os.RemoveAll(path)
			}
		}
	}
	switch err := os.Remove(paths.State); {
	case err == nil:
		return []string{paths.State}, nil
	case o.purge:
		return nil, []string{"not everything could be removed: " + err.Error()}
	}
	command := "steward service uninstall --purge"
	if o.system {
		command = "sudo steward service uninstall --system --purge"
	}
	return nil, []string{"the history stays in " + paths.State + " (incidents, journal); " + command + " removes it"}
}

// purgeProjects removes steward's own folder from every project: attempts, and what is published there. A link in its
// place leads nowhere out of the project.
func purgeProjects(refs []steward.ProjectRef) {
	for _, ref := range refs {
		root, err := os.OpenRoot(ref.Path)
		if err != nil {
			continue
		}
		for _, ad := range adapters {
			if own, err := filepath.Rel(ref.Path, ad.own(ref.Path)); err == nil {
				_ = root.RemoveAll(own)
			}
		}
		_ = root.Close()
	}
}
