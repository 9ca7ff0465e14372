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

// ErrLocked means that another open file holds the lock.
var ErrLocked = errors.New("locked by another process")

// maxLockText limits how much ReadLock reads, because any user may have written to the file.
const maxLockText = 64 << 10

// FileLock is an exclusive kernel lock on a file. The kernel releases it at Unlock or when the process ends, however
// it ends. The lock file itself is never removed: unlinking a lock file would allow two holders.
// See docs/decisions.md, "gofrs/flock is not used".
type FileLock struct{ file *os.File }

// Lock acquires the lock on path without waiting; it returns ErrLocked if another process holds it. A missing file is
// created with mode (less the umask). Links, folders, pipes and devices are rejected.
func Lock(path string, mode fs.FileMode) (*FileLock, error) {
	l, err := lock(path, mode)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return l, nil
}

// LockOpen is Lock for a file that is already open. The caller must make sure that path still leads to this file. On
// an error the file stays open.
func LockOpen(f *os.File) (*FileLock, error) {
	if err := lockFile(f); err != nil {
		return nil, err
	}
	return &FileLock{f}, nil
}

// LockOpenWait is LockOpen, but waits until ctx ends; it then returns ctx's error. It polls because a blocking flock
// cannot be cancelled: it would block its thread and acquire the lock after the caller has left.
func LockOpenWait(ctx context.Context, f *os.File) (*FileLock, error) {
	const longest = 25 * time.Millisecond
	for pause := time.Millisecond; ; pause = min(2*pause, longest) {
		l, err := LockOpen(f)
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

// Release unlocks the file and leaves it open, so that it can be locked again.
func (l *FileLock) Release() error { return unlockFile(l.file) }

// ReadText reads the text that a holder wrote into the open lock file, at most 64 KiB.
func ReadText(f *os.File) ([]byte, error) { return io.ReadAll(io.NewSectionReader(f, 0, maxLockText)) }

// Write replaces the text in the lock file, which tells users and other programs who holds the lock.
func (l *FileLock) Write(b []byte) error {
	if _, err := l.file.WriteAt(b, 0); err != nil {
		return fmt.Errorf("write lock text: %w", err)
	}
	if err := l.file.Truncate(int64(len(b))); err != nil {
		return fmt.Errorf("write lock text: %w", err)
	}
	return nil
}

// Unlock releases the lock and closes the file. The file and its text remain. A second call returns fs.ErrClosed.
func (l *FileLock) Unlock() error {
	// Unlock before closing: a child between fork and exec still shares the open file and therefore its lock.
	err := unlockFile(l.file)
	return errors.Join(err, l.file.Close())
}

// ReadLock reads the text that a holder wrote into the lock file, at most 64 KiB. It does not tell whether the lock
// is currently held.
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

// lock retries a few times, because a lock on a file that was replaced between open and flock protects nothing.
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

// bare strips the path from an error, for callers that add the path themselves.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// openFlags do not follow links, do not block on a pipe, and keep the descriptor from children, which would otherwise
// keep the lock.
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
