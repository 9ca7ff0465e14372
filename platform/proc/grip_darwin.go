package proc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// grip names a process by its number: between a check and its signal there remain some microseconds.
type grip struct{ id Identity }

func grasp(id Identity) (*grip, error) { return &grip{id}, nil }

// ask also continues a stopped process, which would otherwise not hear the request.
func (g *grip) ask(s State) error {
	err := g.signal(unix.SIGTERM)
	if err == nil && s == Stopped {
		err = g.signal(unix.SIGCONT)
	}
	return err
}

func (g *grip) kill(State) error { return g.signal(unix.SIGKILL) }

func (g *grip) signal(sig unix.Signal) error {
	err := unix.Kill(g.id.PID, sig)
	if errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("send %s: %w", unix.SignalName(sig), err)
	}
	return nil
}

func (g *grip) wait(ctx context.Context, wait time.Duration) (bool, error) {
	return pollGone(ctx, g.id, wait)
}

func (g *grip) release() {}
