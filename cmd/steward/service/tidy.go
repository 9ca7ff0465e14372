package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
)

// serviceFiles are the files in the state folder that only a running service needs.
func serviceFiles() []string {
	return []string{daemon.HeartbeatFile, daemon.HandOverFile, daemon.CrashFile, daemon.RunFile, "status.json", "steward.lock", "steward.sock", "steward.sock.lock", "steward.log"}
}

func historyFiles() []string {
	return []string{"incidents", "journal.jsonl*", daemon.MemoryFile, daemon.MemoryFile + ".bad", "learnt.json", "crash-*.txt"}
}

// tidyUp removes the service's files from its own folders; with purge the history too. It keeps files that steward did
// not create, and removes nothing while another steward runs. See docs/decisions.md, "History survives an uninstall".
func tidyUp(paths platform.Paths, refs []config.ProjectRef, o Target) (gone, notes []string) {
	alone, err := daemon.LockState(paths.State)
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
		gone, notes = purgeProjects(refs)
		for _, pattern := range historyFiles() {
			found, _ := filepath.Glob(filepath.Join(paths.State, pattern))
			for _, path := range found {
				_ = os.RemoveAll(path)
			}
		}
	}
	switch err := os.Remove(paths.State); {
	case err == nil:
		return append(gone, paths.State), notes
	case o.purge:
		return gone, append(notes, "not everything could be removed: "+err.Error())
	}
	command := "steward service uninstall --purge"
	if o.System {
		command = "sudo steward service uninstall --system --purge"
	}
	return nil, []string{"the history stays in " + paths.State + " (incidents, journal); " + command + " removes it"}
}

// purgeProjects removes steward's own folder from every project: attempts, locks, and published files. It reports every
// folder that it removes or keeps. It does not follow a link out of the project.
func purgeProjects(refs []config.ProjectRef) (gone, notes []string) {
	for _, ref := range refs {
		root, err := os.OpenRoot(ref.Path)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				notes = append(notes, fmt.Sprintf("steward's files in %s stay: %v", ref.Path, err))
			}
			continue
		}
		for _, ad := range daemon.Adapters {
			own := ad.Own(ref.Path)
			rel, err := filepath.Rel(ref.Path, own)
			if err == nil {
				_, err = root.Lstat(rel)
			}
			if err != nil {
				continue
			}
			if lock := heldLock(root, rel); lock != "" {
				notes = append(notes, own+" stays: a process holds "+lock)
			} else if err := root.RemoveAll(rel); err != nil {
				notes = append(notes, own+" stays: "+err.Error())
			} else {
				gone = append(gone, own)
			}
		}
		_ = root.Close()
	}
	return gone, notes
}

// heldLock returns a lock file in steward's own folder that a process holds, or "".
// See docs/decisions.md, "A purge leaves a folder in which a process holds a lock".
func heldLock(root *os.Root, own string) string {
	for _, pattern := range []string{"/*.lock", "/locks/*.lock"} {
		files, _ := fs.Glob(root.FS(), filepath.ToSlash(own)+pattern)
		for _, file := range files {
			f, err := root.OpenFile(file, os.O_RDWR, 0)
			if err != nil {
				continue
			}
			_, err = platform.LockOpen(f)
			_ = f.Close()
			if errors.Is(err, platform.ErrLocked) {
				return filepath.Join(root.Name(), file)
			}
		}
	}
	return ""
}
