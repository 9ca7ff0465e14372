package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol/jsonfile"
)

// handle is a kernel lock that this process holds, and the file that it is on. If another process unlinks that file,
// the lock protects nothing: the next process creates and locks a new file.
type handle struct {
	*platform.FileLock
	on fs.FileInfo
}

// flock takes the kernel lock on a lock file, without waiting or after queueing. It recreates a file that was removed
// meanwhile, and locks the file that has the name now. It does not recreate a removed folder: only the start of a
// command does.
func (p *Place) flock(ctx context.Context, file string, wait bool) (*handle, error) {
	const mode, tries = 0o644, 100
	path := p.flockPath(file)
	take := platform.LockQueue
	if !wait {
		take = func(_ context.Context, path string, mode fs.FileMode) (*platform.FileLock, error) {
			return platform.Lock(path, mode)
		}
	}
	for range tries {
		before, err := os.Lstat(path)
		if err != nil {
			before = p.lay(file)
		}
		l, err := take(ctx, path, mode)
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := p.open(false); errors.Is(err, jsonfile.ErrNotExist) {
				return nil, fmt.Errorf("the folder %s was removed meanwhile; a new steward lock run makes it again", filepath.Dir(path))
			} else if err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		// The locked file had the name at some moment between the two Lstat calls. If both return the same file, it is
		// the locked file.
		if after, err := os.Lstat(path); err == nil && before != nil && os.SameFile(before, after) {
			return &handle{l, after}, nil
		}
		_ = l.Unlock()
	}
	return nil, fmt.Errorf("%s is being removed again and again", path)
}

// lay creates a missing lock file in an existing folder, accessible to every user who may write to that folder.
func (p *Place) lay(file string) fs.FileInfo {
	root, err := p.open(false)
	if err != nil {
		return nil
	}
	f, err := root.OpenLock(locksDir + "/" + file + lockSuffix)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	return info
}

// lookEvery is the interval at which a holder checks that its lock file still has its name.
const lookEvery = time.Second

// guard detects that the lock file was removed, and locks the file that has the name now, unless another process was
// quicker. It reports a removal once, and records it in the tombstones.
func (h *Held) guard(ctx context.Context, tell func(string)) {
	path := h.place.flockPath(h.file)
	if now, err := os.Lstat(path); err == nil && os.SameFile(now, h.newest().on) {
		return
	}
	err := h.retake(ctx)
	if err == nil {
		if err := h.rewrite(); err != nil {
			tell(fmt.Sprintf("the record of the lock %s cannot be written anew: %v", h.rec.Name, err))
		}
	}
	switch {
	case h.lost && err == nil:
		h.lost = false
		tell(fmt.Sprintf("the lock file %s is locked again", path))
		return
	case h.lost:
		return // already reported
	}
	words := fmt.Sprintf("ATTENTION: somebody removed the lock file %s, which is held here; ", path)
	if err == nil {
		words += "it is there and locked again, but others may have got in meanwhile"
	} else {
		h.lost = true
		words += fmt.Sprintf("others may get in: %v", err)
	}
	if err := h.place.putDown(Breaking{Status: Status{Name: h.rec.Name}, By: "somebody", Why: words}, h.rec, "lock_file_removed"); err != nil {
		words += fmt.Sprintf("; this cannot be put on record: %v", err)
	}
	tell(words)
}

// newest is the lock on the file that had the name at the last check.
func (h *Held) newest() *handle {
	if h.again != nil {
		return h.again
	}
	return h.lock
}

// retake locks the file that has the name now, in addition to the first file, which the command shares.
func (h *Held) retake(ctx context.Context) error {
	again, err := h.place.flock(ctx, h.file, false)
	if err != nil {
		return err
	}
	if h.again != nil {
		_ = h.again.Unlock()
	}
	h.again = again
	return nil
}

// rewrite writes the record again, unless another record has replaced it.
func (h *Held) rewrite() error {
	root, err := h.place.open(false)
	if err != nil {
		return err
	}
	rec, ceiling, err := read(root, h.rec.Name, h.file)
	if err != nil || rec.Fence != 0 || ceiling > h.seen {
		return err
	}
	return h.place.write(root, h.file, h.rec, ceiling)
}
