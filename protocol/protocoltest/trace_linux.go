package protocoltest

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// traceThread lets strace trace the calling thread, which must be locked, and returns once strace is attached. strace
// stops a process at every call, and a Go program makes some hundred calls before this point: a child that starts under
// strace takes ten times as long.
func traceThread(how, log string) error {
	const setTracer, anybody = 0x59616d61, ^uintptr(0) // prctl(2): Yama lets only ancestors trace by default
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTracer, anybody, 0)
	cmd := exec.Command("strace", "-qq", "-o", log, "-e", how, "-e", "inject=uname:error=EXDEV:when=1", "-p", strconv.Itoa(syscall.Gettid()))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	for range 60_000 { // the error proves that calls are counted; the kernel shows a tracer earlier
		var name syscall.Utsname
		if syscall.Uname(&name) == syscall.EXDEV {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("strace does not trace after a minute")
}
