//go:build !linux

package push

import (
	"os/exec"
	"syscall"
)

// isolate gives the child its own session, so that it cannot prompt for a password on our terminal.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// awaitExit does nothing: the standard library cannot wait for a child without reaping it.
func awaitExit(int) bool { return false }
