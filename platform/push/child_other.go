//go:build !linux

package push

import (
	"os/exec"
	"syscall"
)

// isolate gives the child a session, so that it cannot ask a terminal of ours for a password.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// awaitExit does nothing: the standard library has no wait here that leaves a child unreaped.
func awaitExit(int) bool { return false }
