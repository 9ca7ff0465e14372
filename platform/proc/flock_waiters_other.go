//go:build !linux

package proc

import "errors"

func flockWaiters(string) ([]Identity, error) { return nil, errors.ErrUnsupported }
