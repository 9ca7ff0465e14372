package desktop

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolate gives the child its own process group.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(p *os.Process) error { return unix.Kill(-p.Pid, unix.SIGKILL) }

// awaitExit does nothing: for Darwin, golang.org/x/sys cannot wait for a child without reaping it.
func awaitExit(int) bool { return false }
