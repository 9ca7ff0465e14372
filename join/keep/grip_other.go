//go:build !linux

package keep

import (
	"syscall"

	"github.com/livhana/steward/platform/proc"
)

// grip is nothing here: a child of ours is waited for, another process is looked at now and then.
type grip struct{}

func (*grip) prepare(*syscall.SysProcAttr) {}
func (*grip) take()                        {}
func (*grip) open(proc.Identity)           {}
func (*grip) close()                       {}

// wait returns at once for a child of ours: its status is what waits.
func (*grip) wait(c *child) bool { return c.own != nil || c.pollGone() }

func (*grip) status(e *Ending) { e.Code, e.Unknown = -1, true }
