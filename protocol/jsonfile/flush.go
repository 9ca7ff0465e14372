package jsonfile

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

// SyncFolder waits until the names in the folder p are on disk. After many Volatile renames it replaces the wait that
// each of them skipped.
func (r *Root) SyncFolder(p string) error {
	d, err := r.descend(p)
	if err == nil {
		err = d.settle(true)
		d.release()
	}
	if err != nil {
		return r.fail(opSync, p, err)
	}
	return nil
}

// syncers is how many files SyncFiles syncs concurrently. A journaling file system commits several syncs together.
// See docs/decisions.md, "Notices of one order share their fsyncs".
const syncers = 16

// SyncFiles waits until the content of the files is on disk, and returns the error of each. A missing file is no error.
func (r *Root) SyncFiles(files []string) []error {
	errs := make([]error, len(files))
	next := make(chan int)
	var all sync.WaitGroup
	for range min(syncers, len(files)) {
		all.Go(func() {
			for i := range next {
				errs[i] = r.syncFile(files[i])
			}
		})
	}
	for i := range files {
		next <- i
	}
	close(next)
	all.Wait()
	return errs
}

func (r *Root) syncFile(p string) error {
	f, _, err := r.openPlain(p, syncFlag)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		if err = f.Sync(); err != nil {
			err = fmt.Errorf("sync file: %w", err)
		}
		_ = f.Close()
	}
	if err != nil {
		return r.fail(opSync, p, err)
	}
	return nil
}
