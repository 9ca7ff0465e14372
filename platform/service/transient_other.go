//go:build !linux

package service

import (
	"context"
	"errors"
	"fmt"
)

// Units starts transient services; only systemd has them.
type Units struct{}

// OpenUnits says that there are none here.
func OpenUnits(context.Context) (*Units, error) {
	return nil, fmt.Errorf("reach the service manager: %w", errors.ErrUnsupported)
}

// Close does nothing.
func (*Units) Close() {}

// Start is never reached: there are no Units here.
func (*Units) Start(context.Context, Unit) (int, error) { return 0, errors.ErrUnsupported }

// Main is never reached.
func (*Units) Main(context.Context, string) (int, error) { return 0, errors.ErrUnsupported }

// Exit is never reached.
func (*Units) Exit(context.Context, string) (UnitExit, error) {
	return UnitExit{}, errors.ErrUnsupported
}

// Stop is never reached.
func (*Units) Stop(context.Context, string) error { return errors.ErrUnsupported }
