package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// argvLimit limits what Command and Environ read: the arguments of one process may be megabytes long.
const argvLimit = 64 << 10

// tableRounds limits how often one scan lists the pids: on a busy machine there are always new ones.
const tableRounds = 6

// table lists the pids again until no new ones appear. A listed process may have started another process and ended
// before its row is read: both would be missing, and their tree would seem to have ended.
func table() ([]Process, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	var all []Process
	var before []int
	for range tableRounds {
		pids, err := numbers("/proc")
		if err != nil {
			return nil, err
		}
		fresh := false
		for _, pid := range pids {
			if _, known := slices.BinarySearch(before, pid); known {
				continue
			}
			fresh = true
			if p, err := row(pid); err == nil {
				p.Boot = boot
				all = append(all, p)
			}
		}
		if before = pids; !fresh {
			break
		}
	}
	slices.SortFunc(all, func(a, b Process) int { return a.PID - b.PID })
	// If /proc belongs to another pid namespace, every pid refers to a different process.
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errors.New("/proc does not belong to this pid namespace")
	}
	return all, nil
}

// row reads one process; the caller sets Boot.
func row(pid int) (Process, error) {
	text, err := readSmall("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, err
	}
	p, err := parseRow(text)
	if err != nil {
		return Process{}, err
	}
	p.PID = pid
	p.UID, err = owner(pid)
	return p, err
}

// parseRow reads fields 2 to 7 of /proc/<pid>/stat in addition to those of parseStat.
func parseRow(text []byte) (Process, error) {
	st, err := parseStat(text)
	if err != nil {
		return Process{}, err
	}
	begin, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if begin < 0 || begin > end {
		return Process{}, errors.New("read stat: no name")
	}
	p := Process{Identity: Identity{Start: st.start}, Name: string(text[begin+1 : end])}
	f := bytes.Fields(text[end+1:])
	for i, to := range []*int{&p.Parent, &p.Group, &p.Session} {
		if *to, err = strconv.Atoi(string(f[1+i])); err != nil {
			return Process{}, fmt.Errorf("read stat: field %d: %w", 4+i, err)
		}
	}
	p.Terminal = string(f[4]) != "0"
	// A thread group leader whose main thread has ended shows as zombie while its other threads still run.
	p.Zombie = st.state == 'X' || st.state == 'x' || st.state == 'Z' && st.threads <= 1
	p.Stopped = st.state == 'T' || st.state == 't'
	return p, nil
}

// numbers returns the numeric entries of a /proc folder, sorted.
func numbers(dir string) ([]int, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	found := make([]int, 0, len(names))
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil && n >= 0 {
			found = append(found, n)
		}
	}
	slices.Sort(found)
	return found, nil
}

func cwd(pid int) (string, error) {
	dir, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	if errors.Is(err, unix.ENOENT) {
		// A zombie still has a folder in /proc, but no cwd link.
		return "", ErrGone
	}
	if err != nil {
		return "", absent(pid, err)
	}
	return dir, nil
}

func command(pid int) ([]string, error) { return words(pid, "cmdline") }

func environ(pid int) ([]string, error) { return words(pid, "environ") }

// words reads a list of NUL-terminated words about a process, up to argvLimit.
func words(pid int, file string) ([]string, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/" + file)
	if err != nil {
		return nil, absent(pid, err)
	}
	defer f.Close()
	buf := make([]byte, 0, 4<<10)
	for len(buf) < argvLimit {
		buf = slices.Grow(buf, 4<<10)
		n, err := f.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if n == 0 || err != nil {
			break
		}
	}
	if len(buf) == 0 {
		return nil, nil
	}
	return strings.Split(string(bytes.TrimSuffix(buf, []byte{0})), "\x00"), nil
}

// isFile reports whether a descriptor is a regular file that still has a name. It does not query network file
// systems: an offline server would block the scan for minutes.
func isFile(fd string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, fd, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_NLINK, &st)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink > 0
}

// ticksPerSecond is USER_HZ, which is 100 on every Linux that Go supports.
const ticksPerSecond = 100

func started(id Identity) (time.Time, error) {
	boot, err := bootID()
	switch {
	case err != nil:
		return time.Time{}, err
	case boot != id.Boot:
		return time.Time{}, errors.New("it ran before this boot")
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Time{}, err
	}
	ago := time.Duration(up.Nano()) - time.Duration(id.Start)*(time.Second/ticksPerSecond)
	return time.Now().Add(-ago), nil
}
