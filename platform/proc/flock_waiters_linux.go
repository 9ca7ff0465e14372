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

func flockWaiters(path string) ([]Identity, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Stat(real, &st); err != nil {
		return nil, err
	}
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil, err
	}
	file := lockFile{filepath.Base(real), uint64(st.Dev), st.Ino}
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

// flockQueue returns the processes that wait for any flock, each once, sorted. It does not filter by inode, because
// the inodes in the table may differ from those that stat returns; the waiter's descriptors identify the file.
func flockQueue(locks []byte) []int {
	var pids []int
	for line := range bytes.Lines(locks) {
		// "7: -> FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF"
		f := strings.Fields(string(line))
		if len(f) < 7 || f[1] != "->" || f[2] != "FLOCK" {
			continue
		}
		if pid, err := strconv.Atoi(f[5]); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}
