package platform

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const openFlags = 0

// The lock lies on one byte far behind the text: locks are mandatory here, and ReadLock must be able to read.
const farAway = 0x7fffffff

func lockFile(f *os.File) error {
	at := windows.Overlapped{OffsetHigh: farAway}
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}

func unlockFile(f *os.File) error {
	at := windows.Overlapped{OffsetHigh: farAway}
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &at)
}
