package push

import (
	"os"
	"syscall"
)

// terminate and kill signal the child's whole process group. The child must not have been reaped.
func terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }
func kill(p *os.Process)      { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
