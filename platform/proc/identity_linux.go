package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// look reads one process. Without an error the state is Alive or Stopped.
func look(pid int) (start uint64, state State, err error) {
	text, err := readSmall("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, Unknown, absent(pid, fmt.Errorf("read stat: %w", err))
	}
	st, err := parseStat(text)
	if err != nil {
		return 0, Unknown, err
	}
	// If /proc belongs to another pid namespace, every pid refers to a different process.
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return 0, Unknown, errors.New("/proc does not belong to this pid namespace")
	}
	switch st.state {
	case 'Z':
		// A thread group leader whose main thread has ended shows as zombie while its other threads still run.
		if st.threads > 1 {
			return st.start, Alive, nil
		}
		return 0, Gone, ErrGone
	case 'X', 'x':
		return 0, Gone, ErrGone
	case 'T', 't':
		return st.start, Stopped, nil
	}
	return st.start, Alive, nil
}

// absent turns a failed read into ErrGone only if kill(2) confirms that the process does not exist: under hidepid
// another user's process has no folder in /proc, but a signal to it fails with EPERM instead of ESRCH.
func absent(pid int, why error) error {
	if unix.Kill(pid, 0) == unix.ESRCH {
		return ErrGone
	}
	return why
}

// knownBoot caches the boot id, which every look needs and which cannot change while this process lives.
var knownBoot atomic.Pointer[string]

func bootID() (string, error) {
	if known := knownBoot.Load(); known != nil {
		return *known, nil
	}
	text, err := readSmall("/proc/sys/kernel/random/boot_id")
	id := string(bytes.TrimSpace(text))
	if err == nil && id == "" {
		err = errors.New("empty")
	}
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	knownBoot.Store(&id)
	return id, nil
}

// owner returns the real user id from status. The owner of the /proc folder is not usable: it is root for a
// non-dumpable process.
func owner(pid int) (int, error) {
	text, err := readSmall("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return -1, absent(pid, fmt.Errorf("read status: %w", err))
	}
	_, rest, ok := bytes.Cut(text, []byte("\nUid:\t"))
	end := bytes.IndexByte(rest, '\t')
	if !ok || end < 0 {
		return -1, errors.New("read status: no Uid line")
	}
	uid, err := strconv.ParseUint(string(rest[:end]), 10, 32)
	if err != nil {
		return -1, fmt.Errorf("read status: %w", err)
	}
	return int(uid), nil
}

// stat holds the required fields of /proc/<pid>/stat (proc(5): fields 3, 20 and 22).
type stat struct {
	state   byte
	threads int
	start   uint64
}

// parseStat counts fields from the last parenthesis: a command name may contain blanks, parentheses and newlines.
func parseStat(text []byte) (stat, error) {
	end := bytes.LastIndexByte(text, ')')
	f := bytes.Fields(text[end+1:])
	if end < 0 || len(f) < 20 || len(f[0]) != 1 {
		return stat{}, errors.New("read stat: not in the form of proc(5)")
	}
	threads, err := strconv.Atoi(string(f[17]))
	if err != nil {
		return stat{}, fmt.Errorf("read stat: threads: %w", err)
	}
	start, err := strconv.ParseUint(string(f[19]), 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("read stat: start time: %w", err)
	}
	return stat{state: f[0][0], threads: threads, start: start}, nil
}

// readSmall reads up to 2 KiB of a /proc file in three system calls. os.ReadFile needs three times as many, and this
// runs for every agent in every scan.
func readSmall(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 2048)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}
