package lock

import (
	"context"
	"fmt"
	"os"
	"time"
)

// fileCheckInterval is the interval at which a holder checks that its lock file still has its name.
const fileCheckInterval = time.Second

// checkFile detects that the lock file was removed, and locks the file that has the name now, unless another process was
// quicker. It reports a removal once, and records it in the tombstones.
func (h *Held) checkFile(ctx context.Context, tell func(string)) {
	path := h.locks.folder.path(h.file, lockSuffix)
	if now, err := os.Lstat(path); err == nil && os.SameFile(now, h.current().on) {
		return
	}
	err := h.lockReplacement(ctx)
	if err == nil {
		if err := h.rewriteRecord(); err != nil {
			tell(fmt.Sprintf("the record of the lock %s cannot be written again: %v", h.rec.Name, err))
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
	words := fmt.Sprintf("ATTENTION: another process removed the lock file %s, which is held here; ", path)
	if err == nil {
		words += "it is there and locked again, but others may have got in meanwhile"
	} else {
		h.lost = true
		words += fmt.Sprintf("others may get in: %v", err)
	}
	b := Breaking{Status: Status{Name: h.rec.Name}, By: "another process", Why: words}
	if err := h.locks.folder.addTombstone(b, h.rec, "lock_file_removed", h.locks.opts.Now()); err != nil {
		words += fmt.Sprintf("; this cannot be put on record: %v", err)
	}
	tell(words)
}

// current is the lock on the file that had the name at the last check.
func (h *Held) current() *flockHandle {
	if h.replacement != nil {
		return h.replacement
	}
	return h.lock
}

// lockReplacement locks the file that has the name now, in addition to the first file, which the command shares.
func (h *Held) lockReplacement(ctx context.Context) error {
	again, err := h.locks.folder.flock(ctx, h.file, false)
	if err != nil {
		return err
	}
	if h.replacement != nil {
		_ = h.replacement.Unlock()
	}
	h.replacement = again
	return nil
}

// rewriteRecord writes the record again, unless another record has replaced it.
func (h *Held) rewriteRecord() error {
	rec, ceiling, err := h.locks.folder.read(h.rec.Name, h.file)
	if err != nil || rec.Fence != 0 || ceiling > h.seen {
		return err
	}
	return h.locks.folder.write(h.file, h.rec, ceiling)
}
