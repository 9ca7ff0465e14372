//go:build !linux

package proc

import "errors"

func opened(int) ([]OpenFile, error) { return nil, errors.ErrUnsupported }
