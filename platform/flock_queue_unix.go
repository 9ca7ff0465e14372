//go:build unix

package platform

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

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
