//go:build !linux

package child

import (
	"os/exec"
	"syscall"
)

func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// awaitExit does nothing: for Darwin, golang.org/x/sys cannot wait for a child without reaping it.
func awaitExit(int) bool { return false }
