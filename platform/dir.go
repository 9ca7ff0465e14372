package platform

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ownerOf returns the owner of a folder and follows links. ok is false if the folder does not exist.
func ownerOf(dir string) (uid int, ok bool) {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return 0, false
	}
	return OwnerOf(info), true
}

// PrivateDir creates dir with mode 0700 if it is missing. It rejects a folder in which another user could replace our
// files: a folder that neither we nor root own, or that group or others can write to. A sticky folder such as /tmp is
// accepted if root or we own it, because there a user cannot remove another user's files. An existing folder keeps
// its mode.
func PrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create private folder: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("check private folder: %w", err)
	}
	owner := OwnerOf(info)
	switch {
	case owner != os.Geteuid() && owner != 0:
		return fmt.Errorf("check private folder: %s belongs to uid %d; choose a folder of your own", dir, owner)
	case info.Mode()&fs.ModeSticky != 0:
		return nil
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("check private folder: others may write to %s; run: chmod 700 %q", dir, dir)
	}
	return nil
}

// FileID returns the device and inode of an open file in the format that systemd uses in JOURNAL_STREAM.
func FileID(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}
