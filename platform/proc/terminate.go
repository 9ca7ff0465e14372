package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrRefused means that the process was not signalled: its identity could not be confirmed, or it must never be ended
// by this program.
var ErrRefused = errors.New("refused")

// killWait limits the wait after SIGKILL: a process in an uninterruptible read ends only when the disk answers.
const killWait = 10 * time.Second

// Terminate ends one process: it sends SIGTERM, waits up to grace, and then sends SIGKILL. It checks the identity
// before each signal; if the process is gone or its pid was reused, it signals nothing and returns nil. When ctx
// ends, Terminate returns ctx's error and stops.
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

// step checks the identity, signals the process, and waits for its end.
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

// pollGone polls until the process is gone, the timeout passes (false, nil), or ctx ends.
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
