//go:build !linux

package keep

import (
	"syscall"

	"github.com/livhana/steward/platform/proc"
)

// flockHandle is nothing here: a child of ours is waited for, another process is looked at now and then.
type flockHandle struct{}

func (*flockHandle) prepare(*syscall.SysProcAttr) {}
func (*flockHandle) take()                        {}
func (*flockHandle) open(proc.Identity)           {}
func (*flockHandle) close()                       {}

// wait returns at once for a child of ours: its status is what waits.
func (*flockHandle) wait(c *child) bool { return c.own != nil || c.pollGone() }

func (*flockHandle) status(e *Ending) { e.Code, e.Unknown = -1, true }
