package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func census() ([]Process, error) { return table() }

// hasEnv reads the environment a process was started with (proc(5), /proc/pid/environ) piece by piece: it may fill
// megabytes. What may not be read has it not.
func hasEnv(pid int, key, value string) bool {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/environ", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), "environ")
	defer f.Close()
	return holdsEntry(f, key+"="+value)
}

// holdsEntry looks for one whole entry in a list whose entries end with a NUL.
func holdsEntry(r io.Reader, entry string) bool {
	buf := make([]byte, 4<<10)
	var matched int // bytes of entry that the current one begins with; -1 when it is another one
	for {
		n, err := r.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			part, after, whole := bytes.Cut(rest, []byte{0})
			if matched >= 0 && len(part) <= len(entry)-matched && string(part) == entry[matched:matched+len(part)] {
				matched += len(part)
			} else {
				matched = -1
			}
			if !whole {
				break
			}
			if matched == len(entry) {
				return true
			}
			rest, matched = after, 0
		}
		if err != nil || n == 0 {
			return matched == len(entry)
		}
	}
}

// BecomeSubreaper has the orphans among the descendants of this process become its children instead of those of
// process 1. It must then wait for them, or they stay as zombies. For all threads, until the process ends; children
// do not inherit it. Only Linux has it; elsewhere the error is errors.ErrUnsupported.
func BecomeSubreaper() error {
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if errors.Is(err, unix.EINVAL) {
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	return nil
}
