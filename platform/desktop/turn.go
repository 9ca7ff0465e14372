package desktop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// pollTime is how often a waiting text checks whether the voice is free. Without a waiting text there is no polling.
const pollTime = 25 * time.Millisecond

// takeTurn waits until this user's voice is free on this machine, across processes. An urgent text holds "urgent"
// (shared) while it waits, and other texts wait for it. The lock ends with our process, and no child inherits it.
func takeTurn(ctx context.Context, dir string, urgent bool) (release func(), err error) {
	turn, err := openLock(dir, "speech.lock")
	if err != nil {
		return nil, err
	}
	pass, err := openLock(dir, "urgent.lock")
	if err != nil {
		turn.Close()
		return nil, err
	}
	defer pass.Close()
	ticker := time.NewTicker(pollTime)
	defer ticker.Stop()
	for {
		if ok, err := step(turn, pass, urgent); err != nil || ok {
			if err != nil {
				turn.Close()
				return nil, err
			}
			return func() { turn.Close() }, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			turn.Close()
			return nil, fmt.Errorf("wait for the voice, which says something else: %w", context.Cause(ctx))
		}
	}
}

// step makes one attempt.
func step(turn, pass *os.File, urgent bool) (bool, error) {
	if urgent {
		if _, err := lock(pass, unix.LOCK_SH); err != nil { // the check of another text may hold it; retry later
			return false, err
		}
		return lock(turn, unix.LOCK_EX)
	}
	free, err := lock(pass, unix.LOCK_EX)
	if err != nil || !free {
		return false, err
	}
	defer unix.Flock(int(pass.Fd()), unix.LOCK_UN)
	return lock(turn, unix.LOCK_EX)
}

func lock(f *os.File, how int) (bool, error) {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock the voice: %w", err)
	}
	return true, nil
}

func openLock(dir, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the voice: %w", err)
	}
	return f, nil
}

// voiceDir returns the folder of the lock and of the current sound file: in the user's runtime folder, else in the
// temporary folder. All stewards of a user must use the same folder, so it depends on no flag or state folder.
func voiceDir() (string, error) {
	uid := os.Geteuid()
	dir := filepath.Join(os.TempDir(), "steward-"+strconv.Itoa(uid))
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), filepath.Join("/run/user", strconv.Itoa(uid))} {
		if filepath.IsAbs(base) && owned(base, uid) { // sudo may pass on another user's runtime folder
			dir = filepath.Join(base, "steward")
			break
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder of the voice: %w", err)
	}
	if !owned(dir, uid) {
		return "", fmt.Errorf("folder of the voice %s is not ours alone", dir)
	}
	return dir, nil
}

// owned reports whether path is a folder (no link) that we own and that others cannot write to.
func owned(path string, uid int) bool {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return false
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == uid && st.Mode&0o022 == 0
}
