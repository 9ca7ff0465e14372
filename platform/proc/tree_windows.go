package proc

import (
	"errors"
	"fmt"
)

func census() ([]Process, error) { return nil, errors.ErrUnsupported }

func bearing(string, string) func(int) bool { return func(int) bool { return false } }

// BecomeSubreaper: Windows has no parents that inherit children.
func BecomeSubreaper() error { return fmt.Errorf("become subreaper: %w", errors.ErrUnsupported) }
