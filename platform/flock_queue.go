package platform

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
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
func (l *FileLock) Share(on bool) error {
	if err := l.share(on); err != nil {
		return fmt.Errorf("share the lock: %w", err)
	}
	return nil
}

func lockQueue(ctx context.Context, path string, mode fs.FileMode) (*FileLock, error) {
	for {
		l, err := lock(path, mode) // mostly nobody holds it
		if !errors.Is(err, ErrLocked) {
			return l, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, err := openLock(path, os.O_RDWR|os.O_CREATE, mode)
		if err != nil {
			return nil, err
		}
		if err := await(ctx, f); err != nil {
			return nil, err
		}
		if named(f, path) {
			return &FileLock{f}, nil
		}
		f.Close() // replaced while we waited: it guards nothing any more
	}
}

// await locks the open file. It is closed where that fails, and given back where nobody waits any more.
func await(ctx context.Context, f *os.File) error {
	done := make(chan error)
	go func() {
		err := flock(f, unix.LOCK_EX)
		select {
		case done <- err:
		case <-ctx.Done():
			_ = unlockFile(f)
			f.Close()
		}
	}()
	select {
	case err := <-done:
		if err != nil {
			f.Close()
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *FileLock) share(on bool) error {
	raw, err := l.file.SyscallConn()
	if err != nil {
		return err
	}
	flag := unix.FD_CLOEXEC
	if on {
		flag = 0
	}
	var failed error
	err = raw.Control(func(fd uintptr) { _, failed = unix.FcntlInt(fd, unix.F_SETFD, flag) })
	return errors.Join(err, failed)
}
