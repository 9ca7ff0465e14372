//go:build !linux

package keep

import (
	"syscall"

	"github.com/livhana/steward/platform/proc"
)

// processHandle does nothing here: a child process is waited for, another process is polled.
type processHandle struct{}

func (*processHandle) prepare(*syscall.SysProcAttr) {}
func (*processHandle) take()                        {}
func (*processHandle) open(proc.Identity)           {}
func (*processHandle) close()                       {}

// wait returns at once for a child process: status waits for it.
func (*processHandle) wait(c *child) bool { return c.process != nil || c.pollGone() }

func (*processHandle) status(e *Ending) { e.Code, e.Unknown = -1, true }
