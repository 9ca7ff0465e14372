package proc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/windows"
)

// grip is an open process: its number cannot be reused while the handle is open.
type grip struct {
	id     Identity
	handle windows.Handle
}

func grasp(id Identity) (*grip, error) {
	h, err := open(id.PID, mayLook|windows.PROCESS_TERMINATE)
	if err != nil {
		return nil, err
	}
	start, _, err := lookAt(h)
	if err == nil && start != id.Start {
		err = ErrGone
	}
	if err != nil {
		windows.CloseHandle(h)
		return nil, err
	}
	return &grip{id, h}, nil
}

// ask: a process without a window or a console of ours cannot be asked.
func (g *grip) ask(State) error { return errors.ErrUnsupported }

func (g *grip) kill(State) error {
	if err := windows.TerminateProcess(g.handle, 1); err != nil {
		if ended(g.handle) {
			return ErrGone
		}
		return fmt.Errorf("end process: %w", err)
	}
	return nil
}

func (g *grip) wait(ctx context.Context, wait time.Duration) (bool, error) {
	return pollGone(ctx, g.id, wait)
}

func (g *grip) release() { windows.CloseHandle(g.handle) }
