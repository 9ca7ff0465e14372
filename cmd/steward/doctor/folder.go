package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/status/terminal"
	"golang.org/x/sys/unix"
)

// folderFacts is what can be found out about a folder without changing it.
type folderFacts struct {
	missing bool
	err     error // why it cannot be examined
	isDir   bool
	mode    fs.FileMode
	owner   int // -1 if the platform has no owners
	read    error
	write   error // if it is missing: why it cannot be created
	free    int64 // bytes left on its disk; -1 if unknown
}

// folderAt examines a folder. It hangs if the disk hangs.
func folderAt(path string) folderFacts {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return folderFacts{missing: true, write: mayMake(path)}
	case err != nil:
		return folderFacts{err: err}
	}
	return folderFacts{isDir: info.IsDir(), mode: info.Mode(), owner: platform.OwnerOf(info), read: mayRead(path), write: mayWrite(path), free: freeAt(path)}
}

// mayMake reports whether a missing folder could be created: it checks the nearest existing folder above it.
func mayMake(path string) error {
	for up := filepath.Dir(path); ; up = filepath.Dir(up) {
		info, err := os.Stat(up)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is not a folder", up)
		case err == nil:
			if err := mayWrite(up); err != nil {
				return fmt.Errorf("%s: %w", up, err)
			}
			return nil
		case up == filepath.Dir(up):
			return err
		}
	}
}

// leastFree is the space that the journal and the memory need on a busy day.
const leastFree = 4 << 20

// judgeFolder checks one of steward's own folders against what the daemon will demand of it.
func judgeFolder(name, path string, f folderFacts, uid int) []Finding {
	switch {
	case f.missing && f.write != nil:
		return []Finding{broken(name, "let yourself write there, or choose another place: STEWARD_STATE_DIR, STEWARD_SOCKET", "%s is not there and cannot be made: %v", path, f.write)}
	case f.missing:
		return []Finding{working(name, "%s is not there yet; it is made at the first start", path)}
	case f.err != nil:
		return []Finding{broken(name, "see that you may enter it: ls -ld "+terminal.ShellQuote(path), "%s cannot be read: %v", path, f.err)}
	case !f.isDir:
		return []Finding{broken(name, "move it away", "%s is not a folder", path)}
	case f.owner >= 0 && f.owner != uid && f.owner != 0:
		return []Finding{broken(name, "choose a folder of your own, or run as its owner", "%s belongs to uid %d, and you are %d", path, f.owner, uid)}
	case f.mode.Perm()&0o022 != 0 && f.mode&os.ModeSticky == 0:
		return []Finding{broken(name, "chmod 700 "+terminal.ShellQuote(path), "others may write to %s (%s), so steward refuses it", path, f.mode)}
	case f.write != nil:
		return []Finding{broken(name, "make it writable for yourself, or free its disk", "%s cannot be written: %v", path, f.write)}
	case f.free >= 0 && f.free < leastFree:
		return []Finding{broken(name, "make room on its disk", "%s lies on a disk with %d KiB left; what steward cannot remember it does not do", path, f.free>>10)}
	}
	return []Finding{working(name, "%s (%s)", path, f.mode)}
}

// mayRead and mayWrite ask the kernel about a folder, because it also knows access lists and read-only disks.
func mayRead(path string) error { return unix.Access(path, unix.R_OK|unix.X_OK) }

func mayWrite(path string) error { return unix.Access(path, unix.W_OK|unix.X_OK) }

// freeAt returns the bytes that this user may still write on the folder's disk; -1 if unknown.
func freeAt(path string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return -1
	}
	return int64(st.Bavail) * int64(st.Bsize)
}
