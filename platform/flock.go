package platform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another open file holds the lock.
var ErrLocked = errors.New("locked by another process")

// maxLockText bounds what ReadLock takes from a file that anybody may have written.
const maxLockText = 64 << 10

// FileLock is an exclusive kernel lock on a file. It ends with Unlock or with the process, however that dies.
// The file itself stays for ever: whoever unlinks a lock file lets two holders in.
type FileLock struct{ file *os.File }

// Lock takes the lock on path without waiting; ErrLocked when another holds it. A missing file is created with mode
// (less the umask). Links, folders, pipes and devices are refused.
func Lock(path string, mode fs.FileMode) (*FileLock, error) {
	l, err := lock(path, mode)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return l, nil
}

// LockWait takes the lock on path, waiting until ctx ends; then the error is ctx's. A missing file gets mode 0600.
// Waiters are served in no particular order.
func LockWait(ctx context.Context, path string) (*FileLock, error) {
	l, err := wait(ctx, func() (*FileLock, error) { return Lock(path, 0o600) })
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("lock %s: %w", path, ctx.Err())
	}
	return l, err
}

// wait tries until the lock is free. A blocking flock could not be called off: it would hold its thread and take the
// lock after we have left.
func wait(ctx context.Context, try func() (*FileLock, error)) (*FileLock, error) {
	const longest = 25 * time.Millisecond
	for pause := time.Millisecond; ; pause = min(2*pause, longest) {
		l, err := try()
		if !errors.Is(err, ErrLocked) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// LockOpen is Lock for a file that is open already. The caller must make sure that the file still has its name. An error
// leaves the file open.
func LockOpen(f *os.File) (*FileLock, error) {
	if err := lockFile(f); err != nil {
		return nil, err
	}
	return &FileLock{f}, nil
}

// LockOpenWait is LockOpen that waits until ctx ends; then the error is ctx's.
func LockOpenWait(ctx context.Context, f *os.File) (*FileLock, error) {
	return wait(ctx, func() (*FileLock, error) { return LockOpen(f) })
}

// Release gives the lock back and leaves the file open, to be locked again.
func (l *FileLock) Release() error { return unlockFile(l.file) }

// ReadText reads the text that some holder left in the open lock file, at most 64 KiB.
func ReadText(f *os.File) ([]byte, error) { return io.ReadAll(io.NewSectionReader(f, 0, maxLockText)) }

// Write replaces the text inside the lock file: who holds it, for people and for other programs.
func (l *FileLock) Write(b []byte) error {
	if _, err := l.file.WriteAt(b, 0); err != nil {
		return fmt.Errorf("write lock text: %w", err)
	}
	if err := l.file.Truncate(int64(len(b))); err != nil {
		return fmt.Errorf("write lock text: %w", err)
	}
	return nil
}

// Unlock gives the lock back. The file and its text stay. A second call returns fs.ErrClosed.
func (l *FileLock) Unlock() error {
	// Unlocking before closing: a child between fork and exec still shares the open file, and its lock with it.
	err := unlockFile(l.file)
	return errors.Join(err, l.file.Close())
}

// ReadLock reads the text that some holder left in the lock file, at most 64 KiB. It says nothing about whether the
// lock is held now.
func ReadLock(path string) ([]byte, error) {
	f, err := openLock(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("read lock %s: %w", path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxLockText))
	if err != nil {
		return nil, fmt.Errorf("read lock %s: %w", path, err)
	}
	return b, nil
}

// lock tries a few times, because a file that was replaced between open and flock guards nothing any more.
func lock(path string, mode fs.FileMode) (*FileLock, error) {
	for range 10 {
		f, err := openLock(path, os.O_RDWR|os.O_CREATE, mode)
		if err != nil {
			return nil, err
		}
		if err := lockFile(f); err != nil {
			f.Close()
			return nil, err
		}
		if named(f, path) {
			return &FileLock{f}, nil
		}
		f.Close()
	}
	return nil, errors.New("the file is being replaced again and again; lock files must never be removed")
}

func openLock(path string, flag int, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|openFlags, mode)
	if err != nil {
		return nil, bare(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("not a regular file but %s", info.Mode())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// named reports whether path still leads to the open file.
func named(f *os.File, path string) bool {
	open, err1 := f.Stat()
	now, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(open, now)
}

// bare drops the path from an error whose caller names it already.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// isAt reports whether path still leads to the file that is locked.
func (l *FileLock) isAt(path string) bool {
	held, err := l.file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(held, now)
}

// openFlags: never through a link, never hanging on a pipe, never handed to a child (which would keep the lock).
const openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

func lockFile(f *os.File) error {
	err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func unlockFile(f *os.File) error { return flock(f, unix.LOCK_UN) }

func flock(f *os.File, how int) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = raw.Control(func(fd uintptr) {
		for {
			if locked = unix.Flock(int(fd), how); locked != unix.EINTR {
				return
			}
		}
	})
	return errors.Join(err, locked)
}
