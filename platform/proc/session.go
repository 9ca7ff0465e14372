package proc

import (
	"errors"
	"fmt"
	"os"
)

// Signal sends "SIGTERM" or "SIGKILL" to one process and does not wait. Where the kernel has pidfds, it opens one and
// then checks the identity: the signal reaches this process or none. Signal returns nil if the process is already
// gone. It returns ErrRefused for this process, for process 1, and if the identity cannot be confirmed. It continues
// a stopped process, which would otherwise not handle a SIGTERM.
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
