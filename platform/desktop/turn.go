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

// pollTime is how often a waiting line looks whether the voice is free. Nothing polls when nothing waits.
const pollTime = 25 * time.Millisecond

// takeTurn waits until this user's voice is free, on this machine, whoever uses it. An urgent line holds "urgent"
// (shared) while it waits, and the others let it pass. The lock ends with our process, and no child inherits it.
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

// step tries once.
func step(turn, pass *os.File, urgent bool) (bool, error) {
	if urgent {
		if _, err := lock(pass, unix.LOCK_SH); err != nil { // a glance of another line may deny it; next time
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

// voiceDir is the folder of the lock and of the sound on its way: in the user's runtime folder, else in the
// temporary one. All stewards of a user must come to the same folder, so no flag or state folder plays a part.
func voiceDir() (string, error) {
	uid := os.Geteuid()
	dir := filepath.Join(os.TempDir(), "steward-"+strconv.Itoa(uid))
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), filepath.Join("/run/user", strconv.Itoa(uid))} {
		if filepath.IsAbs(base) && owned(base, uid) { // sudo hands on a runtime folder that is another user's
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

// owned says whether path is a folder (no link) of ours into which nobody else can write.
func owned(path string, uid int) bool {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return false
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == uid && st.Mode&0o022 == 0
}
