package platform

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// LockQueue acquires the lock on path and waits in the kernel's queue: a waiter is woken at once and uses no CPU
// meanwhile. A missing file is created with mode (less the umask). When ctx ends, LockQueue returns ctx's
// error at once. The system call cannot be cancelled, so if the process lives on, it still acquires the lock later
// and releases it immediately.
func LockQueue(ctx context.Context, path string, mode fs.FileMode) (*FileLock, error) {
	l, err := lockQueue(ctx, path, mode)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return l, nil
}

// Leave closes the lock file without unlocking it. The lock persists as long as another process that shares it
// (Share) lives, and is released at once if none exists. A second call returns fs.ErrClosed.
func (l *FileLock) Leave() error { return l.file.Close() }

// Share makes programs started from now on inherit the lock, or stops that. An inherited lock lasts until the last of
// these programs has ended, too. This affects every program that this process starts meanwhile, from any goroutine.
func (l *FileLock) Share(on bool) error {
	if err := l.share(on); err != nil {
		return fmt.Errorf("share the lock: %w", err)
	}
	return nil
}

func lockQueue(ctx context.Context, path string, mode fs.FileMode) (*FileLock, error) {
	for {
		l, err := lock(path, mode) // the common case: the lock is free
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
		f.Close() // replaced while we waited: the lock protects nothing
	}
}

// await locks the open file. It closes the file if locking fails; it unlocks and closes the file if ctx ended first.
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
