package platform

import (
	"context"
	"errors"
	"io/fs"
)

// lockQueue polls: a wait in the kernel could not be called off at all.
func lockQueue(ctx context.Context, path string, _ fs.FileMode) (*FileLock, error) {
	return LockWait(ctx, path)
}

func (l *FileLock) share(bool) error { return errors.ErrUnsupported }
