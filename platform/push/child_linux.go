package push

import (
	"os/exec"
	"syscall"
)

// isolate gives the child a session, so that it cannot ask a terminal of ours for a password, and death when we die: a
// hung one must not outlive a killed supervisor, which sends anew.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until the child has ended and leaves it unreaped, so that its number stays its own.
func awaitExit(pid int) bool {
	const byPid = 1 // P_PID
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}
