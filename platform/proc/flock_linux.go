package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile identifies a file among the open files of a process.
type lockFile struct {
	base     string
	dev, ino uint64
}

// flocked returns the file that path leads to.
func flocked(path string) (file lockFile, real string, err error) {
	if real, err = filepath.EvalSymlinks(path); err != nil {
		return file, "", err
	}
	var st unix.Stat_t
	err = unix.Stat(real, &st)
	return lockFile{filepath.Base(real), uint64(st.Dev), st.Ino}, real, err
}

func flockHolders(path string) ([]Identity, error) {
	file, real, err := flocked(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil, err
	}
	takers := flockTakers(text, file.ino)
	if len(takers) == 0 && tellsAll(real) {
		return nil, nil
	}
	if held := file.holders(takers); len(takers) > 0 && len(held) == len(takers) {
		return held, nil
	}
	// A taker has ended and the lock is now held by processes that share its open file, or /proc/locks is not
	// conclusive.
	pids, err := numbers("/proc")
	if err != nil {
		return nil, err
	}
	return file.holders(pids), nil
}

func flockHoldersAmong(path string, pids []int) ([]Identity, error) {
	file, _, err := flocked(path)
	if err != nil {
		return nil, err
	}
	return file.holders(pids), nil
}

func flockWaiters(path string) ([]Identity, error) {
	file, _, err := flocked(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil, err
	}
	var found []Identity
	for _, pid := range flockQueue(text) {
		id, err := inspect(pid)
		// A process that already holds this lock waits for a different one.
		if open, holds := file.openedBy(pid); err == nil && open && !holds {
			found = append(found, id)
		}
	}
	return found, nil
}

// flockTakers returns the processes that acquired an flock on an inode. It compares the inode alone: the device is that
// of the file system, which on overlayfs and btrfs differs from the one that stat returns. The taker's descriptors show
// later whether it is really this file.
func flockTakers(locks []byte, ino uint64) []int {
	return flockPIDs(locks, false, ":"+strconv.FormatUint(ino, 10))
}

// flockQueue returns the processes that wait for any flock. It does not filter by inode, because the inodes in the table
// may differ from those that stat returns; the waiter's descriptors identify the file.
func flockQueue(locks []byte) []int { return flockPIDs(locks, true, "") }

// flockPIDs returns the processes in /proc/locks (proc(5)) that hold an flock on a file, or wait for it, each once,
// sorted. The third part of the file's name is the inode.
func flockPIDs(locks []byte, waiting bool, file string) []int {
	var pids []int
	for line := range bytes.Lines(locks) {
		// "7: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF"; a waiter has "->" as its second field.
		f := strings.Fields(string(line))
		waits := len(f) > 1 && f[1] == "->"
		if waits {
			f = slices.Delete(f, 1, 2)
		}
		if waits != waiting || len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], file) {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && (pid > 0 || !waiting) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// tellsAll reports whether no entry in /proc/locks proves that the lock is free. Inside a container, /proc/locks
// leaves out locks whose taker has ended, and on overlayfs the inodes differ from those that stat returns.
func tellsAll(path string) bool {
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil || ns != "pid:[4026531836]" { // the initial pid namespace of every kernel
		return false
	}
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type != unix.OVERLAYFS_SUPER_MAGIC
}

// holders returns those of pids that are alive and have a descriptor that holds an flock on the file.
func (l lockFile) holders(pids []int) []Identity {
	var found []Identity
	for _, pid := range pids {
		if pid <= 0 {
			continue
		}
		if _, holds := l.openedBy(pid); !holds {
			continue
		}
		if id, err := inspect(pid); err == nil {
			found = append(found, id)
		}
	}
	return found
}

// openedBy reports whether a process has the file open, and whether one of its descriptors holds an flock on it.
func (l lockFile) openedBy(pid int) (open, holds bool) {
	home := "/proc/" + strconv.Itoa(pid)
	fds, err := numbers(home + "/fd")
	if err != nil {
		return false, false
	}
	for _, fd := range fds {
		name := strconv.Itoa(fd)
		if !l.is(home + "/fd/" + name) {
			continue
		}
		open = true
		// fdinfo is authoritative for which open file a lock belongs to.
		if text, err := readSmall(home + "/fdinfo/" + name); err == nil && holdsFlock(text) {
			return true, true
		}
	}
	return open, false
}

// is reports whether a descriptor of a process leads to the file. It compares the name first: a stat of every open
// file would also query network file servers that are offline.
func (l lockFile) is(fd string) bool {
	link, err := os.Readlink(fd)
	if err != nil || strings.TrimSuffix(filepath.Base(link), " (deleted)") != l.base {
		return false
	}
	var st unix.Stat_t
	return unix.Stat(fd, &st) == nil && uint64(st.Dev) == l.dev && st.Ino == l.ino
}

// holdsFlock reports whether a descriptor's fdinfo has a "lock:" line with an flock.
func holdsFlock(text []byte) bool {
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) > 2 && f[0] == "lock:" && f[2] == "FLOCK" {
			return true
		}
	}
	return false
}
