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

// look reads one process. The state is Alive or Stopped when the error is nil.
func look(pid int) (start uint64, state State, err error) {
	text, err := readSmall("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, Unknown, absent(pid, fmt.Errorf("read stat: %w", err))
	}
	st, err := parseStat(text)
	if err != nil {
		return 0, Unknown, err
	}
	// With /proc of another pid namespace, every number means another process.
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return 0, Unknown, errors.New("/proc does not belong to this pid namespace")
	}
	switch st.state {
	case 'Z':
		// A leader whose main thread has ended shows as zombie while its other threads work on.
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

// absent turns a failed read into ErrGone only when the kernel itself knows no such process: under hidepid a foreign
// process has no folder in /proc, but a signal to it is refused instead of finding nobody.
func absent(pid int, why error) error {
	if unix.Kill(pid, 0) == unix.ESRCH {
		return ErrGone
	}
	return why
}

// knownBoot keeps the boot id: it lasts as long as this process, and every look at a process asks for it.
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

// owner is the real user id: the owner of the folder in /proc becomes root for a process that may not be dumped.
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

// stat is the part of /proc/<pid>/stat that is needed here (proc(5): fields 3, 20 and 22).
type stat struct {
	state   byte
	threads int
	start   uint64
}

// parseStat counts fields from the last parenthesis on: a command name may hold blanks, parentheses and line ends.
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

// readSmall reads the beginning of a file of /proc in three system calls; os.ReadFile needs three times as many, and
// this runs for every agent at every look.
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
