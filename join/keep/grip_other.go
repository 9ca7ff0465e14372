//go:build !linux

package keep

import (
	"syscall"

	"github.com/livhana/steward/platform/proc"
)

// flockHandle does nothing here: a child process is waited for, another process is polled.
type flockHandle struct{}

func (*flockHandle) prepare(*syscall.SysProcAttr) {}
func (*flockHandle) take()                        {}
func (*flockHandle) open(proc.Identity)           {}
func (*flockHandle) close()                       {}

// wait returns at once for a child process: status waits for it.
func (*flockHandle) wait(c *child) bool { return c.own != nil || c.pollGone() }

func (*flockHandle) status(e *Ending) { e.Code, e.Unknown = -1, true }
