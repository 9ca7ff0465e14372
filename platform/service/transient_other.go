//go:build !linux

package service

import (
	"context"
	"errors"
	"fmt"
)

// Units starts transient services; only systemd has them.
type Units struct{}

// OpenUnits always fails, because there is no systemd.
func OpenUnits(context.Context) (*Units, error) {
	return nil, fmt.Errorf("reach the service manager: %w", errors.ErrUnsupported)
}

// Close does nothing.
func (*Units) Close() {}

// Start is never called, because OpenUnits fails.
func (*Units) Start(context.Context, Unit) (int, error) { return 0, errors.ErrUnsupported }

// Main is never called.
func (*Units) Main(context.Context, string) (int, error) { return 0, errors.ErrUnsupported }

// Exit is never called.
func (*Units) Exit(context.Context, string) (UnitExit, error) {
	return UnitExit{}, errors.ErrUnsupported
}

// Stop is never called.
func (*Units) Stop(context.Context, string) error { return errors.ErrUnsupported }
