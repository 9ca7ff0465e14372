package desktop

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolate gives the child a process group.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(p *os.Process) error { return unix.Kill(-p.Pid, unix.SIGKILL) }

// awaitExit does nothing: Darwin has no wait that leaves a child unreaped in golang.org/x/sys.
func awaitExit(int) bool { return false }
