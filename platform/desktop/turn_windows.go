package desktop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
)

const pollTime = 25 * time.Millisecond

// takeTurn waits until this user's voice is free. Windows ends the lock with our process.
func takeTurn(ctx context.Context, dir string, _ bool) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "speech.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the voice: %w", err)
	}
	ticker := time.NewTicker(pollTime)
	defer ticker.Stop()
	for {
		err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
			0, 1, 0, new(windows.Overlapped))
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, windows.ERROR_LOCK_VIOLATION):
			f.Close()
			return nil, fmt.Errorf("lock the voice: %w", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for the voice, which says something else: %w", context.Cause(ctx))
		}
	}
}

// voiceDir is the folder of the lock.
func voiceDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "steward")
	return dir, os.MkdirAll(dir, 0o700)
}
