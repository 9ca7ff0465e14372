package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/livhana/steward/capacity"
)

const (
	// A process whose clock has not advanced has done nothing: it opened no file, started no child and allocated no
	// memory. A process that did little is read again after readLittle. All are read again after readAll, because
	// parents and memory can change without processor time.
	littleWork = 10 * time.Millisecond
	readLittle = 4 * time.Second
	readAll    = time.Minute
	// Written bytes show whether a process makes progress, which is a matter of minutes; limits hardly ever change.
	writtenEvery = 10 * time.Second
	limitEvery   = time.Minute
)

// processTable is the open /proc folder. Files in it are opened relative to it.
type processTable struct {
	dir  *os.File
	name []byte
}

// spentByNow reads the processor time of all threads of a process from its clock: at a tenth of the cost of its stat,
// without a descriptor, and for processes of all users.
func spentByNow(pid int) (time.Duration, clockState) {
	const clockOfProcess = 2 // CPUCLOCK_SCHED; see clock_getcpuclockid(3)
	var t unix.Timespec
	switch err := unix.ClockGettime(int32(^pid<<3|clockOfProcess), &t); {
	case err == nil:
		return time.Duration(t.Nano()), clockRuns
	case errors.Is(err, unix.ESRCH):
		return 0, clockGone
	}
	return 0, clockUnknown
}

// look scans all processes: the clock of each, and the stat of those that are new or have done something.
func (s *scanner) look(procfs string, now time.Time) error {
	if s.buf == nil {
		s.buf = make([]byte, roomy)
	}
	if err := s.table.open(procfs); err != nil {
		return err
	}
	s.missed = nil
	newcomers := len(s.alive)
	if err := s.table.each(s.buf, s.see); err != nil {
		s.alive = s.alive[:newcomers]
		for pid, r := range s.rows { // discard an incomplete table
			if !r.known {
				delete(s.rows, pid)
			}
		}
		return err
	}
	s.bury()
	var up time.Duration
	for i := 0; i < len(s.alive); i++ {
		r := s.alive[i]
		if !s.wants(r, now) {
			continue
		}
		if up == 0 {
			up = sinceBoot()
		}
		s.read(r, up, now)
	}
	s.bury()
	return nil
}

// see records that a process exists.
func (s *scanner) see(pid int) {
	spent, state := time.Duration(0), clockUnknown
	if s.clock != nil {
		spent, state = s.clock(pid)
	}
	if state == clockGone {
		return
	}
	r := s.rows[pid]
	if r == nil {
		r = &row{reading: reading{pid: pid, spent: spent}, due: true}
		s.rows[pid] = r
		s.alive = append(s.alive, r)
	} else {
		r.cores, r.rate = 0, 0
		r.due = r.due || state == clockUnknown || spent < r.spent // the pid belongs to another process
		r.spend(spent, s.gap)
	}
	r.scan = s.number
}

// wants reports whether there may be anything new to read. Full readings are spread over time, so that no single scan
// becomes expensive.
func (s *scanner) wants(r *row, now time.Time) bool {
	worked, age := r.spent-r.spentThen, now.Sub(r.readAt)
	spread := time.Duration(r.pid%16) * time.Second
	return r.due || worked >= littleWork || worked > 0 && age >= readLittle || age >= readAll+spread || age < 0
}

func (s *scanner) read(r *row, up time.Duration, now time.Time) {
	found := reading{pid: r.pid}
	text, err := s.table.read(r.pid, "/stat", s.buf)
	if err == nil {
		err = parseStat(text, uint64(os.Getpagesize()), &found)
	}
	if err != nil {
		s.fail(r, err)
		return
	}
	age := up - time.Duration(found.start)*(time.Second/clockTicks)
	if s.take(r, found, age, now) {
		r.scan = 0 // that process has ended, and another has its pid
		heir := &row{reading: reading{pid: r.pid}, scan: s.number}
		s.rows[r.pid] = heir
		s.alive = append(s.alive, heir)
		s.take(heir, found, age, now)
	}
}

// fail drops a process that has ended meanwhile. Without a free descriptor, an existing process keeps its previous
// data, and a new one is unknown.
func (s *scanner) fail(r *row, err error) {
	if short := errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM); short {
		s.missed = fmt.Errorf("read process %d: %w", r.pid, err)
		if r.known {
			return
		}
	}
	r.scan = 0
}

// lookCloser reads data needed for followed processes only. What cannot be read (of other users, for example) is
// unknown.
func (s *scanner) lookCloser(procfs string, r *row, now time.Time) {
	if age := now.Sub(r.limitAt); r.limitAt.IsZero() || age < 0 || age >= limitEvery || r.files.used() >= 0.5 {
		r.files.limit, r.limitAt = fileLimit(procfs, r.pid), now
		r.filesRan = -1
	}
	if r.files.limit > 0 && (r.filesRan != r.spent || s.clock == nil) {
		r.countFiles(procfs, now)
		r.filesRan = r.spent
	}
	if age := now.Sub(r.writtenAt); r.writtenAt.IsZero() || age < 0 || age >= writtenEvery {
		r.writtenAt = now
		if text, err := s.table.read(r.pid, "/io", s.buf); err == nil {
			r.written, _ = written(text)
		}
	}
}

// written returns the number of bytes that a process has passed to the kernel, for files, pipes and terminals, from its
// io file.
func written(text []byte) (uint64, bool) { return entry(text, "wchar:") }

// fileLimit returns the soft descriptor limit of a process; 0 if unknown.
func fileLimit(procfs string, pid int) uint64 {
	var limit unix.Rlimit
	if procfs == realProc && unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit) == nil {
		return min(limit.Cur, 1<<62)
	}
	text, err := os.ReadFile(procfs + "/" + strconv.Itoa(pid) + "/limits") // readable for every user
	if err != nil {
		return 0
	}
	n, _ := parseLimits(text)
	return n
}

const realProc = "/proc"

// openFiles counts a process's descriptors; not ok without permission.
func openFiles(procfs string, pid int) (int, bool) {
	path := procfs + "/" + strconv.Itoa(pid) + "/fd"
	var st unix.Stat_t
	if procfs == realProc && unix.Stat(path, &st) == nil && st.Size > 0 { // since Linux 6.2 the size is the number
		return int(st.Size), true
	}
	f, err := open(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	return len(names), err == nil
}

func (r *row) name() string { return string(r.comm[:r.commLen]) }

func (s *scanner) same(r *row, id capacity.Identity) bool { return r.start == id.Start }

func (t *processTable) open(procfs string) error {
	if t.dir != nil {
		return nil
	}
	dir, err := open(procfs, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	// In the table of another pid namespace every number means a different process.
	if self, err := os.Readlink(procfs + "/self"); procfs == realProc && (err != nil || self != strconv.Itoa(os.Getpid())) {
		_ = dir.Close()
		return errors.New("/proc does not belong to this pid namespace")
	}
	t.dir = dir
	return nil
}

// each calls f with every pid.
func (t *processTable) each(buf []byte, f func(pid int)) error {
	fd := int(t.dir.Fd())
	defer runtime.KeepAlive(t.dir)
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return err
	}
	for {
		n, err := unix.Getdents(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			var pid int
			if pid, rest = entryPID(rest); pid > 0 {
				f(pid)
			}
		}
	}
}

// entryPID reads one directory entry (linux_dirent64) from the front of b; it returns 0 if the name is not a number.
func entryPID(b []byte) (pid int, rest []byte) {
	const header = 19 // inode 8, offset 8, length 2, type 1; then the NUL-terminated name
	if len(b) < header {
		return 0, nil
	}
	length := int(binary.NativeEndian.Uint16(b[16:]))
	if length <= header || length > len(b) {
		return 0, nil
	}
	for _, c := range b[header:length] {
		if c == 0 {
			break
		}
		if c < '0' || c > '9' || pid > 1<<24 { // the kernel's maximum is 2^22
			return 0, b[length:]
		}
		pid = pid*10 + int(c-'0')
	}
	return pid, b[length:]
}

// read reads a file of a process.
func (t *processTable) read(pid int, name string, buf []byte) ([]byte, error) {
	t.name = append(strconv.AppendInt(t.name[:0], int64(pid), 10), name...)
	fd, err := unix.Openat(int(t.dir.Fd()), string(t.name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd); runtime.KeepAlive(t.dir) }()
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case n <= 0:
			return nil, fs.ErrNotExist
		default:
			return buf[:n], nil
		}
	}
}
