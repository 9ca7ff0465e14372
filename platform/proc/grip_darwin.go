package proc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// handle identifies a process by its pid: a race of some microseconds remains between a check and its signal.
type handle struct{ id Identity }

func grasp(id Identity) (*handle, error) { return &handle{id}, nil }

// ask sends SIGTERM and continues a stopped process, which would otherwise not handle the signal.
func (g *handle) ask(s State) error {
	err := g.signal(unix.SIGTERM)
	if err == nil && s == Stopped {
		err = g.signal(unix.SIGCONT)
	}
	return err
}

func (g *handle) kill(State) error { return g.signal(unix.SIGKILL) }

func (g *handle) signal(sig unix.Signal) error {
	err := unix.Kill(g.id.PID, sig)
	if errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("send %s: %w", unix.SignalName(sig), err)
	}
	return nil
}

func (g *handle) wait(ctx context.Context, wait time.Duration) (bool, error) {
	return pollGone(ctx, g.id, wait)
}

func (g *handle) release() {}
