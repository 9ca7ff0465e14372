package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
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
	return withHandle(id, func(g *handle) error {
		if gone, err := g.end(ctx, unix.SIGTERM, grace); gone || err != nil {
			return err
		}
		if gone, err := g.end(ctx, unix.SIGKILL, killWait); gone || err != nil {
			return err
		}
		return fmt.Errorf("still there %s after the kill", killWait)
	})
}

// end signals the process and waits for its end.
func (g *handle) end(ctx context.Context, sig unix.Signal, wait time.Duration) (gone bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if gone, err := g.signal(sig); gone || err != nil {
		return gone, err
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

// Signal sends "SIGTERM" or "SIGKILL" to one process and does not wait. Where the kernel has pidfds, it opens one and
// then checks the identity: the signal reaches this process or none. Signal returns nil if the process is already
// gone. It returns ErrRefused for this process, for process 1, and if the identity cannot be confirmed. It continues
// a stopped process, which would otherwise not handle a SIGTERM.
func Signal(id Identity, sig string) error {
	number, known := map[string]unix.Signal{"SIGTERM": unix.SIGTERM, "SIGKILL": unix.SIGKILL}[sig]
	err := fmt.Errorf("%w: signal %q", ErrRefused, sig)
	if known {
		err = withHandle(id, func(g *handle) error {
			_, err := g.signal(number)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	return nil
}

// withHandle calls f with a handle of the process, unless the process is gone.
func withHandle(id Identity, f func(*handle) error) error {
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
	return f(g)
}

// signal checks the identity and sends the signal. After a SIGTERM it continues a stopped process. It reports whether
// the process was already gone.
func (g *handle) signal(sig unix.Signal) (gone bool, err error) {
	state := Check(g.id)
	switch state {
	case Gone:
		return true, nil
	case Unknown:
		return false, fmt.Errorf("%w: cannot make sure that it is the same process", ErrRefused)
	}
	err = g.send(sig)
	if err == nil && sig == unix.SIGTERM && state == Stopped {
		err = g.send(unix.SIGCONT)
	}
	if errors.Is(err, unix.ESRCH) {
		return true, nil
	}
	if err != nil {
		err = fmt.Errorf("send %s: %w", unix.SignalName(sig), err)
	}
	return false, err
}
