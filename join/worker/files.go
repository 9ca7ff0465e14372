package worker

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/livhana/steward/protocol/agentstatus"
)

// hashed is the largest file, in bytes, whose content is compared. Larger files are compared by size and time.
const hashed = 64 << 20

// fileState is the state of a path at one moment.
type fileState struct {
	there bool
	mode  os.FileMode
	size  int64
	time  time.Time
	sum   [sha256.Size]byte
}

// changed reports whether the content differs.
func (s fileState) changed(now fileState) bool {
	if s.mode.IsRegular() && now.mode.IsRegular() && s.size == now.size && s.size <= hashed {
		return s.sum != now.sum
	}
	return s.there != now.there || s.mode.Type() != now.mode.Type() || s.size != now.size || !s.time.Equal(now.time)
}

// stateOf reads the state of a path. Only plain files are opened: reading a FIFO would block.
func stateOf(path string) fileState {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&os.ModeSymlink != 0 {
		info, err = os.Stat(path)
	}
	if err != nil {
		return fileState{}
	}
	s := fileState{there: true, mode: info.Mode(), size: info.Size(), time: info.ModTime()}
	if !s.mode.IsRegular() || s.size > hashed {
		return s
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a FIFO since the check
	if err != nil {
		return s
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, hashed)); err == nil {
		h.Sum(s.sum[:0])
	}
	return s
}

// snapshot is the state, before the command runs, of the paths that a request names and of the files below a folder.
type snapshot struct {
	root   string // the project; a working folder outside of it, or where the project has too many files
	named  map[string]fileState
	listed map[string]fileState // size and time only; nil: too many to list
}

func (p *plan) files(project string) snapshot {
	before := snapshot{root: p.dir, named: map[string]fileState{}}
	if rel, err := filepath.Rel(project, p.dir); err == nil && filepath.IsLocal(rel) && rel != "." {
		if before.listed = listFiles(project); before.listed != nil {
			before.root = project
		}
	}
	if before.listed == nil {
		before.listed = listFiles(p.dir)
	}
	for _, path := range slices.Concat(p.modify, p.artifacts) {
		before.named[path] = stateOf(path)
	}
	return before
}

// A folder with more entries than mostListed is not compared, and a result names at most mostChanged files of a
// listing. Above either limit a result names only the files that the request named or the command itself reported.
const (
	mostListed  = 4000
	mostChanged = 500
)

// listFiles returns the plain files below a folder, except those of git, node_modules and the protocol; nil: too many, or
// the folder cannot be read.
func listFiles(dir string) map[string]fileState {
	files, entries := map[string]fileState{}, 0
	own := filepath.FromSlash("/" + agentstatus.Base)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil && path != dir {
			return nil // removed meanwhile, or unreadable
		}
		if entries++; err != nil || entries > mostListed {
			return errors.ErrUnsupported
		}
		if entry.IsDir() && path != dir && (entry.Name() == ".git" || entry.Name() == "node_modules" || strings.HasSuffix(path, own)) {
			return filepath.SkipDir
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			files[path] = fileState{size: info.Size(), time: info.ModTime()}
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return files
}

// compare adds the files that the command has created or changed to those that it reports itself: those that the request
// names, and those of the listing.
func (before snapshot) compare(p *plan, r *agentstatus.Result) {
	told := append(slices.Clone(r.Body.Artifacts), r.Body.Modified...)
	add := func(list *[]string, path string) {
		if !slices.Contains(*list, path) {
			*list = append(*list, path)
		}
	}
	for _, path := range p.artifacts {
		if now := stateOf(path); now.there && before.named[path].changed(now) {
			add(&r.Body.Artifacts, path)
		}
	}
	for _, path := range p.modify {
		if before.named[path].changed(stateOf(path)) {
			add(&r.Body.Modified, path)
		}
	}
	if before.listed == nil {
		return
	}
	var made, changed []string
	now := listFiles(before.root)
	for _, path := range slices.Sorted(maps.Keys(now)) {
		was, there := before.listed[path]
		_, named := before.named[path]
		switch is := now[path]; {
		case named || slices.Contains(told, path):
		case !there:
			made = append(made, path)
		case was.size != is.size || !was.time.Equal(is.time):
			changed = append(changed, path)
		}
	}
	if len(made)+len(changed) <= mostChanged {
		r.Body.Artifacts, r.Body.Modified = append(r.Body.Artifacts, made...), append(r.Body.Modified, changed...)
	}
}
