//go:build unix

package proc

import (
	"errors"
	"fmt"
)

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
