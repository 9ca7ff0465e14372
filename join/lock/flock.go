package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol/jsonfile"
)

// flockHandle is a kernel lock that this process holds, and the file that it is on. If another process unlinks that file,
// the lock protects nothing: the next process creates and locks a new file.
type flockHandle struct {
	*platform.FileLock
	on fs.FileInfo
}

// flock takes the kernel lock on a lock file, without waiting or after queueing. It recreates a file that was removed
// meanwhile, and locks the file that has the name now. It does not recreate a removed folder: only the start of a
// command does. See docs/decisions.md, "A removed lock file is created again, a removed lock folder is not".
func (f *folder) flock(ctx context.Context, file string, wait bool) (*flockHandle, error) {
	const mode, tries = 0o644, 100
	path := f.path(file, lockSuffix)
	take := platform.LockQueue
	if !wait {
		take = func(_ context.Context, path string, mode fs.FileMode) (*platform.FileLock, error) {
			return platform.Lock(path, mode)
		}
	}
	for range tries {
		before, err := os.Lstat(path)
		if err != nil {
			before = f.createLockFile(file)
		}
		l, err := take(ctx, path, mode)
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := f.open(false); errors.Is(err, jsonfile.ErrNotExist) {
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
			return &flockHandle{l, after}, nil
		}
		_ = l.Unlock()
	}
	return nil, fmt.Errorf("%s is being removed again and again", path)
}

// createLockFile creates a missing lock file in an existing folder, accessible to every user who may write to that folder.
func (f *folder) createLockFile(file string) fs.FileInfo {
	root, err := f.open(false)
	if err != nil {
		return nil
	}
	lock, err := root.OpenLock(locksDir + "/" + file + lockSuffix)
	if err != nil {
		return nil
	}
	defer lock.Close()
	info, err := lock.Stat()
	if err != nil {
		return nil
	}
	return info
}
