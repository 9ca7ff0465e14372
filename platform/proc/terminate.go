package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrRefused says that Terminate would not touch the process: it is not surely the one that is meant, or never to be
// ended by us.
var ErrRefused = errors.New("refused")

// killWait bounds the wait after the kill: a process in an uninterruptible read dies when the disk answers.
const killWait = 10 * time.Second

// Terminate ends one process: a request to end (SIGTERM), up to grace to follow it, then SIGKILL. The identity is
// checked before each signal; a process that is gone, or whose number has passed to another, is a success and nothing
// is touched. When ctx ends it returns ctx's error and goes no further.
func Terminate(ctx context.Context, id Identity, grace time.Duration) error {
	if err := terminate(ctx, id, grace); err != nil {
		return fmt.Errorf("terminate process %d: %w", id.PID, err)
	}
	return nil
}

func terminate(ctx context.Context, id Identity, grace time.Duration) error {
	switch {
	case id.PID <= 1 || id.PID == os.Getpid():
		return fmt.Errorf("%w: never this process", ErrRefused)
	case !id.proves():
		return fmt.Errorf("%w: identity lacks its start or boot", ErrRefused)
	}
	g, err := grasp(id)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer g.release()
	if ended, err := step(ctx, g, g.ask, grace); ended || err != nil {
		return err
	}
	if ended, err := step(ctx, g, g.kill, killWait); ended || err != nil {
		return err
	}
	return fmt.Errorf("still there %s after the kill", killWait)
}

// step checks, signals, and waits for the end.
func step(ctx context.Context, g *handle, signal func(State) error, wait time.Duration) (ended bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	switch state := Check(g.id); state {
	case Gone:
		return true, nil
	case Unknown:
		return false, fmt.Errorf("%w: cannot make sure that it is the same process", ErrRefused)
	default:
		err := signal(state)
		if errors.Is(err, ErrGone) {
			return true, nil
		}
		if errors.Is(err, errors.ErrUnsupported) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return g.wait(ctx, wait)
}

// pollGone looks until the process is gone, the time is over (false, nil), or ctx ends.
func pollGone(ctx context.Context, id Identity, wait time.Duration) (bool, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if Check(id) == Gone {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-over.C:
			return Check(id) == Gone, nil
		case <-tick.C:
		}
	}
}
