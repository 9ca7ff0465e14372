package proc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

func census() ([]Process, error) { return table() }

// BecomeSubreaper makes orphaned descendants of this process its children instead of those of process 1. The process
// must then wait for them, or they remain as zombies. The setting applies to all threads until the process ends;
// children do not inherit it. Linux only; elsewhere the error is errors.ErrUnsupported.
func BecomeSubreaper() error {
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if errors.Is(err, unix.EINVAL) {
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	return nil
}
