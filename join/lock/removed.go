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

// handle is the kernel's lock in our hands, and the file that it lies on. Somebody may remove that file from its name: the
// lock then guards nothing, for whoever comes next makes a new file.
type handle struct {
	*platform.FileLock
	on fs.FileInfo
}

// flock takes the kernel's lock on a file of a place: at once or not at all, or after a wait in line. A file that was
// removed meanwhile is made anew, and the lock is the one on the file that has the name now. A folder that was removed
// stays away: only a command that begins makes it.
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
		// The locked file had the name at one moment between the two looks: where they agree it is the one that both saw.
		if after, err := os.Lstat(path); err == nil && before != nil && os.SameFile(before, after) {
			return &handle{l, after}, nil
		}
		_ = l.Unlock()
	}
	return nil, fmt.Errorf("%s is being removed again and again", path)
}

// lay makes a missing lock file, where its folder is there, for everybody who may write in that folder.
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

// lookEvery is the pace at which a holder looks whether its lock file still has its name.
const lookEvery = time.Second

// guard finds out whether somebody has removed the lock file, and locks the one that has the name now, unless somebody
// else was quicker. It is said once, and on record.
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
		return // it was said
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

// newest is the grip on the file that had the name when it was last looked at.
func (h *Held) newest() *handle {
	if h.again != nil {
		return h.again
	}
	return h.lock
}

// retake locks the file that has the name now, beside the first one, which the command shares.
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

// rewrite puts the holding on record again, if nothing has come in its record's place.
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
