package platform

import (
	"context"
	"fmt"
	"io/fs"
)

// LockQueue takes the lock on path like LockWait, but waits in the kernel's own queue where there is one: whoever waits
// is woken at once and costs nothing meanwhile. A missing file gets mode (less the umask). When ctx ends its error is
// returned at once; the call to the kernel cannot be called off, so that a process that lives on still takes the lock
// later, for the moment that it needs to give it back.
func LockQueue(ctx context.Context, path string, mode fs.FileMode) (*FileLock, error) {
	l, err := lockQueue(ctx, path, mode)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return l, nil
}

// Leave closes the lock file without giving the lock back: it goes on for as long as another process that shares it
// lives (Share), and ends at once where there is none. A second call returns fs.ErrClosed.
func (l *FileLock) Leave() error { return l.file.Close() }

// Share has the programs that are started from now on inherit the lock (or not inherit it any more): it then lasts
// until the last of them has ended, too. Every program counts that this process starts meanwhile, from any goroutine.
// errors.ErrUnsupported on Windows, where a lock belongs to one process.
func (l *FileLock) Share(on bool) error {
	if err := l.share(on); err != nil {
		return fmt.Errorf("share the lock: %w", err)
	}
	return nil
}
