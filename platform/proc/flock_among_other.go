//go:build !linux

package proc

import "errors"

func flockHoldersAmong(string, []int) ([]Identity, error) { return nil, errors.ErrUnsupported }
