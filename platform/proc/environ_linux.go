package proc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// executing limits the total time that one scan of the process table waits for processes in the middle of an exec.
const executing = time.Second

// bearing returns a function that reports whether a process was started with key=value in its environment. If the
// environment is not readable, the answer is false.
//
// In the middle of an exec a process has its new memory and has closed its close-on-exec descriptors, but its
// environment is not yet in place: its parent already knows that it runs, yet no mark is visible. Such a process is
// polled until the kernel has progressed, which takes a few microseconds, or until its next time slice on a busy
// machine.
func bearing(key, value string) func(pid int) bool {
	entry, left := key+"="+value, executing
	return func(pid int) bool {
		for pause := 50 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
			has, empty := hasEnv(pid, entry)
			if !empty || left <= 0 || !mayHaveEnv(pid) {
				return has
			}
			time.Sleep(pause)
			left -= pause
		}
	}
}

// hasEnv reads the environment that a process was started with (proc(5), /proc/pid/environ) in pieces, because it may
// be megabytes long. It also reports whether the environment was empty.
func hasEnv(pid int, entry string) (has, empty bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/environ", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, false
	}
	f := os.NewFile(uintptr(fd), "environ")
	defer f.Close()
	return holdsEntry(f, entry)
}

// mayHaveEnv reports, for a process whose environment was readable but empty, whether the read may have come too
// early.
func mayHaveEnv(pid int) bool {
	if at, ok := envAt(pid); !ok || at.begin == at.end && at.end != 0 {
		return false // it has ended, has no program memory, or was started with an empty environment
	}
	own, ok := envAt(os.Getpid())
	return ok && own.end != 0 // otherwise this kernel reports the location for no process
}

// span is the location of the environment in a process's memory; both ends are zero while none exists yet.
type span struct{ begin, end uint64 }

// Flags of a process without program memory: it is exiting, or is a kernel thread (linux/sched.h).
const (
	flagExiting = 0x4
	flagKernel  = 0x200000
)

// envAt reads fields 3, 9, 50 and 51 of /proc/<pid>/stat. It returns false for a process that has no memory, or soon
// will have none.
func envAt(pid int) (span, bool) {
	text, err := readSmall("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return span{}, false
	}
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 49 || bytes.ContainsAny(f[0], "ZXx") {
		return span{}, false
	}
	flags, err1 := strconv.ParseUint(string(f[6]), 10, 64)
	begin, err2 := strconv.ParseUint(string(f[47]), 10, 64)
	end, err3 := strconv.ParseUint(string(f[48]), 10, 64)
	return span{begin, end}, errors.Join(err1, err2, err3) == nil && flags&(flagExiting|flagKernel) == 0
}

// holdsEntry reports whether a list of NUL-terminated entries contains entry as a whole, and whether the list is
// empty.
func holdsEntry(r io.Reader, entry string) (has, empty bool) {
	buf := make([]byte, 4<<10)
	var matched int // bytes of entry that the current list entry begins with; -1 if it differs
	for empty = true; ; empty = false {
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
				return true, false
			}
			rest, matched = after, 0
		}
		if err != nil || n == 0 {
			return matched == len(entry), empty && n == 0
		}
	}
}
