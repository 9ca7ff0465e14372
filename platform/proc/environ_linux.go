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

// executing bounds what one look at the process table waits for processes in the middle of an exec, all in all.
const executing = time.Second

// bearing tells which processes were started with key=value in their environment. What may not be read has it not.
//
// In the middle of an exec a process has its new memory, and has closed what the new program is not to have, but its
// environment is not in place yet: who started it knows already that it runs, and no mark can be seen. Such a one is
// asked again until the kernel has got further, which takes it some microseconds, or its next turn on a full machine.
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

// hasEnv reads the environment a process was started with (proc(5), /proc/pid/environ) piece by piece: it may fill
// megabytes. It reports besides whether there was nothing in it.
func hasEnv(pid int, entry string) (has, empty bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/environ", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, false
	}
	f := os.NewFile(uintptr(fd), "environ")
	defer f.Close()
	return holdsEntry(f, entry)
}

// mayHaveEnv reports of a process whose environment could be read, and was empty, whether that may have been too early.
func mayHaveEnv(pid int) bool {
	if at, ok := envAt(pid); !ok || at.begin == at.end && at.end != 0 {
		return false // it has ended, has no memory of a program, or was given an empty one
	}
	own, ok := envAt(os.Getpid())
	return ok && own.end != 0 // else this kernel tells of no process where it is
}

// span is where in its memory a process has its environment; both are zero while there is none yet.
type span struct{ begin, end uint64 }

// The flags of a process that has no program's memory: it is ending, or is a thread of the kernel (linux/sched.h).
const (
	flagExiting = 0x4
	flagKernel  = 0x200000
)

// envAt reads fields 3, 9, 50 and 51 of /proc/<pid>/stat; false for a process that has, or soon will have, no memory.
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

// holdsEntry looks for one whole entry in a list whose entries end with a NUL, and reports whether the list is empty.
func holdsEntry(r io.Reader, entry string) (has, empty bool) {
	buf := make([]byte, 4<<10)
	var matched int // bytes of entry that the current one begins with; -1 when it is another one
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
