package push

import (
	"os/exec"
	"syscall"
)

// isolate gives the child its own session, so that it cannot prompt for a password on our terminal, and kills it when
// the supervisor dies: a hung child must not outlive a killed supervisor, which sends again.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until the child has ended and leaves it unreaped, so that its pid is not reused.
func awaitExit(pid int) bool {
	const byPid = 1 // P_PID
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}
