package measure

import (
	"errors"
	"fmt"
	"io"
	"os"
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
	pids, err := s.pids(procfs)
	if err != nil {
		return err
	}
	s.missed = nil
	for _, pid := range pids {
		s.see(pid)
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
		s.read(procfs, r, up, now)
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

func (s *scanner) read(procfs string, r *row, up time.Duration, now time.Time) {
	found := reading{pid: r.pid}
	text, err := os.ReadFile(processFile(procfs, r.pid, "stat"))
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
		if text, err := os.ReadFile(processFile(procfs, r.pid, "io")); err == nil {
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
	text, err := os.ReadFile(processFile(procfs, pid, "limits")) // readable for every user
	if err != nil {
		return 0
	}
	n, _ := parseLimits(text)
	return n
}

const realProc = "/proc"

// openFiles counts a process's descriptors; not ok without permission.
func openFiles(procfs string, pid int) (int, bool) {
	path := processFile(procfs, pid, "fd")
	var st unix.Stat_t
	if procfs == realProc && unix.Stat(path, &st) == nil && st.Size > 0 { // since Linux 6.2 the size is the number
		return int(st.Size), true
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	return len(names), err == nil
}

func processFile(procfs string, pid int, name string) string {
	return procfs + "/" + strconv.Itoa(pid) + "/" + name
}

func (r *row) name() string { return r.comm }

func (s *scanner) same(r *row, id capacity.Identity) bool { return r.start == id.Start }

// pids lists all processes. The folder stays open: it must be readable when no descriptor is left.
func (s *scanner) pids(procfs string) (pids []int, err error) {
	if s.dir == nil {
		if s.dir, err = openTable(procfs); err != nil {
			return nil, err
		}
	}
	if _, err := s.dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := s.dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

func openTable(procfs string) (*os.File, error) {
	dir, err := os.Open(procfs)
	if err != nil {
		return nil, err
	}
	// In the table of another pid namespace every number means a different process.
	if self, err := os.Readlink(procfs + "/self"); procfs == realProc && (err != nil || self != strconv.Itoa(os.Getpid())) {
		_ = dir.Close()
		return nil, errors.New("/proc does not belong to this pid namespace")
	}
	return dir, nil
}
