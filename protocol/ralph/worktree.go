package ralph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

const (
	statusLimit = 5 * time.Second // for one call of git
	statusShare = 20              // git may run one part in this many of the time
	statusPause = 2 * time.Second // between two calls at least
	maxStatus   = 4 << 20         // bytes of git's answer
	maxDirty    = 5000            // files
)

// worktree is what git says about the main work tree at one moment.
type worktree struct {
	commit, branch string
	stashes        string
	files          map[string]string // the uncommitted files: what git and the file system say about each
}

// treeChange is a difference between two of them.
type treeChange struct{ path, text string }

const (
	headPath  = ".git/HEAD"
	stashPath = ".git/refs/stash"
)

// readWorktree asks git, which takes no lock and writes nothing. It returns the processor time that git took.
func readWorktree(ctx context.Context, dir string) (*worktree, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "--no-optional-locks", "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "-z", "--branch",
		"--untracked-files=all", "--no-renames", "--", ".", ":(exclude)"+Base)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(inherited(os.Environ()), "LC_ALL=C")
	text, err := cmd.Output()
	cost := time.Duration(0)
	if ended := cmd.ProcessState; ended != nil {
		cost = ended.UserTime() + ended.SystemTime()
	}
	if err == nil && len(text) > maxStatus {
		err = errors.New("it names too many files")
	}
	if err != nil {
		return nil, cost, fmt.Errorf("git status: %w", err)
	}
	t := &worktree{files: map[string]string{}}
	for record := range bytes.SplitSeq(text, []byte{0}) {
		t.add(string(record), dir)
	}
	if top, err := jsonfile.Open(dir); err == nil {
		log, _ := top.Read(".git/logs/refs/stash", maxFile)
		t.stashes = string(log.Data)
		_ = top.Close()
	}
	return t, cost, nil
}

// add reads one record of git-status(1), Porcelain Format Version 2.
func (t *worktree) add(record, dir string) {
	kind, rest, _ := strings.Cut(record, " ")
	fields := map[string]int{"1": 8, "u": 10, "?": 1}[kind]
	switch parts := strings.SplitN(rest, " ", max(fields, 1)); {
	case kind == "#" && strings.HasPrefix(rest, "branch.oid "):
		t.commit = rest[len("branch.oid "):]
	case kind == "#" && strings.HasPrefix(rest, "branch.head "):
		t.branch = rest[len("branch.head "):]
	case fields > 0 && len(parts) == fields && len(t.files) < maxDirty:
		name := parts[fields-1]
		state := kind + strings.Join(parts[:fields-1], " ")
		if st, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name))); err == nil {
			state += fmt.Sprint(" ", st.Size(), st.ModTime().UnixNano())
		}
		t.files[name] = state
	}
}

// since lists what changed after an earlier moment. Files that a commit took over are part of the moved HEAD.
func (t *worktree) since(old *worktree) (list []treeChange) {
	moved := t.commit != old.commit || t.branch != old.branch
	if moved {
		list = append(list, treeChange{headPath, fmt.Sprintf("HEAD moved from %s (%s) to %s (%s)", short(old.commit), old.branch, short(t.commit), t.branch)})
	}
	for line := range strings.Lines(old.stashes) {
		if id := stashID(line); !strings.Contains(t.stashes, id) {
			list = append(list, treeChange{stashPath, "the stash entry " + short(id) + " is gone"})
		}
	}
	for _, name := range sortedKeys(old.files) {
		if _, dirty := t.files[name]; !dirty && !moved {
			list = append(list, treeChange{name, "its uncommitted changes are gone"})
		}
	}
	for _, name := range sortedKeys(t.files) {
		switch was, dirty := old.files[name]; {
		case !dirty && strings.HasPrefix(t.files[name], "?"):
			list = append(list, treeChange{name, "it was created"})
		case was != t.files[name]:
			list = append(list, treeChange{name, "it was changed"})
		}
	}
	return list
}

// keepStashes drops the stash entries that were not there before. Workers may stash in their own work trees, which share the list
// with the main one, so only the entries from before the workers count.
func (t *worktree) keepStashes(old *worktree) {
	kept := ""
	for line := range strings.Lines(t.stashes) {
		if strings.Contains(old.stashes, stashID(line)) {
			kept += line
		}
	}
	t.stashes = kept
}

// stashID is the commit of one line of the stash's log, which begins with the commits before and after.
func stashID(line string) string {
	if f := strings.Fields(line); len(f) > 1 {
		return f[1]
	}
	return line
}

func short(commit string) string { return folder.Line(commit[:min(len(commit), 10)], 20) }
