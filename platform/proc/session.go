package proc

import (
	"errors"
	"fmt"
	"os"
)

// Signal sends "SIGTERM" or "SIGKILL" to one process and does not wait. Through a pidfd where the kernel has them, and
// the identity is checked after that is open: the signal reaches this process or none. Nil when it is gone already;
// ErrRefused for this process, for process 1, and when nothing proves that it is the same one. A stopped process is
// continued, or it would not hear a SIGTERM.
func Signal(id Identity, sig string) error {
	if err := mayHear(id, sig); err != nil {
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	if err := send(id, sig); err != nil {
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	return nil
}

func mayHear(id Identity, sig string) error {
	switch {
	case id.PID <= 1 || id.PID == os.Getpid():
		return fmt.Errorf("%w: never this process", ErrRefused)
	case !id.proves():
		return fmt.Errorf("%w: identity lacks its start or boot", ErrRefused)
	case sig != "SIGTERM" && sig != "SIGKILL":
		return fmt.Errorf("%w: signal %q", ErrRefused, sig)
	}
	return nil
}

func send(id Identity, sig string) error {
	g, err := grasp(id)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer g.release()
	state := Check(id)
	switch {
	case state == Gone:
		return nil
	case state == Unknown:
		return fmt.Errorf("%w: cannot make sure that it is the same process", ErrRefused)
	case sig == "SIGKILL":
		err = g.kill(state)
	default:
		err = g.ask(state)
	}
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}
