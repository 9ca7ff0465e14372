package proc

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// handle identifies a process by its pid: a race of some microseconds remains between a check and its signal.
type handle struct{ id Identity }

func grasp(id Identity) (*handle, error) { return &handle{id}, nil }

func (g *handle) send(sig unix.Signal) error { return unix.Kill(g.id.PID, sig) }

func (g *handle) wait(ctx context.Context, wait time.Duration) (bool, error) {
	return pollGone(ctx, g.id, wait)
}

func (g *handle) release() {}
